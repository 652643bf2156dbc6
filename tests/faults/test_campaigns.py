"""A short form of the campaigns, and what their judge and their tally count."""

import json
import sys
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from messages.events import Observed, StepLost
from messages.ledger import Entry
from messages.parts import Amount
from runtime.views.events import entry_lines
from tests.faults.campaigns.fleet import named, opened
from tests.faults.campaigns.heard import Heard
from tests.faults.campaigns.judge import twice
from tests.faults.campaigns.table import CAMPAIGNS
from tests.faults.campaigns.tally import Tally
from tests.faults.report import is_right

ROOT = Path(__file__).parents[2]
SHORT = ("owners.2", "nats.wiped", "poison", "handover", "outage")
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds processes in /proc"),
]


@pytest.mark.timeout(300)
async def test_one_short_round_of_a_few_campaigns() -> None:
    named_ones = [part for name in SHORT for part in ("--cell", name)]
    suite = [sys.executable, "-m", "tests.faults", "--quick", "--jobs", "4", "-o", "json"]
    done = await anyio.run_process([*suite, *named_ones], cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    rows = json.loads(done.stdout)["cells"]
    assert set(rows) == set(SHORT)
    assert rows["owners.2"]["figures"]["conflicts"] > 0
    assert rows["owners.2"]["figures"]["announced"] > 0


@pytest.mark.timeout(120)
async def test_a_restarted_daemon_does_not_wait_for_the_lease_of_the_killed_one(
    tmp_path: Path,
) -> None:
    runs = named("again", 3, pace_s=0.3, writes=False)
    async with opened(tmp_path, env={"TREADLE_RUNTIME__LEASE_S": "600"}) as fleet:
        await fleet.up()
        await fleet.submit_surely(runs)
        await fleet.until_one_drives(["base"], len(runs))
        await fleet.base.kill()
        await fleet.base.up()
        with anyio.fail_after(60):
            await fleet.until_ended(runs)


def test_every_campaign_has_a_name_of_its_own() -> None:
    assert len({campaign.name for campaign in CAMPAIGNS}) == len(CAMPAIGNS)


# ------------------------------------------------------------------ what they count
def entry(why: str) -> Entry:
    lost = StepLost(step=1, charged=Amount(), why=why)
    return Entry(tenant="t", run_id="r", version=3, append_id="", at=1.0, events=(lost,))


def test_what_was_announced_and_is_not_in_the_journal_is_a_fork() -> None:
    heard = Heard()
    for why in ("this owner's", "that owner's"):
        for line in entry_lines(entry(why)):
            heard.add(line)
    [fork] = heard.not_in("r", [entry("this owner's")])
    assert "that owner's" in fork


def test_two_histories_woven_into_one_are_a_fork() -> None:
    seen = Observed(step=2, ordinal=0, kind="ok")
    journal = [entry("lost"), replace(entry("lost"), events=(seen,))]
    assert twice("r", journal) == []
    assert twice("r", [*journal, journal[-1]]) == ["r: call 0 of step 2 is observed 2 times"]


def test_a_promise_is_broken_by_one_late_time_and_by_none_at_all() -> None:
    tally = Tally(trials=1, fired=1)
    assert is_right(tally.row())
    tally.promise("noticed", 3.0)
    assert tally.row()["wrong_end"] == 1
    tally.took("noticed", 2.9)
    assert is_right(tally.row())
    tally.took("noticed", 3.1)
    assert tally.row()["notes"] == ["noticed: 1 of 2 over 3 s, at worst 3.10"]


def test_a_campaign_whose_fault_never_fired_is_not_right() -> None:
    assert not is_right(Tally(trials=1).row())
