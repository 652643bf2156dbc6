"""The ledger on the bus: the only writer of run state. Waiting operations commit as one group."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import zip_longest
from typing import NamedTuple, get_args

import anyio
from anyio.lowlevel import checkpoint

from messages.base import Message, Request
from messages.errors import NotFound, StorageError, TreadleError
from messages.ledger import AnyLedgerRequest
from runtime.actor import Actor
from runtime.bus.port import Bus, Work
from runtime.faults import fault
from runtime.ledger.port import GroupAnswer, Ledger
from runtime.log import Level, Line, describe, log

MAX_GROUP = 128
"""Operations per commit; more wait for the next one."""
_TURNS = 3
_KNOWN = get_args(AnyLedgerRequest)


class _Waiting(NamedTuple):
    """One operation in the queue; its answer comes after the commit."""

    request: AnyLedgerRequest
    answered: asyncio.Future[GroupAnswer]


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
        answered: asyncio.Future[GroupAnswer] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(request, answered))  # pyright: ignore[reportArgumentType] - checked above
        self._wake.set()
        return await answered  # the commit is shielded, not whoever waits for it

    @asynccontextmanager
    async def prepared(self) -> AsyncGenerator[None]:
        """The one committer runs beside the handlers."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._commit_forever)
            yield
            tasks.cancel_scope.cancel()

    async def _commit_forever(self) -> None:
        """Commit what waits, as one group, again and again.

        What arrives during a commit waits and goes as the next group: a crowd shares syncs. A begun
        commit is finished even if the process is told to stop.
        """
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            with anyio.CancelScope(shield=True):
                while self._queue:
                    await self._gather()
                    size = min(len(self._queue), MAX_GROUP)
                    await self._commit([self._queue.popleft() for _ in range(size)])

    async def _gather(self) -> None:
        """Let the others of a crowd come along: a commit costs the same for one and for many.

        Waits a few turns of the event loop for as long as each wait brings somebody, which takes a
        lone run no time worth measuring and halves the commits of 32 runs.
        """
        seen = 0
        while seen < len(self._queue) < MAX_GROUP:
            seen = len(self._queue)
            for _ in range(_TURNS):
                await checkpoint()

    async def _commit(self, group: list[_Waiting]) -> None:
        error: TreadleError = StorageError("the ledger failed unexpectedly")
        answers: list[GroupAnswer] = []
        try:
            fault("checkpointer.before_commit")
            answers = await self._ledger.apply([waiting.request for waiting in group])
            fault("checkpointer.after_commit")
        except TreadleError as failure:
            log(Line.LEDGER_FAILED, Level.ERROR, **describe(failure))
            error = failure
        finally:
            for waiting, answer in zip_longest(group, answers):
                if waiting.answered.done():
                    continue  # whoever waited was cancelled
                if answer is None:
                    waiting.answered.set_exception(error)
                else:
                    waiting.answered.set_result(answer)
