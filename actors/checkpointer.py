"""The ledger on the bus: the only writer of run state. Waiting operations commit as one group."""

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import get_args

import anyio

from messages.base import Message, Request
from messages.errors import NotFound, StorageError, TreadleError
from messages.ledger import AnyLedgerRequest
from runtime.actor import Actor
from runtime.bus.port import Bus, Work
from runtime.ledger.port import GroupAnswer, Ledger
from runtime.log import Level, Line, describe, log

MAX_GROUP = 128
"""Operations per commit; more wait for the next one."""
_KNOWN = get_args(AnyLedgerRequest)


@dataclass
class _Waiting:
    """One operation in the queue and, later, its answer."""

    request: AnyLedgerRequest
    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: GroupAnswer | None = None
    error: TreadleError | None = None


class Checkpointer(Actor):
    """Applies ledger operations.

    Receives: every operation of ``messages.ledger``.
    Replies: the operation's own answer, after the commit.
    Guarantees: operations of one run are applied in the order they came; an answer is sent only
    for what is durable; a failed commit answers StorageError to everyone in it.
    """

    role = "checkpointer"
    slots = 1024
    pending = 4096

    def __init__(self, bus: Bus, ledger: Ledger) -> None:
        """Args: ledger: the back end."""
        super().__init__(bus)
        self._ledger = ledger
        self._queue: deque[_Waiting] = deque()
        self._wake = anyio.Event()

    async def handle(self, request: Request[object], work: Work) -> Message:
        """Queue the operation and wait for its commit."""
        del work
        if not isinstance(request, _KNOWN):
            raise NotFound("verb", f"checkpointer.{request.verb}")
        waiting = _Waiting(request)  # pyright: ignore[reportArgumentType] - checked above
        self._queue.append(waiting)
        self._wake.set()
        await waiting.answered.wait()  # the commit is shielded, not whoever waits for it
        if waiting.error is not None:
            raise waiting.error
        if waiting.answer is None:
            raise StorageError("the ledger gave no answer")
        return waiting.answer

    @asynccontextmanager
    async def prepared(self) -> AsyncGenerator[None]:
        """The one committer runs beside the handlers."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._commit_forever)
            yield
            tasks.cancel_scope.cancel()

    async def _commit_forever(self) -> None:
        """Commit what waits, as one group, again and again.

        What arrives during a commit waits and goes as the next group: a lone run pays no delay, a
        crowd shares syncs. A begun commit is finished even if the process is told to stop.
        """
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            with anyio.CancelScope(shield=True):
                while self._queue:
                    size = min(len(self._queue), MAX_GROUP)
                    await self._commit([self._queue.popleft() for _ in range(size)])

    async def _commit(self, group: list[_Waiting]) -> None:
        error: TreadleError | None = None
        answers: list[GroupAnswer] = []
        try:
            answers = await self._ledger.apply([waiting.request for waiting in group])
        except TreadleError as failure:
            log(Line.LEDGER_FAILED, Level.ERROR, **describe(failure))
            error = failure
        except BaseException:
            error = StorageError("the ledger failed unexpectedly")
            raise
        finally:
            for place, waiting in enumerate(group):
                waiting.answer = answers[place] if error is None else None
                waiting.error = error
                waiting.answered.set()
