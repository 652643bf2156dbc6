"""The asking side: one inbox, one map of open asks, one sweep for all their limits.

The reply subject is ``<inbox>.<sequence>.<deadline in epoch ms>``: the deadline needs no header,
and whoever answers, beats or drops a late request reads it there.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

import anyio
from anyio.lowlevel import checkpoint

from messages import subjects
from messages.base import Beat, CancelAsk, Failure, Message, Request, reply_types
from messages.codec import decode, encode
from messages.errors import (
    BusError,
    DeadlineExceeded,
    NoResponders,
    NotAllowed,
    RemoteFailure,
    Silent,
    TooLarge,
    WireError,
)
from runtime.bus.failures import to_error, to_failure
from runtime.bus.port import Delivery
from runtime.bus.wire import NO_RESPONDERS, Pace, Wire
from runtime.clock import Clock
from runtime.log import Level, Line, log

ReplyT = TypeVar("ReplyT")

BEAT = encode(Beat())[:-1]
"""How every heartbeat begins: recognised without decoding it."""
_LONGEST_RUN = 16
"""Answers in place in a row, before the event loop gets a turn."""
_TURNS = 16
"""Turns of the event loop that let readers catch up after the loop was blocked."""


class _Open:
    """One ask that waits."""

    __slots__ = ("control", "deadline", "heard_at", "replied", "silence_s", "subject")

    def __init__(
        self, subject: str, control: str, deadline: float, silence_s: float | None, now: float
    ) -> None:
        self.replied: asyncio.Future[Delivery] = asyncio.get_running_loop().create_future()
        self.subject = subject
        self.control = control
        self.deadline = deadline
        self.silence_s = silence_s
        self.heard_at = now

    def fail(self, error: Exception) -> None:
        if not self.replied.done():
            self.replied.set_exception(error)

    def forget(self) -> None:
        """Nobody will look at an error that came in the same turn as a cancellation."""
        if self.replied.done() and not self.replied.cancelled():
            self.replied.exception()


def read_reply(request: Request[ReplyT], reply: Message, subject: str) -> ReplyT:
    """A reply of the kind that the request names.

    Raises:
        RemoteFailure: it is another one; or the error that the reply reports.
    """
    if isinstance(reply, reply_types(type(request))):
        return reply  # pyright: ignore[reportReturnType] -- what reply_types says is what ReplyT is
    if isinstance(reply, Failure):
        raise to_error(reply, subject)
    raise RemoteFailure("WIRE", f"{subject} answered with {type(reply).__name__}")


class Asker:
    """Every ask and plain request of one connection.

    Guarantees: each ends with one reply or one error, at the latest a sweep after its deadline; a
    reply that comes later is dropped.
    """

    def __init__(self, wire: Wire, clock: Clock, pace: Pace) -> None:
        self._wire = wire
        self._clock = clock
        self._pace = pace
        self._open: dict[str, _Open] = {}
        self._sequence = 0
        self._in_place = 0
        self._any_open = anyio.Event()
        wire.watch(denied=self._denied, closed=self._closed)

    @property
    def open_asks(self) -> int:
        """How many wait for a reply now."""
        return len(self._open)

    async def start(self) -> None:
        """Subscribe the inbox."""
        await self._wire.subscribe(f"{self._wire.inbox}.*.*", self._heard, pending=65_536)

    async def ask(
        self,
        request: Request[ReplyT],
        subject: str,
        *,
        deadline_s: float,
        silence_s: float | None,
    ) -> ReplyT:
        """See ``Bus.ask``; the subject is the request's own."""
        delivery = await self.exchange(
            subject,
            encode(request),
            deadline_s=deadline_s,
            silence_s=self._pace.silence_s if silence_s is None else silence_s,
            control=subjects.control(request.role),
        )
        try:
            reply = decode(delivery.data)
        except WireError as error:
            raise RemoteFailure(error.code, f"{subject}: {error.message}") from error
        return read_reply(request, reply, subject)

    async def in_place(
        self,
        request: Request[ReplyT],
        subject: str,
        answer: Callable[[Request[object]], Message | None],
    ) -> ReplyT | None:
        """What ``answer`` says, as if request and reply had travelled; None: it has to be asked.

        While there is a broker the request is shown on its subject; it names no reply subject, so
        that nobody answers it again.

        Raises:
            TooLarge, RemoteFailure, other errors of a reply: see ``Bus.ask``.
        """
        await self._turn()
        data = encode(request)
        self._check_size(subject, data)
        reply = answer(request)
        if reply is None:
            return None
        if self._wire.is_connected:
            await self._wire.publish(subject, data)
        return read_reply(request, self._travelled(reply, subject), subject)

    async def _turn(self) -> None:
        """Nothing is waited for in place, so cancels and the others get their turn here."""
        self._in_place += 1
        if self._in_place % _LONGEST_RUN == 0:
            await checkpoint()

    def _travelled(self, reply: Message, subject: str) -> Message:
        """A reply as its bytes say it, or the failure to say it."""
        try:
            data = encode(reply)
            self._check_size(f"the reply of {subject}", data)
        except WireError as error:
            log(Line.HANDLER_FAILED, Level.ERROR, code=error.code, message=error.message)
            return to_failure(error)
        return decode(data)

    def _check_size(self, what: str, data: bytes) -> None:
        if len(data) > self._wire.max_payload:
            raise TooLarge(f"a message to {what}", len(data), self._wire.max_payload)

    async def exchange(
        self,
        subject: str,
        data: bytes,
        *,
        deadline_s: float,
        silence_s: float | None = None,
        control: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Delivery:
        """One message out, one reply back, whatever the bytes mean.

        Args:
            subject: where to.
            data: payload.
            deadline_s: seconds to wait.
            silence_s: seconds without a heartbeat to wait; None: heartbeats are not expected.
            control: where a cancel goes when the asker gives up; empty: nowhere.
            headers: of the message.

        Raises:
            NoResponders, Silent, DeadlineExceeded, TooLarge, Unreachable: see ``Bus.ask``.
            NotAllowed: this user may not publish there.
        """
        if not self._wire.is_connected:
            await self._wire.connected(min(deadline_s, silence_s or deadline_s))
        now = self._clock.monotonic()
        self._sequence += 1
        ends_ms = int((self._clock.now() + deadline_s) * 1000)
        reply_to = f"{self._wire.inbox}.{self._sequence}.{ends_ms}"
        waiting = _Open(subject, control, now + deadline_s, silence_s, now)
        self._open[reply_to] = waiting
        if not self._any_open.is_set():
            self._any_open.set()
        try:
            await self._wire.publish(subject, data, reply_to, headers)
            delivery = await waiting.replied
        except anyio.get_cancelled_exc_class():
            waiting.forget()
            with anyio.CancelScope(shield=True):
                await self._cancel(reply_to, waiting)
            raise
        finally:
            self._open.pop(reply_to, None)
        if not delivery.data and delivery.headers.get("Status") == NO_RESPONDERS:
            raise NoResponders(f"nobody serves {subject} now")
        return delivery

    async def survey(self, subject: str, data: bytes, *, within_s: float) -> list[bytes]:
        """See ``Bus.survey``."""
        replies: list[bytes] = []

        async def heard(delivery: Delivery) -> None:
            if delivery.data:
                replies.append(delivery.data)

        self._sequence += 1
        inbox = f"{self._wire.inbox}.survey{self._sequence}"
        subscription = await self._wire.subscribe(inbox, heard)
        try:
            await self._wire.publish(subject, data, inbox)
            await self._clock.sleep(within_s)
        finally:
            with anyio.CancelScope(shield=True):
                await subscription.close()
        return replies

    async def sweep(self) -> None:
        """Keep every deadline and silence limit; runs for as long as the connection."""
        while True:
            await self._any_open.wait()
            before = self._clock.monotonic()
            await self._clock.sleep(self._pace.sweep_s)
            if self._clock.monotonic() - before > 2 * self._pace.sweep_s:
                # The loop was blocked: what arrived meanwhile is unread, the silence is ours.
                for _ in range(_TURNS):
                    await checkpoint()
            await self._give_up_overdue(self._clock.monotonic())
            if not self._open:
                self._any_open = anyio.Event()

    async def _give_up_overdue(self, now: float) -> None:
        for reply_to, waiting in list(self._open.items()):
            if waiting.replied.done():
                continue
            quiet_s = now - waiting.heard_at
            if now >= waiting.deadline:
                waiting.fail(DeadlineExceeded(f"no reply from {waiting.subject} in time"))
            elif waiting.silence_s is not None and quiet_s >= waiting.silence_s:
                waiting.fail(Silent(f"{waiting.subject}: no sign of life for {quiet_s:.1f} s"))
            else:
                continue
            await self._cancel(reply_to, waiting)

    async def _cancel(self, reply_to: str, waiting: _Open) -> None:
        """Tell the worker, which may only be cut off; a hint."""
        if waiting.control:
            try:
                await self._wire.publish(waiting.control, encode(CancelAsk(reply_to=reply_to)))
            except BusError as error:
                log(Line.ASK_FAILED, Level.DEBUG, subject=waiting.control, code=error.code)

    async def _heard(self, delivery: Delivery) -> None:
        self._take(self._open.get(delivery.subject), delivery)

    def hear(self, reply: str, data: bytes) -> bool:
        """Take a reply or a beat from this very process. False: nobody here waits for it.

        The request came over the broker, by which everybody may hear it and any member of the role
        may take it; the way back to the one asker who waits needs no broker.
        """
        waiting = self._open.get(reply)
        if waiting is not None:
            self._take(waiting, Delivery(subject=reply, data=data))
        return waiting is not None

    def _take(self, waiting: _Open | None, delivery: Delivery) -> None:
        if waiting is None or waiting.replied.done():
            if not delivery.data.startswith(BEAT):
                log(Line.LATE_MESSAGE_DROPPED, Level.DEBUG, subject=delivery.subject)
        elif delivery.data.startswith(BEAT):
            waiting.heard_at = self._clock.monotonic()
        else:
            waiting.replied.set_result(delivery)

    def _denied(self, subject: str) -> None:
        for waiting in self._open.values():
            if waiting.subject.lower() == subject:
                waiting.fail(NotAllowed(f"this NATS user may not publish to {waiting.subject}"))

    def _closed(self, why: Exception) -> None:
        for waiting in self._open.values():
            waiting.fail(Silent(f"{waiting.subject} was asked, and then: {why}"))
