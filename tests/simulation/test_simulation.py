"""A short form of ``python -m tests.simulation``: the long one is run before a release."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.simulation import campaign
from tests.simulation.plants import PLANTS
from tests.simulation.play import Played, play
from tests.simulation.pool import Pool
from tests.simulation.worker import Batch, perform

SEEDS = 60
OFTEN = (
    "no version check",
    "no claim",
    "no durable intent",
    "dead owners keep their runs",
    "Due without timers",
    "executor ignores the grant",
)
"""Planted defects that a few schedules show."""
DECIDES = ("runtime.loop", "runtime.ledger.rules", "runtime.policy", "runtime.tools", "actors")


def test_no_promise_is_broken() -> None:
    done = perform(Batch(first=0, count=SEEDS))
    assert {one.seed: one.violations for one in done.played if one.violations} == {}
    ends = {name for one in done.played for name in one.counts}
    assert {"SUCCEEDED", "FAILED", "CANCELLED", "lost_steps", "keys_taken"} <= ends


def test_a_seed_means_the_same_in_every_process() -> None:
    with Pool(2) as pool:
        one, other = pool.twice(Batch(first=0, count=15))
    assert [played.digest for played in one.played] == [played.digest for played in other.played]
    assert len({played.digest for played in one.played}) == len(one.played)


@pytest.mark.parametrize("name", OFTEN)
def test_a_planted_defect_is_found(name: str) -> None:
    done = perform(Batch(first=0, count=60, plant=name, mix=name, stops_early=True))
    assert done.played[-1].violations
    seed = done.played[-1].seed
    assert play(seed, PLANTS[name].mix).violations == (), "it was the mix, not the defect"


def test_there_are_enough_planted_defects_and_each_says_what_it_breaks() -> None:
    assert len(PLANTS) >= 20
    assert all(plant.without for plant in PLANTS.values())


def test_it_decides_with_the_modules_of_the_daemon() -> None:
    """What ``treadle up`` decides with is what is simulated: the same files, put together alike."""
    listing = (
        "import json, sys; {imports}; print(json.dumps({{n: m.__file__ for n, m in"
        " sys.modules.items() if n.startswith({prefixes!r})}}))"
    )

    def modules(imports: str) -> dict[str, Any]:
        code = listing.format(imports=imports, prefixes=DECIDES)
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        return json.loads(ran.stdout)

    daemon = modules("import treadle.daemon")
    simulator = modules("import tests.simulation.play")
    assert daemon.items() <= simulator.items()
    assert "actors.orchestrator.drive" in daemon
    assert "runtime.ledger.rules.append" in daemon


def test_a_failure_says_how_to_see_it_again(capsys: pytest.CaptureFixture[str]) -> None:
    bad = Played(seed=7, violations=("fork: r0",), digest="", steps=1, last=("1.0 Append r0",))
    campaign._tell(bad, mix="no claim")
    told = capsys.readouterr().err
    assert "python -m tests.simulation --from 7 --seeds 1 --no-plants --mix 'no claim'" in told
    assert "fork: r0" in told
    assert "Append r0" in told
