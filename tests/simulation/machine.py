"""An event loop in virtual time, and processes on it that die and freeze between any two steps.

A process is a context variable: what a task of it schedules carries it along. A dead process's
callbacks are dropped and a frozen one's are kept for later, which is what SIGKILL and SIGSTOP do:
nothing in a ``finally`` runs, and nothing of the process notices.
"""

# pyright: reportUninitializedInstanceVariable=false

import asyncio
import contextvars
import heapq
import sys
import warnings
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import sniffio
from anyio._backends import _asyncio as anyio_backend

_HERE: contextvars.ContextVar["Process | None"] = contextvars.ContextVar("process", default=None)


class Process:
    """One life of one process.

    Attributes:
        is_alive: False from its kill on.
        held: What it will do once it is thawed; None while it is not frozen.
        fuse: Steps until ``burnt`` is called; 0: never.
        burnt: What happens between two of its steps.
    """

    def __init__(self, name: str, life: int = 0) -> None:
        self.name = name
        self.life = life
        self.is_alive = True
        self.held: deque[asyncio.Handle] | None = None
        self.fuse = 0
        self.burnt: Callable[[], None] | None = None
        self.context = contextvars.Context()
        self.context.run(_HERE.set, self)

    def __repr__(self) -> str:
        return f"{self.name}.{self.life}"


class Machine(asyncio.BaseEventLoop):
    """Runs ready callbacks in order; when there are none, time goes on to the next timer."""

    # What the base class has and does not tell.
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self._outside = sniffio.thread_local.name
        sniffio.thread_local.name = "asyncio"  # else asked anew at every step; until it is closed
        self._at = 0.0
        self._tasks: list[asyncio.Task[Any]] = []
        self.steps = 0
        self.failures: list[str] = []
        self.set_task_factory(self._make)
        self.set_exception_handler(self._failed)

    def time(self) -> float:
        """Seconds since the start."""
        return self._at

    def start(self, process: Process, main: Coroutine[Any, Any, object]) -> asyncio.Task[Any]:
        """Let a process do something."""
        return self.create_task(main, context=process.context)

    def outside(self, delay_s: float, act: Callable[..., object], *args: object) -> None:
        """Do something that is no process's doing."""
        self.call_later(delay_s, act, *args, context=_NOBODY)

    def unseen_failures(self) -> list[str]:
        """What went wrong in tasks whose end nobody has looked at."""
        unseen = [t for t in self._tasks if t.done() and _is_unseen(t)]
        return [*self.failures, *(f"{task.exception()!r}" for task in unseen)]

    def kill(self, process: Process) -> None:
        """SIGKILL."""
        process.is_alive = False
        process.held = None

    def freeze(self, process: Process) -> None:
        """SIGSTOP."""
        if process.held is None:
            process.held = deque()

    def thaw(self, process: Process) -> None:
        """SIGCONT."""
        held, process.held = process.held, None
        self._ready.extend(held or ())

    def close(self) -> None:
        """Let go of what the dead and the living left undone; nothing of it does anything more."""
        hook, sys.unraisablehook = sys.unraisablehook, say_nothing
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # some were never begun
                for task in self._tasks:
                    # anyio's weak map holds the task through its value, if it never ended
                    vars(anyio_backend)["_task_states"].pop(task, None)
                    if not task.done():
                        with suppress(BaseException):
                            task.get_coro().close()
            self._tasks.clear()
            super().close()
        finally:
            sys.unraisablehook = hook
            sniffio.thread_local.name = self._outside

    # ------------------------------------------------------------------ the loop itself
    def _run_once(self) -> None:
        scheduled, ready = self._scheduled, self._ready
        if not ready and not self._stopping and scheduled:
            self._at = max(self._at, scheduled[0]._when)
        while scheduled and scheduled[0]._when <= self._at:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):
            self._step(ready.popleft())

    def _step(self, handle: asyncio.Handle) -> None:
        if handle._cancelled:
            return
        process = handle._context.get(_HERE)
        if process is not None:
            if not process.is_alive:
                return
            if process.held is not None:
                process.held.append(handle)
                return
            if process.fuse:
                process.fuse -= 1
                if not process.fuse and process.burnt is not None:
                    self._ready.appendleft(handle)  # it comes after whatever happens now
                    process.burnt()
                    return
        self.steps += 1
        handle._run()

    def _make(self, loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> Any:
        task = asyncio.Task(work, loop=loop, **more)
        task._log_destroy_pending = False  # pyright: ignore[reportAttributeAccessIssue]
        self._tasks.append(task)  # a dead process's tasks must not be collected while others live
        return task

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")

    def _process_events(self, event_list: object) -> None:
        """There is no selector."""

    def _write_to_self(self) -> None:
        """Nobody waits in a selector."""


_NOBODY = contextvars.Context()


def _is_unseen(task: asyncio.Task[Any]) -> bool:
    """Whether it failed and would be complained of when it is collected."""
    return bool(getattr(task, "_log_traceback", False))


def say_nothing(_: object) -> None:
    """What dead coroutines complain of when they are let go of."""


def here() -> Process | None:
    """Whose step this is."""
    return _HERE.get()


class _Ordered(dict[Any, None]):
    """A set that is walked in the order in which it was filled."""

    def add(self, member: object) -> None:
        self[member] = None

    def discard(self, member: object) -> None:
        self.pop(member, None)

    def remove(self, member: object) -> None:
        del self[member]


def _in_order(kind: type[Any], *names: str) -> None:
    """Let what anyio walks to cancel not depend on addresses."""
    begin = kind.__init__

    def ordered(self: Any, *args: Any, **more: Any) -> None:
        begin(self, *args, **more)
        for name in names:
            setattr(self, name, _Ordered())

    kind.__init__ = ordered


_in_order(anyio_backend.CancelScope, "_child_scopes", "_tasks")
_in_order(anyio_backend.TaskGroup, "_tasks")
