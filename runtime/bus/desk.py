"""Everything that one connection serves: heartbeats, cancels, and the way replies leave.

One sweep sends the heartbeats of all jobs of a connection, the first after ``heartbeat_s``, so a
quick handler sends none.
"""

from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from messages import subjects
from messages.base import Beat, CancelAsk, Message
from messages.codec import decode, encode
from messages.errors import BusError, WireError
from runtime.bus.failures import to_failure
from runtime.bus.job import Job
from runtime.bus.port import Delivery
from runtime.bus.wire import Pace, Subscription, Wire
from runtime.clock import Clock
from runtime.log import Level, Line, log

_REMEMBERED = 4096
"""Cancels kept for requests that have not been read yet, and answered requests kept for copies."""


class Desk:
    """Keeps every job that any service of the connection has accepted and not ended."""

    def __init__(
        self,
        wire: Wire,
        hear: Callable[[str, bytes], bool],
        clock: Clock,
        pace: Pace,
        tasks: TaskGroup,
    ) -> None:
        """Args.

        wire: the connection.
        hear: takes a reply whose asker is on this very connection; False: it is not.
        clock: for deadlines and heartbeats.
        pace: how often and how long.
        tasks: where handlers run.
        """
        self.wire = wire
        self._hear = hear
        self.clock = clock
        self.pace = pace
        self.tasks = tasks
        self._jobs: dict[str, Job] = {}
        self._beating: deque[Job] = deque()
        self._any_beating = anyio.Event()
        self._cancelled: OrderedDict[str, None] = OrderedDict()
        self._answered: OrderedDict[str, None] = OrderedDict()
        self._controls: dict[str, tuple[int, Subscription]] = {}

    def accept(self, job: Job) -> None:
        """Beat for it, and pass cancels on to it, until it has ended."""
        self._jobs[job.reply] = job
        self._beating.append(job)
        if not self._any_beating.is_set():
            self._any_beating.set()

    def forget(self, job: Job) -> None:
        """It has ended; should its request come once more, it is known."""
        job.is_ended = True
        _remember(self._answered, job.reply)
        self._jobs.pop(job.reply, None)
        while self._beating and self._beating[0].is_ended:
            _ = self._beating.popleft()

    def is_known(self, reply: str) -> bool:
        """Whether the asker gave up before its request was read, or has had its answer."""
        return reply in self._jobs or reply in self._cancelled or reply in self._answered

    async def sweep(self) -> None:
        """Send heartbeats; runs for as long as the connection."""
        while True:
            await self._any_beating.wait()
            await self.clock.sleep(self.pace.heartbeat_s / 4)
            await self._beat_all(self.clock.monotonic())
            if not self._beating:
                self._any_beating = anyio.Event()

    async def _beat_all(self, now: float) -> None:
        while self._beating and (self._beating[0].is_ended or self._beating[0].next_beat <= now):
            job = self._beating.popleft()
            if job.is_ended:
                continue
            if now >= job.deadline + self.pace.skew_s:
                job.abandon()
                continue
            job.next_beat = now + self.pace.heartbeat_s
            self._beating.append(job)
            beat = _beat(job.progress)
            if not self._hear(job.reply, beat) and self.wire.is_connected:
                await self._publish(job.reply, beat)

    async def tell(self, reply: str, message: Message) -> None:
        """Send a reply; one that cannot be sent becomes the failure to send it."""
        try:
            await self._send(reply, encode(message))
        except WireError as error:
            log(Line.HANDLER_FAILED, Level.ERROR, code=error.code, message=error.message)
            await self._send(reply, encode(to_failure(error)))

    async def _send(self, reply: str, data: bytes) -> None:
        """To the asker, who may be next door; what does not fit the wire fits nowhere."""
        if len(data) > self.wire.max_payload or not self._hear(reply, data):
            await self._publish(reply, data)

    async def _publish(self, reply: str, data: bytes) -> None:
        try:
            await self.wire.publish(reply, data)
        except BusError as error:
            log(Line.BUS_ERROR, Level.WARNING, code=error.code, message=error.message)

    @asynccontextmanager
    async def controlled(self, role: str) -> AsyncGenerator[None]:
        """Hear the cancels of a role, once however many services of it there are."""
        if role in self._controls:
            count, subscription = self._controls[role]
        else:
            count = 0
            subscription = await self.wire.subscribe(subjects.control(role), self._on_control)
        self._controls[role] = (count + 1, subscription)
        try:
            yield
        finally:
            count, subscription = self._controls.pop(role)
            if count > 1:
                self._controls[role] = (count - 1, subscription)
            else:
                await subscription.close()

    async def _on_control(self, delivery: Delivery) -> None:
        try:
            message = decode(delivery.data)
        except WireError as error:
            log(Line.BAD_MESSAGE, Level.WARNING, subject=delivery.subject, code=error.code)
            return
        if not isinstance(message, CancelAsk):
            return
        job = self._jobs.get(message.reply_to)
        if job is not None:
            job.abandon()
            return
        _remember(self._cancelled, message.reply_to)


def _remember(replies: OrderedDict[str, None], reply: str) -> None:
    replies[reply] = None
    if len(replies) > _REMEMBERED:
        replies.popitem(last=False)


def _beat(progress: str) -> bytes:
    """A sign of life; what cannot be said about the work does not silence it."""
    try:
        return encode(Beat(progress=progress))
    except WireError as error:
        log(Line.HANDLER_FAILED, Level.ERROR, code=error.code, message=error.message)
        return encode(Beat())
