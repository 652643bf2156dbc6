"""Keeping actors alive, and stopping them in an order that loses nothing.

A child that crashes is started again after a pause that doubles each time. More than five restarts
within a minute, over all children, end the process: whatever is wrong will not go away by itself,
and somebody outside should see it. Stopping happens in phases, each reached by every child before
any child enters the next.
"""

import os
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum

import anyio

from messages.errors import SupervisorGaveUp
from runtime.clock import Chance, Clock
from runtime.log import Level, Line, describe, log

MAX_RESTARTS = 5
RESTART_WINDOW_S = 60.0
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0
PHASE_S = 5.0
"""How long a phase without a grace period of its own may take."""


class StopReason(StrEnum):
    """Why the supervisor stops its children."""

    SIGNAL = "signal"
    """SIGTERM or SIGINT."""
    ASKED = "asked"
    """Somebody in this process called ``stop``."""
    ENDED = "ended"
    """Every child returned by itself."""


class Phase(Enum):
    """The steps of a drain, in order; the value says what a child does when it is told."""

    STOP_TAKING = "take nothing new; go on serving what others still need to finish"
    FINISH = "return when the last call in flight has ended; cancelled after the grace period"
    RELEASE = "record as unknown what did not end; give back what is owned"
    CLOSE = "write out, unsubscribe, disconnect"


async def _stay(_phase: Phase) -> None:
    """What a child without a part in the drain does: serve until it is cancelled at the end."""


@dataclass(frozen=True, kw_only=True)
class ChildSpec:
    """One child.

    Attributes:
        name: For the log.
        run: Serves until cancelled. Raising means a crash, returning means that it is done.
        drain: Called once for each phase, in order, while ``run`` still runs.
    """

    name: str
    run: Callable[[], Awaitable[None]]
    drain: Callable[[Phase], Awaitable[None]] = _stay


class RestartBudget:
    """How often children may crash: a sliding window over all of them."""

    def __init__(self, most: int = MAX_RESTARTS, window_s: float = RESTART_WINDOW_S) -> None:
        """Args: most: restarts allowed within any window_s seconds."""
        self._most = most
        self._window_s = window_s
        self._times: deque[float] = deque()

    def spend(self, at: float) -> bool:
        """Whether one more restart is allowed at that (monotonic) time; counts it."""
        while self._times and self._times[0] <= at - self._window_s:
            self._times.popleft()
        self._times.append(at)
        return len(self._times) <= self._most


def pause_s(crashes: int, chance: float) -> float:
    """Seconds before the restart after so many crashes in a row, half of it left to chance."""
    whole = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (crashes - 1))
    return whole * (0.5 + chance / 2)


def leave_at_once(signum: int) -> None:
    """End the process now, as a shell would report it; the journal is built for that."""
    os._exit(128 + signum)


class Supervisor:
    """Runs children in one task group.

    Guarantees: no child outlives ``run``; a drain takes at most ``grace_s`` and three times
    ``PHASE_S``; a second signal leaves at once.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        chance: Chance,
        grace_s: float,
        signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT),
        leave: Callable[[int], None] = leave_at_once,
    ) -> None:
        """Take what it needs from outside.

        Args:
            clock: Measures the restart window and the pauses.
            chance: Jitter of the pauses.
            grace_s: How long calls in flight may take to finish once draining.
            signals: What stops the process; empty in tests and when embedded.
            leave: Called with the number of the second signal; must not return. A process with
                children of its own (an embedded server) ends them here first.
        """
        self._clock = clock
        self._chance = chance
        self._grace_s = grace_s
        self._signals = tuple(signals)
        self._leave = leave
        self._budget = RestartBudget()
        self._stopping = anyio.Event()
        self._reason: StopReason | None = None
        self._running = 0
        self._failure: SupervisorGaveUp | None = None

    @property
    def reason(self) -> StopReason | None:
        """Why it stops; None while it does not."""
        return self._reason

    def stop(self, reason: StopReason = StopReason.ASKED) -> None:
        """Begin to drain; the first reason stays."""
        if self._reason is None:
            self._reason = reason
            self._stopping.set()

    async def run(self, children: Sequence[ChildSpec]) -> StopReason:
        """Serve until stopped, then drain.

        Returns:
            Why it stopped.

        Raises:
            SupervisorGaveUp: Children crashed too often; nothing was drained.
        """
        self._running = len(children)
        async with anyio.create_task_group() as tasks:
            if self._signals:
                tasks.start_soon(self._watch_signals, name="signals")
            for child in children:
                tasks.start_soon(self._keep, child, tasks.cancel_scope, name=child.name)
            await self._stopping.wait()
            await self._drain(children)
            tasks.cancel_scope.cancel()
        if self._failure is not None:
            raise self._failure
        return self._reason or StopReason.ASKED

    async def _watch_signals(self) -> None:
        with anyio.open_signal_receiver(*self._signals) as received:
            async for signum in received:
                if self._reason is not None:
                    self._leave(signum)
                self.stop(StopReason.SIGNAL)

    async def _keep(self, child: ChildSpec, scope: anyio.CancelScope) -> None:
        crashes = 0
        while True:
            started = self._clock.monotonic()
            log(Line.ACTOR_STARTED, Level.DEBUG, actor=child.name, crashes=crashes)
            try:
                await child.run()
                break
            except Exception as error:  # noqa: BLE001 -- let it crash: this is where it lands
                if self._clock.monotonic() - started > RESTART_WINDOW_S:
                    crashes = 0
                crashes += 1
                if not self._may_restart(child, error):
                    scope.cancel()
                    return
            await self._clock.sleep(pause_s(crashes, self._chance()))
        self._running -= 1
        if self._running == 0:
            self.stop(StopReason.ENDED)

    def _may_restart(self, child: ChildSpec, error: Exception) -> bool:
        log(Line.ACTOR_CRASHED, Level.ERROR, actor=child.name, **describe(error))
        if self._budget.spend(self._clock.monotonic()):
            return True
        self._failure = SupervisorGaveUp(
            f"more than {MAX_RESTARTS} restarts within {RESTART_WINDOW_S:.0f} s;"
            f" the last to crash was {child.name}: {type(error).__name__}",
            hint="the log has every crash as actor_crashed",
        )
        self._failure.__cause__ = error
        log(Line.GAVE_UP, Level.ERROR, actor=child.name)
        return False

    async def _drain(self, children: Sequence[ChildSpec]) -> None:
        for phase in Phase:
            log(Line.DRAINING, phase=phase.name.lower(), reason=self._reason)
            limit_s = self._grace_s if phase is Phase.FINISH else PHASE_S
            with anyio.move_on_after(limit_s):
                async with anyio.create_task_group() as tasks:
                    for child in children:
                        tasks.start_soon(
                            self._tell, child, phase, name=f"{child.name} {phase.name}"
                        )

    async def _tell(self, child: ChildSpec, phase: Phase) -> None:
        try:
            await child.drain(phase)
        except Exception as error:  # noqa: BLE001 -- one child's trouble must not keep the others from draining
            log(
                Line.ACTOR_DRAIN_FAILED,
                Level.ERROR,
                actor=child.name,
                phase=phase.name.lower(),
                **describe(error),
            )
