"""notice.*: a planner or an executor is killed in the middle of a call, and a peer is there.

Measured is the time from the kill to the first entry of the run after it: the silence was noticed,
the question put again, and what came of it written down. So it is a little more than the notice.
"""

from pathlib import Path
from typing import Final

import anyio

from runtime.faults import Point
from tests.faults.campaigns.fleet import LOOK_S, Fleet, named, opened
from tests.faults.campaigns.judge import judge
from tests.faults.campaigns.tally import Tally
from tests.faults.marks import fired

HEARTBEAT_S: Final = 1.0
"""The default, and three of them are the default of ``runtime.silence_s``."""
SLACK_S: Final = 1.0
"""For putting the question again, writing the answer, and a slow machine."""
POINTS: Final[dict[str, Point]] = {
    "planner": "planner.before_model",
    "executor": "executor.before_read",
}
DONE: Final = ("SUCCEEDED verified", 1)


async def play(role: str, folder: Path, tally: Tally, is_short: bool) -> None:
    """One round: so many kills, one after the other."""
    kills = 1 if is_short else 10
    marks = [folder / f"kill-{number + 1}" / "fired" for number in range(kills)]
    faults = ",".join(f"{POINTS[role]}=kill:{mark}" for mark in marks)
    runs = named("note", kills)
    names = [f"{role}-1", f"{role}-2"]
    async with opened(folder, role=role, names=names, env={"TREADLE_FAULTS": faults}) as fleet:
        await fleet.up()
        for mark, (run_id, inputs) in zip(marks, runs.items(), strict=True):
            await anyio.Path(mark.parent).mkdir()
            await fleet.submit_surely({run_id: inputs})
            while (seen := await fired(mark)) is None:  # noqa: ASYNC110 -- a file
                await anyio.sleep(LOOK_S)
            await fleet.until_ended([run_id])
            tally.took("noticed", await _noticed(fleet, run_id, seen["at"]))
            await _mend(fleet)
        tally.fired += 1
        await judge(fleet, tally, dict.fromkeys(runs, DONE))
    if not is_short:
        tally.promise("noticed", 3 * HEARTBEAT_S + SLACK_S)


async def _noticed(fleet: Fleet, run_id: str, at: float) -> float:
    async with fleet.book() as book:
        return min(entry.at - at for entry in await book.entries(run_id) if entry.at >= at)


async def _mend(fleet: Fleet) -> None:
    for name, daemon in fleet.others.items():
        if not daemon.is_running:
            await daemon.process.wait()
            await fleet.start(name)
