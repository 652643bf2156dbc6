"""One trial: a run, a fault in the middle of it, what is done about the fault, how the run ends."""

import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio
import nats.errors

from messages.errors import TreadleError
from runtime.bus.streams import ACK_WAIT_S
from tests.faults import people
from tests.faults.cells import Cell
from tests.faults.world import GRACE_S, LEASE_S, PAUSE_S, POLL_S, World, opened
from treadle import Client

WEDGE_S: Final = max(LEASE_S, PAUSE_S, ACK_WAIT_S) + 30.0
"""A run is wedged where so long after it was submitted no fault has fired, or so long after
everybody is up again it has not ended: the longest that anything may rightly take (here: a task
that a killed gateway had taken comes again) and more. The only time that decides a trial."""
_TRIES: Final = 3
"""Of a world that does not come up, which is an error of its own."""
_LAST_S: Final = 2.0
"""A fault may come after the end of the run, as where its result is published."""
_SERVERS: Final = 4
"""So many may die in one world."""
_LOG_LINES: Final = 120


@dataclass
class Trial:
    """What was seen of one trial.

    Attributes:
        fired_at: When the fault fired, by the clock of the process that broke.
        exit_s: How long the process took to end after it was told to.
        shown: ``show`` of the run at its end.
        is_flagged: Its key is among the unresolved ones.
        key_state: What the ledger knew of its key then.
        effects: How often the downstream did it; known once the world is closed.
    """

    number: int
    fired_at: float | None = None
    exit_s: float | None = None
    shown: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    is_flagged: bool = False
    key_state: str = ""
    is_wedged: bool = False
    error: str = ""
    problems: list[str] = field(default_factory=list)
    effects: int = 0

    @property
    def run_id(self) -> str:
        return f"t{self.number}"


async def play(cell: Cell, folder: Path, trials: int) -> list[Trial]:
    """Play so many trials of a cell, in one world for as long as nothing is wedged in it.

    A daemon whose server dies more than five times a minute gives up, as it must; so a world is
    left before that.
    """
    together = _SERVERS if cell.loses_server else trials
    played: list[Trial] = []
    tries = 0
    while len(played) < trials:
        place = folder / f"world-{tries}-{len(played)}"
        await anyio.Path(place).mkdir()
        try:
            async with opened(cell, place, trials) as world:
                first = len(played) + 1
                last = min(trials, len(played) + together)
                played += await _play_in(world, cell, range(first, last + 1))
        except (TimeoutError, AssertionError) as error:  # it did not come up
            tries += 1
            if tries == _TRIES:
                return [*played, Trial(len(played) + 1, error=f"no world: {error!r}")]
    return played


async def _play_in(world: World, cell: Cell, numbers: range) -> list[Trial]:
    """The trials of one world; it is over after one that went wrong."""
    here: list[Trial] = []
    for number in numbers:
        here.append(await _play(world, cell, number))
        if here[-1].is_wedged or here[-1].error:
            break
    else:
        here[-1].problems += await _closed(world)
    counts = await world.effects()
    for trial in here:
        trial.effects = counts.get(trial.run_id, 0)
    return here


async def _closed(world: World) -> list[str]:
    try:
        return await world.close()
    except TimeoutError:
        return ["a process did not end when it was told to"]


async def _play(world: World, cell: Cell, number: int) -> Trial:
    trial = Trial(number)
    try:
        await world.up()
        await world.arm(number)
        await _run(world, cell, trial)
        if trial.is_wedged:
            await _dump(world, cell, trial)
    except Exception:  # noqa: BLE001 -- the suite goes on and says that it failed here
        trial.error = traceback.format_exc()
        _say(f"{cell.name} {trial.run_id}: {trial.error}\n{await _tail(world)}")
    return trial


async def _run(world: World, cell: Cell, trial: Trial) -> None:
    is_submitted = await _submitted(world, cell, trial)
    fired: dict[str, Any] | None = None
    with anyio.move_on_after(WEDGE_S) as limit:
        fired = await _until_fired(world, trial)
    if fired is not None:
        trial.fired_at = fired["at"]
    with anyio.fail_after(2 * WEDGE_S):
        if fired is not None:
            await _mend(world, cell, trial, fired)
        if not is_submitted:  # it broke before we heard that the task was stored
            await people.submit(world.base, cell, trial.run_id)
    if not limit.cancelled_caught:
        with anyio.move_on_after(WEDGE_S) as limit:
            trial.shown = await people.ended(world.data_dir, trial.run_id)
    if limit.cancelled_caught:
        trial.is_wedged = True
        return
    trial.events = await people.history(world.data_dir, trial.run_id)
    trial.is_flagged = trial.run_id in await people.unresolved(world.data_dir)
    trial.key_state = await people.key_state(world.data_dir, cell, trial.run_id)


async def _submitted(world: World, cell: Cell, trial: Trial) -> bool:
    try:
        await people.submit(world.base, cell, trial.run_id)
    except (nats.errors.Error, OSError):
        return False
    return True


async def _until_fired(world: World, trial: Trial) -> dict[str, Any] | None:
    """What the broken process wrote; None where the run ended and nothing broke."""
    fired: dict[str, Any] | None = None
    async with anyio.create_task_group() as tasks:

        async def follow() -> None:
            await people.ended(world.data_dir, trial.run_id)
            await anyio.sleep(_LAST_S)
            tasks.cancel_scope.cancel()

        tasks.start_soon(follow)
        while (fired := await world.fired(trial.number)) is None:  # noqa: ASYNC110 -- a file
            await anyio.sleep(POLL_S)
        tasks.cancel_scope.cancel()
    return fired


# ------------------------------------------------------------------ after the fault
async def _mend(world: World, cell: Cell, trial: Trial, fired: dict[str, Any]) -> None:
    broken = world.broken(fired)
    match cell.action:
        case "kill":
            await broken.process.wait()
            await world.start(broken)
        case "note":  # it goes on; in the middle of its call to the downstream it is killed
            await world.asked(trial.run_id)
            await broken.kill()
            await world.start(broken)
        case "stop":
            await world.stopped(broken)
            if cell.loses_server:
                await world.kill_server()
            else:
                await anyio.sleep(fired["at"] + PAUSE_S - time.time())
            os.kill(broken.process.pid, signal.SIGCONT)
        case "term":
            with anyio.fail_after(WEDGE_S):
                code = await broken.process.wait()
            trial.exit_s = exit_s = time.time() - fired["at"]
            if code != 0:
                trial.problems.append(f"told to stop, it ended with {code}")
            if exit_s > GRACE_S:
                trial.problems.append(f"told to stop, it took {exit_s:.1f} s")
            trial.problems += await world.orphans()
            await world.start(broken)


# ------------------------------------------------------------------ what went wrong
async def _dump(world: World, cell: Cell, trial: Trial) -> None:
    """Everything that says why a run is wedged: its state, its journal, the stacks, the log."""
    text = [f"{cell.name} {trial.run_id} is wedged; fired at {trial.fired_at}"]
    with anyio.move_on_after(5.0):
        try:
            async with Client.connect(world.data_dir) as client:
                text.append(str(await client.show(trial.run_id)))
                text += [str(event) for event in (await client.events(trial.run_id))["events"]]
        except (TreadleError, OSError) as error:
            text.append(f"it cannot be shown: {error}")
    for daemon in world.daemons:
        if daemon.is_running:
            os.kill(daemon.process.pid, signal.SIGABRT)  # faulthandler prints its stacks
            os.kill(daemon.process.pid, signal.SIGCONT)
            with anyio.move_on_after(5.0):
                await daemon.process.wait()
    _say("\n".join([*text, await _tail(world)]))


async def _tail(world: World) -> str:
    return "\n".join((await world.log()).splitlines()[-_LOG_LINES:])


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
