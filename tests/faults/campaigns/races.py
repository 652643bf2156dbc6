"""owners.N: orchestrators race for runs, and each in turn is stopped past its lease and goes on.

Whoever was stopped wakes with runs in hand that somebody else has driven on. It must find out by
the ledger's refusal: a conflict, which it logs with the run it lost by it.
"""

import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import anyio

from tests.faults.campaigns.fleet import QUICK, Fleet, named, opened
from tests.faults.campaigns.heard import listening
from tests.faults.campaigns.judge import judge
from tests.faults.campaigns.tally import Tally

PAUSE_S: Final = 2.2
"""The lease is 1 s; the others have another to take the runs and to drive them on."""
PACE_S: Final = 0.4
SETTLE_S: Final = 1.0
DONE: Final = ("SUCCEEDED verified", 1)


async def play(owners: int, folder: Path, tally: Tally, is_short: bool) -> None:
    """One round."""
    names = [f"own-{number + 1}" for number in range(owners)]
    runs = named("race", 30 if is_short else 60, pace_s=PACE_S)
    async with opened(folder, role="orchestrator", names=names, env=QUICK) as fleet:
        await fleet.up()
        async with listening(fleet.base) as heard:
            await fleet.submit_surely(runs)
            for some in [names] if is_short else [[name] for name in names]:
                await _pause(fleet, some, tally, least=max(2, len(runs) // (4 * owners)))
            await fleet.until_ended(runs)
            await anyio.sleep(SETTLE_S)  # whoever was late says so
        lost = [line for name in names for line in await fleet.lines(name, "run_lost")]
        conflicts = sum(line.get("why") == "conflict" for line in lost)
        tally.count(conflicts=conflicts, lost_otherwise=len(lost) - conflicts)
        tally.fired += conflicts > 0
        await judge(fleet, tally, dict.fromkeys(runs, DONE), heard)


async def _pause(fleet: Fleet, names: Iterable[str], tally: Tally, least: int) -> None:
    """Stop one of the owners in the middle of so many drives, for longer than its lease."""
    with anyio.move_on_after(10):  # the last ones may find nothing left to drive
        name = await fleet.until_one_drives(names, least)
        tally.count(pauses=1, paused_with=len(await fleet.driven_by(name)))
        process = fleet.others[name].process
        os.kill(process.pid, signal.SIGSTOP)
        try:
            await anyio.sleep(PAUSE_S)
        finally:
            os.kill(process.pid, signal.SIGCONT)
