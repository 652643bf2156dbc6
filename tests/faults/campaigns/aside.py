"""poison: a run that kills whoever drives it is set aside, no other. paused: nothing is driven."""

from pathlib import Path
from typing import Any, Final

import anyio

from tests.faults.campaigns.fleet import LOOK_S, QUICK, Fleet, named, opened
from tests.faults.campaigns.judge import judge
from tests.faults.campaigns.tally import Tally
from treadle import Client

DEATHS: Final = 3
"""The default of ``runtime.poison_deaths``."""
DONE: Final = ("SUCCEEDED verified", 1)
POISON: Final = ("FAILED poison", 0)
PAUSED_S: Final = 3.0


async def poison(folder: Path, tally: Tally, is_short: bool) -> None:
    """One run kills the whole daemon each time; a caretaker starts it again each time."""
    deadly = named("deadly", 1, is_deadly=True)
    others = named("other", 10 if is_short else 30, pace_s=0.3)
    async with opened(folder, env=QUICK) as fleet:
        await fleet.up()
        await fleet.submit_surely(others)
        async with fleet.book() as book:
            while not all(row.version > 1 for row in (await book.rows()).values()):  # noqa: ASYNC110 -- another process
                await anyio.sleep(LOOK_S)
        await fleet.submit(deadly)  # whoever is killed may not have acknowledged it
        deaths = await _deaths(fleet, [*others, *deadly])
        tally.count(deaths=deaths)
        tally.fired += deaths > 0
        if deaths != DEATHS:
            tally.wrong(f"it killed {deaths} daemons, not {DEATHS}")
        await judge(fleet, tally, {**dict.fromkeys(others, DONE), **dict.fromkeys(deadly, POISON)})
        async with Client.connect(fleet.data_dir) as client:
            letters: list[dict[str, Any]] = (await client.letters())["letters"]
        found = [letter for letter in letters if letter["subject"].endswith("deadly1")]
        tally.count(dead_letters=len(found))
        if len(found) != 1:
            tally.wrong(f"{len(found)} dead letters say that it was set aside: {letters}")


async def _deaths(fleet: Fleet, runs: list[str]) -> int:
    """Start the daemon again whenever it dies, until every run has ended."""
    deaths = 0
    async with anyio.create_task_group() as tasks:

        async def follow() -> None:
            await fleet.until_ended(runs)
            tasks.cancel_scope.cancel()

        tasks.start_soon(follow)
        while True:
            await fleet.base.process.wait()
            deaths += 1
            await fleet.base.up()
    return deaths


async def paused(folder: Path, tally: Tally, is_short: bool) -> None:
    """``up --paused``: tasks become runs, nobody drives them, over a crash, until ``resume``."""
    runs = named("held", 10 if is_short else 40)
    async with opened(folder, env=QUICK) as fleet:
        await fleet.up("--paused")
        await fleet.submit_surely(runs)
        await _nothing(fleet, tally, len(runs))
        await fleet.base.kill()
        await fleet.base.up()
        await _nothing(fleet, tally, len(runs))
        async with Client.connect(fleet.data_dir) as client:
            await client.resume(everything=True)
        await fleet.until_ended(runs)
        await judge(fleet, tally, dict.fromkeys(runs, DONE))


async def _nothing(fleet: Fleet, tally: Tally, count: int) -> None:
    async with fleet.book() as book:
        while len(await book.rows()) < count:  # noqa: ASYNC110 -- another process
            await anyio.sleep(LOOK_S)
        await anyio.sleep(PAUSED_S)
        rows = await book.rows()
    moved = [row.run_id for row in rows.values() if row.version > 0 or row.owner is not None]
    tally.count(held=len(rows), driven_while_paused=len(moved))
    tally.fired = tally.trials
    for run_id in moved:
        tally.wrong(f"{run_id} was driven while everything was paused")
