"""User code under a deadline: async in place, sync in a thread that can be left behind.

A thread cannot be stopped. At the deadline it is left behind and keeps its slot until it ends, so
that hanging tools cannot fill the process with threads; and it is a daemon thread, so that it
cannot keep a process alive that wants to stop. (anyio's own worker threads do neither.)
"""

import contextvars
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel

from runtime.tools.ended import Ended, Late, Raised, Returned, Vanished

DEFAULT_SLOTS = 40
"""Sync functions that run at a time in one process."""


class Workers:
    """Slots for sync functions."""

    def __init__(self, slots: int = DEFAULT_SLOTS) -> None:
        """Args: slots: how many run at a time, those left behind included."""
        self._slots = anyio.CapacityLimiter(slots)

    @property
    def busy(self) -> int:
        """How many slots are taken now."""
        return int(self._slots.borrowed_tokens)

    async def run(
        self, function: Callable[..., object], /, *args: object, timeout_s: float, **kwargs: object
    ) -> Ended:
        """Call a function and wait for it, at most ``timeout_s`` seconds.

        Args:
            function: An async one runs in this event loop, a sync one in a thread. Whatever it
                raises is an answer, ``sys.exit()`` included: user code does not stop the process.
            *args: For the function.
            timeout_s: Waiting for a slot counts.
            **kwargs: For the function.
        """
        deadline = anyio.current_time() + timeout_s
        is_async = inspect.iscoroutinefunction(function)
        call = _Call(partial(function, *args, **kwargs), is_async, deadline)
        # A task of its own, so that a function that cancels itself does not cancel us.
        async with anyio.create_task_group() as group:
            group.cancel_scope.deadline = deadline
            group.start_soon(self._perform, call)
        if call.ended is not None:
            return call.ended
        is_late = group.cancel_scope.cancelled_caught
        return Late(has_started=call.has_started) if is_late else Vanished()

    async def _perform(self, call: "_Call") -> None:
        if call.refuses_late():
            return
        if not call.is_async:
            await self._in_thread(call)
            if not (isinstance(call.ended, Returned) and inspect.isawaitable(call.ended.value)):
                return
            awaitable, call.ended = call.ended.value, None
        else:
            call.has_started = True
            awaitable = call.function()
        try:
            call.ended = Returned(await awaitable)
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- user code; it becomes an answer
            call.ended = Raised(error)

    async def _in_thread(self, call: "_Call") -> None:
        slot, is_over, loop = object(), anyio.Event(), anyio.lowlevel.current_token()
        await self._slots.acquire_on_behalf_of(slot)

        def finish() -> None:
            self._slots.release_on_behalf_of(slot)
            is_over.set()

        def work() -> None:
            ended = _settled(call.function)
            call.ended = ended
            with suppress(RuntimeError):  # the event loop is gone, nobody waits any more
                anyio.from_thread.run_sync(finish, token=loop)

        if call.refuses_late():
            finish()
            return
        call.has_started = True
        context = contextvars.copy_context()
        try:
            threading.Thread(target=context.run, args=(work,), name="tool", daemon=True).start()
        except RuntimeError:  # no thread can be started: the function was never called
            call.has_started = False
            finish()
            call.ended = Late(has_started=False)
            return
        await is_over.wait()


@dataclass
class _Call:
    function: Callable[[], Any]
    is_async: bool
    deadline: float
    has_started: bool = False
    ended: Ended | None = None

    def refuses_late(self) -> bool:
        """End it here if its time was up before it began, as after a pause of the process.

        Asked in the very step in which it would start, since W counts from the claim.
        """
        if anyio.current_time() < self.deadline:
            return False
        self.ended = Late(has_started=False)
        return True


def _settled(function: Callable[[], object]) -> Ended:
    try:
        return Returned(function())
    except (Exception, SystemExit) as error:  # noqa: BLE001 -- user code; it becomes an answer
        return Raised(error)
