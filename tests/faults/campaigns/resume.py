"""resume.100: a hundred runs interrupted in iteration 6 of 10, and how fast they end after that.

As the peers were measured: each run is ten iterations of an instant model and an instant tool, then
a final decision. In iteration 6 every run waits inside the tool; the whole daemon is killed with
SIGKILL and started again. The first time starts when the daemon says that it is ready, the second
with its process. Times and sizes are the
defaults but for the slots, since all runs must be in the tool at once; for the same reason a second
executor is there until the kill. It is a measurement and no promise.
"""

import time
from pathlib import Path
from typing import Final

import anyio

from tests.faults.campaigns.app import GATE_AT
from tests.faults.campaigns.fleet import LOOK_S, Fleet, named, opened
from tests.faults.campaigns.judge import judge
from tests.faults.campaigns.tally import Tally

ENV: Final = {"TREADLE_RUNTIME__SLOTS": "128"}
PEERS: Final = {
    "Restate 1.7.12": [1.5, 1.8],
    "LangGraph 1.2, PostgreSQL": [2.9, 3.9],
    "LangGraph 1.2, SQLite": [6.3, 8.9],
    "DBOS 3.4, PostgreSQL": [10.5, 11.1],
    "DBOS 3.4, SQLite": [11.6, 12.4],
}
"""The same work on a machine of this kind, seconds from ready and from the start: the best pass of
each, in noisy minutes some of them; differences below two- or threefold are not established."""
DONE: Final = ("SUCCEEDED verified", 0)


async def play(folder: Path, tally: Tally, is_short: bool) -> None:
    """One round."""
    gate = folder / "gate"
    runs = named("resume", 20 if is_short else 100, writes=False, gate=str(gate))
    async with opened(folder, role="executor", names=["more"], env=ENV) as fleet:
        fleet.is_whole = True
        await fleet.up()
        await fleet.submit_surely(runs)
        await _until_inside(fleet, len(runs))
        await fleet.base.kill()
        await fleet.others["more"].kill()
        await anyio.Path(gate).touch()
        started = time.time()
        await fleet.base.up()
        await fleet.until_ended(runs)
        ready = (await fleet.lines("base", "ready"))[-1]["at"]
        async with fleet.book() as book:
            rows = await book.rows()
        first = min(
            line["at"] for line in await fleet.lines("base", "run_taken") if line["at"] > started
        )
        last = max(row.updated_at for row in rows.values())
        tally.took("resume_from_ready", last - ready)
        tally.took("resume_from_start", last - started)
        tally.took("first_taken_from_ready", max(0.0, first - ready))
        tally.beside["peers_from_ready_and_start_s"] = PEERS
        tally.fired += 1
        await judge(fleet, tally, dict.fromkeys(runs, DONE))


async def _until_inside(fleet: Fleet, count: int) -> None:
    """Every run has closed five iterations and is in the sixth, which is not durable yet."""
    async with fleet.book() as book:
        while True:
            rows = await book.rows()
            if len(rows) == count and all(row.version == GATE_AT for row in rows.values()):
                break
            await anyio.sleep(LOOK_S)
    await anyio.sleep(1.0)
