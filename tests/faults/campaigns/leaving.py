"""handover, continue.orchestrator: one of two orchestrators goes, politely or not.

Told to stop, it gives its runs back and the other drives them on at once, without a lost step.
Killed, its runs continue once its lease is over.
"""

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio

from tests.faults.campaigns.app import Inputs
from tests.faults.campaigns.fleet import Fleet, named, opened
from tests.faults.campaigns.judge import judge
from tests.faults.campaigns.tally import Tally

PACE_S: Final = 0.6
DONE: Final = ("SUCCEEDED verified", 1)
LONG_S: Final = 30.0
"""A lease that nobody waits for: whoever continues before it did so because of the hand-over."""
LEASE_S: Final = 5.0
SOON_S: Final = PACE_S + 1.0 + 2.0
"""A step in flight, a look at what is due, and a slow machine."""
NAMES: Final = ("own-1", "own-2")


@dataclass(frozen=True)
class Gone:
    """Who was signalled, when, and with which runs in hand.

    Attributes:
        name: Of the process.
        at: Epoch seconds.
        held: Runs that it drove and that had not ended.
    """

    name: str
    at: float
    held: set[str]


async def handover(folder: Path, tally: Tally, is_short: bool) -> None:
    """SIGTERM in the middle of many drives."""
    env = {"TREADLE_RUNTIME__LEASE_S": str(LONG_S)}
    runs = named("hand", 16 if is_short else 60, pace_s=PACE_S)
    async with opened(folder, role="orchestrator", names=NAMES, env=env) as fleet:
        gone = await _leave(fleet, runs, signal.SIGTERM)
        with anyio.fail_after(40):
            code = await fleet.others[gone.name].process.wait()
        tally.took("exit", time.time() - gone.at)
        if code != 0:
            tally.wrong(f"told to stop, it ended with {code}")
        await fleet.until_ended(runs)
        await _gaps(fleet, tally, "handed_over", gone)
        tally.fired += len(gone.held) > 0
        await _no_step_lost(fleet, tally, runs)
        await judge(fleet, tally, dict.fromkeys(runs, DONE))
    if not is_short:
        tally.promise("handed_over", SOON_S)


async def continued(folder: Path, tally: Tally, is_short: bool) -> None:
    """SIGKILL in the middle of many drives, with the default lease."""
    runs = named("cont", 16 if is_short else 40, pace_s=PACE_S)
    async with opened(folder, role="orchestrator", names=NAMES) as fleet:
        gone = await _leave(fleet, runs, signal.SIGKILL)
        await fleet.until_ended(runs)
        await _gaps(fleet, tally, "continued", gone)
        tally.fired += len(gone.held) > 0
        await judge(fleet, tally, dict.fromkeys(runs, DONE))
    if not is_short:
        tally.promise("continued", LEASE_S + 2.0)


async def _leave(fleet: Fleet, runs: Mapping[str, Inputs], signum: signal.Signals) -> Gone:
    """Signal one of them while it drives many."""
    await fleet.up()
    await fleet.submit_surely(runs)
    name = await fleet.until_one_drives(NAMES, len(runs) // 4)
    await anyio.sleep(2 * PACE_S)  # into the middle of it
    at = time.time()
    os.kill(fleet.others[name].process.pid, signum)
    async with fleet.book() as book:
        still_open = set(await book.open_rows())
    return Gone(name, at, await fleet.driven_by(name) & still_open)


async def _gaps(fleet: Fleet, tally: Tally, name: str, gone: Gone) -> None:
    """How long after the signal the other took each of the runs."""
    [other] = set(NAMES) - {gone.name}
    first: dict[str, float] = {}
    for line in await fleet.lines(other, "run_taken"):
        if line["run_id"] in gone.held and line["at"] >= gone.at:
            first.setdefault(line["run_id"], line["at"] - gone.at)
    tally.count(held=len(gone.held), taken_on=len(first))
    for seconds in first.values():
        tally.took(name, seconds)


async def _no_step_lost(fleet: Fleet, tally: Tally, runs: Mapping[str, Inputs]) -> None:
    async with fleet.book() as book:
        rows = await book.rows()
    burnt = [run_id for run_id in runs if rows[run_id].summary.step_count != 11]
    tally.count(steps_lost=len(burnt))
    for run_id in burnt:
        tally.wrong(f"{run_id}: {rows[run_id].summary.step_count} steps, not 11")
