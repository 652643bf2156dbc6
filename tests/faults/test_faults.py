"""A short form of the suite, one trial of a few cells; and that the table of cells is whole."""

import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import pytest

from messages.subjects import ROLES
from tests.faults.cells import CELLS, EFFECTS, Cell, chosen
from tests.faults.report import is_right, summary
from tests.faults.trial import Trial

ROOT = Path(__file__).parents[2]
SHORT = (
    "B.replay",
    "C.lookup.executor",
    "B.blind.executor",
    "late.lookup",
    "pause.B.lookup",
    "role.planner",
    "nats.C.replay",
    "term.tool",
)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="finds processes in /proc")
@pytest.mark.anyio
@pytest.mark.timeout(300)
async def test_one_trial_of_a_few_cells() -> None:
    cells = [part for name in SHORT for part in ("--cell", name)]
    suite = [sys.executable, "-m", "tests.faults", "--trials", "1", "-o", "json", *cells]
    done = await anyio.run_process(suite, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    answer = json.loads(done.stdout)
    assert set(answer["cells"]) == set(SHORT)
    assert answer["totals"]["fired"] == len(SHORT)
    assert answer["totals"]["effects_over_1"] == 0


def test_there_is_a_cell_for_each_window_of_each_effect_and_for_each_role() -> None:
    names = {cell.name for cell in CELLS}
    assert len(names) == len(CELLS)
    windows = {f"{window}.{effect}" for window, effect in product("ABC", EFFECTS)}
    sides = {f"{name}{side}" for name in windows for side in ("", ".executor")}
    assert names >= sides | {f"pause.{name}" for name in sides}
    assert {cell.place for cell in CELLS if cell.name.startswith("role.")} == set(ROLES)


# ------------------------------------------------------------------ the report
def ended(status: str = "SUCCEEDED", reason: str = "verified", **more: Any) -> Trial:
    shown = {
        "status": status,
        "reason": reason,
        "step_count": 1,
        "updated_at": "2026-01-01T00:00:02.500Z",
    }
    start = 1767225600.0  # two and a half seconds earlier
    seen: dict[str, Any] = {"fired_at": start, "shown": shown, "effects": 1, **more}
    return Trial(1, **seen)


def cell(name: str) -> Cell:
    (found,) = chosen([name])
    return found


def test_a_right_end_is_right() -> None:
    row = summary(cell("B.replay"), [ended(), ended()])
    assert (row["succeeded"], row["recovery_p50_s"], row["notes"]) == (2, 2.5, [])
    assert is_right(row)


WRONG: dict[str, tuple[str, Trial, str]] = {
    "twice": ("B.replay", ended(effects=2), "effects_over_1"),
    "never": ("B.replay", ended(effects=0), "wrong_end"),
    "another end": ("B.replay", ended("FAILED", "unknown_effect", is_flagged=True), "wrong_end"),
    "a guess": ("B.blind.executor", ended(), "wrong_end"),
    "nobody was told": ("B.blind.executor", ended("FAILED", "unknown_effect"), "wrong_end"),
    "never broken": ("B.replay", ended(fired_at=None), "wrong_end"),
    "wedged": ("B.replay", ended(is_wedged=True), "wedged"),
    "a broken suite": ("B.replay", ended(error="OSError"), "errors"),
    "a lost step": (
        "term.tool",
        ended(events=[{"kind": "step_lost", "at": "2026-01-01T00:00:01Z"}]),
        "wrong_end",
    ),
    "an exit code": ("term.tool", ended(problems=["it ended with 1"]), "wrong_end"),
}


@pytest.mark.parametrize(("name", "trial", "counted"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_end_is_counted(name: str, trial: Trial, counted: str) -> None:
    row = summary(cell(name), [ended(), trial] if name != "B.blind.executor" else [trial])
    assert row[counted] == 1
    assert row["notes"]
    assert not is_right(row)
