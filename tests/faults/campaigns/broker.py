"""nats.*: the server is killed, restarted, or comes back empty under more than 100 open runs.

The ledger drives on by itself. Approvals wait in it, results go into whatever stream there is now,
and a task that only the wiped stream knew is gone: it is counted, excused, and submitted again.
"""

import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import nats.errors
from nats.js.errors import NotFoundError

from runtime.bus.server import EmbeddedServer
from runtime.bus.streams import ACK_WAIT_S
from tests.faults.campaigns.app import Inputs
from tests.faults.campaigns.fleet import LOOK_S, QUICK, Fleet, named, opened
from tests.faults.campaigns.judge import judge
from tests.faults.campaigns.tally import Tally
from tests.system.daemon import stream

AWAY_S: Final = 2.0
LONG_AWAY_S: Final = 40.0
WAIT_S: Final = 30.0
LATE: Final = 20
"""Tasks that are submitted while the server dies and comes back."""
DONE: Final = ("SUCCEEDED verified", 1)
ENV: Final = {**QUICK, "TREADLE_RUNTIME__SLOTS": "128"}
MANY: Final = 100
"""So many runs are open, and more, when the server breaks; not in the short form."""
UNHEARD: Final = 5
"""Tasks that are acknowledged just before the store is wiped, while no gateway runs."""


@dataclass(frozen=True)
class Broken:
    """What was so when the server broke.

    Attributes:
        acked: Tasks that had been acknowledged.
        known: Runs that the ledger knew.
    """

    acked: set[str]
    known: set[str]


Break = Callable[[list[str]], Awaitable[Broken]]
"""Breaks the server and mends it; gets the tasks acknowledged so far, a list that grows."""


# ------------------------------------------------------------------ the campaigns
async def killed(folder: Path, tally: Tally, is_short: bool) -> None:
    """The daemon's own server is killed; the daemon starts it again and goes on."""
    async with opened(folder, env=ENV) as fleet:
        await fleet.up()
        pid = fleet.base.process.pid

        async def fault(acked: list[str]) -> Broken:
            os.kill(await fleet.server_pid(), signal.SIGKILL)
            return Broken(set(acked), await _known(fleet))

        await _play(fleet, tally, fault, is_short=is_short)
        if not fleet.base.is_running or fleet.base.process.pid != pid:
            tally.wrong("the daemon ended with its server")


async def restarted(folder: Path, tally: Tally, is_short: bool) -> None:
    """A server outside is told to stop, and started again a while later."""
    await _outside(folder, tally, is_short=is_short, signum=signal.SIGTERM, wipes=False)


async def away(folder: Path, tally: Tally, is_short: bool) -> None:
    """As ``restarted``, for longer than anybody asks in vain: it may cost time and no step."""
    await _outside(
        folder, tally, is_short=is_short, signum=signal.SIGKILL, wipes=False, away_s=LONG_AWAY_S
    )


async def wiped(folder: Path, tally: Tally, is_short: bool) -> None:
    """A server outside is killed, loses its store, and is started again."""
    await _outside(folder, tally, is_short=is_short, signum=signal.SIGKILL, wipes=True)


async def _outside(
    folder: Path,
    tally: Tally,
    *,
    is_short: bool,
    signum: signal.Signals,
    wipes: bool,
    away_s: float = AWAY_S,
) -> None:
    async with opened(folder, env=ENV) as fleet, EmbeddedServer(fleet.data_dir) as server:
        fleet.nats = server.url
        await fleet.up()

        async def fault(acked: list[str]) -> Broken:
            if wipes:
                await _unheard(fleet, acked)
            os.kill(server.pid, signum)
            os.kill(fleet.base.process.pid, signal.SIGCONT)
            await anyio.sleep(away_s)
            broken = Broken(set(acked), await _known(fleet))  # the last acks were on their way
            if wipes:
                store = fleet.data_dir / "nats" / "store"
                await anyio.to_thread.run_sync(shutil.rmtree, store)
            await server.restart()
            return broken

        await _play(fleet, tally, fault, is_short=is_short, wipes=wipes)
        await fleet.base.stop()


async def _unheard(fleet: Fleet, acked: list[str]) -> None:
    """Stop the daemon until a few more tasks are acknowledged, which only the stream knows."""
    os.kill(fleet.base.process.pid, signal.SIGSTOP)
    enough = len(acked) + UNHEARD
    while len(acked) < enough:  # noqa: ASYNC110 -- a list that another task fills
        await anyio.sleep(0.01)


# ------------------------------------------------------------------ one round
async def _play(
    fleet: Fleet, tally: Tally, fault: Break, *, is_short: bool, wipes: bool = False
) -> None:
    count = 15 if is_short else 60
    over = named("over", LATE // 2)
    early = {**named("run", count, pace_s=0.6), **named("ask", count, asks=True)}
    late = named("late", LATE, pace_s=0.05)
    await fleet.submit_surely(over)
    await fleet.until_ended(over)
    await _results(fleet, over)
    await fleet.submit_surely(early)
    open_before = await _until_open(fleet, tally, count)
    if not is_short and open_before <= MANY:
        tally.wrong(f"no more than {open_before} runs were open")
    broken = await _broken(fleet, late, fault)
    still_open = await _open_count(fleet)
    tally.count(open_after_fault=still_open)
    tally.fired += still_open > 0
    runs = {**over, **early, **late}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fleet.approve_all)
        await _account(fleet, tally, runs, broken.acked - broken.known if wipes else set())
        await fleet.submit_surely(runs)  # again, all of them: the same run each
        await fleet.until_ended(runs)
        tasks.cancel_scope.cancel()
    await _results(fleet, runs)
    tally.count(results=len(runs))
    await judge(fleet, tally, dict.fromkeys(runs, DONE))


async def _broken(fleet: Fleet, late: Mapping[str, Inputs], fault: Break) -> Broken:
    """The fault, amid submissions."""
    acked: list[str] = []
    broken: list[Broken] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_submit_late, fleet, late, acked)
        while len(acked) < LATE // 4:  # noqa: ASYNC110 -- a list that another task fills
            await anyio.sleep(0.01)
        broken.append(await fault(acked))
    return broken[0]


async def _account(
    fleet: Fleet, tally: Tally, runs: Mapping[str, Inputs], doubtful: set[str]
) -> None:
    """What became of every acknowledged task; only one that no run existed for may be gone.

    Args:
        fleet: Where they were submitted.
        tally: Where it is counted.
        runs: All of them.
        doubtful: Acknowledged before the fault, and no run yet when the store was wiped.
    """
    await _until_known(fleet, runs, doubtful)
    missing = set(runs) - await _known(fleet)
    tally.count(acknowledged=len(runs), excused=len(missing & doubtful))
    tally.count(lost=len(missing - doubtful))
    for run_id in missing - doubtful:
        tally.wrong(f"{run_id}: its task was acknowledged and is lost")


async def _submit_late(fleet: Fleet, late: Mapping[str, Inputs], acked: list[str]) -> None:
    for run_id, inputs in late.items():
        await fleet.submit_surely({run_id: inputs})
        acked.append(run_id)


async def _until_open(fleet: Fleet, tally: Tally, count: int) -> int:
    """Wait until those that ask wait for a person and the others have come somewhere.

    Returns:
        How many runs are open then.
    """
    async with fleet.book() as book:
        while True:
            rows = await book.open_rows()
            states = [row.summary.status.value for row in rows.values()]
            is_moving = sum(row.version > 0 for row in rows.values()) == len(rows)
            if states.count("AWAITING_APPROVAL") == count and is_moving:
                tally.count(open=len(rows))
                return len(rows)
            await anyio.sleep(LOOK_S)


async def _known(fleet: Fleet) -> set[str]:
    async with fleet.book() as book:
        return set(await book.rows())


async def _open_count(fleet: Fleet) -> int:
    async with fleet.book() as book:
        return len(await book.open_rows())


async def _until_known(fleet: Fleet, runs: Mapping[str, Inputs], doubtful: set[str]) -> None:
    """Wait for every run but the doubtful ones, and for those as long as a task may take."""
    async with fleet.book() as book:
        for wanted, limit_s in ((set(runs) - doubtful, WAIT_S), (set(runs), ACK_WAIT_S + 2.0)):
            with anyio.move_on_after(limit_s):
                while wanted - set(await book.rows()):  # noqa: ASYNC110 -- another process
                    await anyio.sleep(LOOK_S)


async def _results(fleet: Fleet, runs: Mapping[str, Inputs]) -> None:
    """Wait until the result of each run is in the results stream that exists now."""
    left = set(runs)
    while left:
        with suppress(nats.errors.Error, OSError):
            async with fleet.base.observer() as client:
                for run_id in sorted(left):
                    subject = f"treadle.results.default.{run_id}"
                    with suppress(NotFoundError):
                        await stream(client).get_last_msg("TREADLE_RESULTS", subject, direct=True)
                        left.discard(run_id)
        await anyio.sleep(LOOK_S)
