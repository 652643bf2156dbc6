"""The serving side: requests become jobs, and every job ends with one reply.

What can be answered without waiting is answered on the reader itself: no task, no queue. The others
wait in a bounded queue for a slot; beyond it the asker hears Busy at once.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

import anyio

from messages import subjects
from messages.base import Failure, Message, Request
from messages.codec import decode
from messages.errors import BusError, Busy, NotAllowed, TreadleError, WireError
from runtime.bus.desk import Desk
from runtime.bus.failures import STOPPED, to_failure
from runtime.bus.job import Job
from runtime.bus.port import AtOnce, BreakerStates, Delivery, InlineHandler, TaskHandler
from runtime.log import Level, Line, describe, log

if TYPE_CHECKING:
    from runtime.bus.wire import Subscription

_UNTOLD_S = 30.0
"""How long an asker waits whose reply subject does not say (a person with a NATS tool)."""
_CLOSE_S = 2.0
"""How long the last words of a server that is being cancelled may take."""


class Service:
    """One role, or one executor tool, as one process serves it (``port.Serving``).

    Attributes:
        role, tool: What it serves.
        served: Requests answered, failures included.
        failed: Requests answered with a failure.
        refused: Requests answered with Busy.
        running: Handlers at work now.
        busy_s: Seconds that handlers have worked, in all.
        breakers: How those of what it depends on stand.
    """

    def __init__(  # noqa: PLR0913 -- one per argument of Bus.serve
        self,
        desk: Desk,
        role: str,
        tool: str | None,
        handler: TaskHandler | InlineHandler,
        *,
        is_inline: bool,
        at_once: AtOnce | None = None,
        slots: int,
        pending: int,
        breakers: BreakerStates | None = None,
    ) -> None:
        self.role = role
        self.tool = tool
        self.subject = subjects.served(role, tool)
        self.served = 0
        self.failed = 0
        self.refused = 0
        self.running = 0
        self.busy_s = 0.0
        self.breakers: BreakerStates = breakers or dict[str, str]
        self._desk = desk
        self._at_once = cast("InlineHandler", handler) if is_inline else at_once
        self._handler = cast("TaskHandler", handler)
        self._slots = slots
        self._most = slots + pending
        self._jobs: dict[str, Job] = {}
        self._workers = 0
        self._is_open = True
        self._queue: deque[Job] = deque()
        self._resting: list[asyncio.Future[None]] = []
        self._subscription: Subscription | None = None
        self._something_ended = anyio.Event()

    @property
    def is_quick(self) -> bool:
        """Whether some of its requests are answered without waiting."""
        return self._at_once is not None

    @property
    def waiting(self) -> int:
        """Accepted requests without a slot."""
        return len(self._jobs) - self.running

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator["Service"]:
        """Serve while entered; see ``Bus.serve``."""
        async with self._desk.controlled(self.role):
            self._subscription = await self._desk.wire.subscribe(
                self.subject, self._on_request, queue=self.role
            )
            try:
                yield self
                await self.stop()
                await self.finish(self._desk.pace.grace_s)
            finally:
                with anyio.move_on_after(_CLOSE_S, shield=True):
                    await self._close()

    async def stop(self) -> None:
        """See ``port.Serving``."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            await subscription.close()

    async def finish(self, grace_s: float) -> None:
        """See ``port.Serving``."""
        accepted = frozenset(self._jobs)
        with anyio.move_on_after(grace_s):
            while not accepted.isdisjoint(self._jobs):
                await self._next_end()

    async def _next_end(self) -> None:
        if self._something_ended.is_set():
            self._something_ended = anyio.Event()
        await self._something_ended.wait()

    async def _close(self) -> None:
        """Cancel what runs, and let no asker wait for an answer that will never come."""
        self._is_open = False
        await self.stop()
        while self._resting:
            self._wake()
        for job in self._jobs.values():
            if job.scope is not None:
                job.scope.cancel()
        while self._workers:
            await self._next_end()
        for job in list(self._jobs.values()):
            self._end(job)
            words = f"{self.subject} stopped"
            if job.scope is None:
                await self._desk.tell(job.reply, busy(words))
            else:
                await self._desk.tell(job.reply, Failure(code=STOPPED, message=words))

    async def _on_request(self, delivery: Delivery) -> None:
        if not delivery.reply:
            return  # it was answered in place, and is shown to whoever listens
        now = self._desk.clock.monotonic()
        left_s = self._seconds_left(delivery.reply)
        if left_s < -self._desk.pace.skew_s:
            log(Line.LATE_MESSAGE_DROPPED, Level.DEBUG, subject=delivery.subject, left_s=left_s)
            return
        try:
            request = self._read(delivery)
        except TreadleError as error:
            self.served += 1
            self.failed += 1
            log(Line.BAD_MESSAGE, Level.WARNING, subject=delivery.subject, code=error.code)
            await self._desk.tell(delivery.reply, to_failure(error))
            return
        reply = self._answer_at_once(request)
        if reply is not None:
            await self._desk.tell(delivery.reply, reply)
            self.busy_s += self._desk.clock.monotonic() - now
        elif self._desk.is_known(delivery.reply):
            log(Line.LATE_MESSAGE_DROPPED, Level.DEBUG, subject=delivery.subject)
        elif not self._is_open or len(self._jobs) >= self._most:
            self.refused += 1
            await self._desk.tell(delivery.reply, busy(f"{self.subject} is full"))
        else:
            next_beat = now + self._desk.pace.heartbeat_s
            self._accept(Job(request, delivery.reply, now + left_s, next_beat, self._desk.clock))

    def _seconds_left(self, reply: str) -> float:
        try:
            ends_ms = int(reply[reply.rindex(".") + 1 :])
        except ValueError:
            return _UNTOLD_S
        return min(ends_ms / 1000 - self._desk.clock.now(), self._desk.pace.longest_s)

    def _read(self, delivery: Delivery) -> Request[object]:
        """The request of a delivery; permissions are by subject, so both must say the same."""
        message = decode(delivery.data)
        if not isinstance(message, Request):
            raise WireError(f"{self.subject} was sent a {type(message).__name__}, not a request")
        request: Request[object] = message
        if subjects.rpc(request) != delivery.subject:
            raise NotAllowed(f"a {type(request).__name__} was sent to {delivery.subject}")
        return request

    def answer_in_place(self, request: Request[object]) -> Message | None:
        """The answer to a request of this very connection; None: it has to be asked for."""
        if self._subscription is None:
            return None
        started = self._desk.clock.monotonic()
        reply = self._answer_at_once(request)
        self.busy_s += self._desk.clock.monotonic() - started
        return reply

    def _answer_at_once(self, request: Request[object]) -> Message | None:
        try:
            reply = self._at_once(request) if self._at_once is not None else None
        except Exception as error:  # noqa: BLE001 -- the asker must hear of whatever went wrong
            reply = self._failure(request, error)
        if reply is not None:
            self.served += 1
        return reply

    def _accept(self, job: Job) -> None:
        self._desk.accept(job)
        self._jobs[job.reply] = job
        self._queue.append(job)
        if self._resting:
            self._wake()
        elif self._workers < self._slots:
            self._workers += 1
            self._desk.tasks.start_soon(self._work, name=f"{self.subject} {self._workers}")

    async def _work(self) -> None:
        """One slot; made when it is first needed, kept for as long as the service."""
        try:
            while self._is_open:
                with anyio.CancelScope() as scope:
                    await self._work_within(scope)
        finally:
            self._workers -= 1
            self._something_ended.set()

    async def _work_within(self, scope: anyio.CancelScope) -> None:
        """One job after the other, until one of them is cancelled: the next gets a fresh scope."""
        while self._is_open and not scope.cancel_called:
            if not self._queue:
                await self._rest()
                continue
            job = self._queue.popleft()
            try:
                if not job.is_ended:
                    await self._run(job, scope)
            finally:
                if self._is_open or job.is_ended:
                    self._end(job)

    async def _rest(self) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._resting.append(woken)
        try:
            await woken
        finally:
            if woken in self._resting:
                self._resting.remove(woken)

    def _wake(self) -> None:
        woken = self._resting.pop()
        if not woken.done():
            woken.set_result(None)

    async def _run(self, job: Job, scope: anyio.CancelScope) -> None:
        started = self._desk.clock.monotonic()
        self.running += 1
        job.scope = scope
        try:
            await self._answer(job)
        finally:
            self.running -= 1
            self.busy_s += self._desk.clock.monotonic() - started

    async def _answer(self, job: Job) -> None:
        try:
            reply = await self._handler(job.request, job)
        except Exception as error:  # noqa: BLE001 -- the asker must hear of whatever went wrong
            reply = self._failure(job.request, error)
        self.served += 1
        if not job.is_ended:
            job.is_ended = True
            await self._desk.tell(job.reply, reply)

    def _end(self, job: Job) -> None:
        self._desk.forget(job)
        self._jobs.pop(job.reply, None)
        self._something_ended.set()

    def _failure(self, request: Request[object], error: Exception) -> Failure:
        self.failed += 1
        failure = to_failure(error)
        known = isinstance(error, TreadleError)
        told = {k: v for k, v in describe(error).items() if known or k != "message"}
        level = Level.INFO if known and not isinstance(error, BusError) else Level.ERROR
        log(Line.HANDLER_FAILED, level, role=self.role, request=type(request).__name__, **told)
        return failure


def busy(why: str) -> Failure:
    """Nothing was started; asking again later may help."""
    return Failure(code=Busy.code, message=why, retryable=True)
