"""The bus as actors see it. ``client`` (NATS) and ``memory`` keep one contract suite.

``ask`` does not assume how a message travels: what the same connection can answer does not.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream

from messages.base import Message, Request
from runtime.bus.presence import Listed

ReplyT = TypeVar("ReplyT")

MAX_TRIES = 3
"""A task that was delivered more often than this has crashed whoever took it: a dead letter."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One plain message as it arrived."""

    subject: str
    data: bytes
    reply: str = ""
    headers: Mapping[str, str] = {}


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """One message as a stream keeps it."""

    subject: str
    sequence: int
    data: bytes


class TaskDelivery(Protocol):
    """One message of a work queue; exactly one of the three ends it."""

    @property
    def subject(self) -> str:
        """Who submits what, see ``subjects.parse_task``."""
        ...

    @property
    def data(self) -> bytes:
        """The task as it was published."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """A ``traceparent``, for one."""
        ...

    @property
    def deliveries(self) -> int:
        """How often it has been delivered, this time included; see ``MAX_TRIES``."""
        ...

    @property
    def sequence(self) -> int:
        """Its number in the stream."""
        ...

    async def ack(self) -> None:
        """It is dealt with (waits for the server's word).

        Raises:
            DeadlineExceeded, Unreachable: unsure; it may be delivered again.
        """
        ...

    async def extend(self) -> None:
        """Still being worked on: starts the AckWait anew (while the ledger is away, for one)."""
        ...

    async def retry(self, delay_s: float) -> None:
        """Deliver it again after ``delay_s`` seconds."""
        ...

    async def drop(self, why: str) -> None:
        """Never deliver it again."""
        ...


class Work(Protocol):
    """What a handler knows of the ask it serves."""

    @property
    def seconds_left(self) -> float:
        """Until the asker gives up."""
        ...

    def beat(self, progress: str) -> None:
        """Say how far the work is; sent with the next heartbeat."""
        ...

    def see_through(self) -> None:
        """From now on the work is not cut when nobody waits for it any more.

        Only the end of the service cuts it then.
        """
        ...


class Serving(Protocol):
    """A role that is being served, for an orderly end; leaving the context stops the hard way."""

    async def stop(self) -> None:
        """Take no more requests; what has been accepted goes on. Others of the group take over."""
        ...

    async def finish(self, grace_s: float) -> None:
        """Return when all that was accepted by now has been answered, or after ``grace_s`` s."""
        ...


InlineHandler = Callable[[Request[object]], Message]
"""For pure roles: runs on the reader at once, must not block."""
AtOnce = Callable[[Request[object]], Message | None]
"""Answers on the reader what needs no waiting; None: the task handler does it."""
BreakerStates = Callable[[], dict[str, str]]
"""How breakers stand now, by the name of what they guard."""
TaskHandler = Callable[[Request[object], Work], Awaitable[Message]]
"""Runs as a task behind a semaphore, with heartbeats; cancelled when the asker gives up, unless the
work is to be seen through."""


class Bus(Protocol):
    """One connection of one process."""

    async def ask(
        self, request: Request[ReplyT], *, deadline_s: float = 10.0, silence_s: float | None = None
    ) -> ReplyT:
        """Send a request to its role and wait for the one typed reply.

        Args:
            request: names role, verb and reply type.
            deadline_s: seconds after which the answer is of no use; it travels with the request.
            silence_s: seconds without a heartbeat after which the worker is given up; None: the
                bus's setting (3 s).

        Returns:
            One of the reply types the request names.

        Raises:
            NoResponders: nobody serves it now.
            Busy: its server's queue is full.
            Silent: heartbeats stopped; a cancel was sent.
            DeadlineExceeded: no reply in time; a cancel was sent.
            TooLarge: payload and headers exceed the broker's limit; nothing was sent.
            Unreachable: no connection for as long as a silence may last, or one that is closed for
                good; nothing was sent.
            RemoteFailure: the handler failed or the reply is not what the request names.
        """
        ...

    def serve(  # noqa: PLR0913 -- how a role is served, each by name
        self,
        role: str,
        handler: TaskHandler | InlineHandler,
        *,
        tool: str | None = None,
        is_inline: bool = False,
        at_once: AtOnce | None = None,
        slots: int = 64,
        pending: int = 1024,
        breakers: BreakerStates | None = None,
    ) -> AbstractAsyncContextManager[Serving]:
        """Serve a role (or one executor tool) as a member of its queue group while entered.

        On leaving, handlers that still run are cancelled and their askers told so (RemoteFailure
        with code STOPPED: it may have been done); requests that had no slot yet get Busy.

        Args:
            role: which role.
            handler: turns a request into a reply; a TreadleError it raises travels as a Failure.
            tool: for executors: one subject set per tool.
            is_inline: the handler is synchronous and pure.
            at_once: tried first where the handler is a task's.
            slots: how many run at once.
            pending: how many may wait; beyond, the asker gets Busy at once.
            breakers: what the directory tells of them.
        """
        ...

    async def publish(
        self,
        subject: str,
        data: bytes,
        *,
        reply: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Publish a plain message; a hint that may be lost.

        Raises:
            TooLarge: above the broker's limit; nothing was sent.
            Unreachable: the connection is closed for good.
        """
        ...

    def subscribe(
        self, subject: str, *, queue: str = "", pending: int = 1024
    ) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[Delivery]]:
        """Plain messages while entered; when ``pending`` wait, the newest is dropped."""
        ...

    async def request(self, subject: str, data: bytes, *, timeout_s: float) -> bytes:
        """One plain request and its first reply, for the public API.

        Raises:
            NoResponders, DeadlineExceeded, TooLarge, Unreachable: as for ``ask``.
        """
        ...

    async def publish_durable(self, subject: str, data: bytes, *, message_id: str) -> None:
        """Publish into a stream and wait until it is stored; repeated with the same id if unsure.

        Raises:
            NoResponders: no stream takes that subject.
            Busy: the stream is full.
            StorageError: the stream could not store it.
            DeadlineExceeded, TooLarge, Unreachable: as for ``ask``.
        """
        ...

    async def survey(self, subject: str, data: bytes = b"", *, within_s: float) -> list[bytes]:
        """Every reply to one plain request that comes within a time; for ``$SRV.PING`` and such."""
        ...

    async def prepare_streams(self, agents: Sequence[str]) -> None:
        """Create or update the streams, now and after every reconnect: a broker may be a new one.

        Args:
            agents: whose tasks are taken; the task stream has one subject for each, so that NATS
                itself refuses an unknown agent at the publisher.

        Raises:
            ServerError: a stream exists in a shape that cannot be changed into ours.
            NotAllowed, NoResponders, Unreachable: as for ``ask``; no responders: no JetStream.
        """
        ...

    def consume(
        self, stream: str, durable: str, *, batch: int = 16
    ) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[TaskDelivery]]:
        """Messages of a work queue; unfinished ones come again after the consumer's AckWait."""
        ...

    async def stream_created(self, stream: str) -> str:
        """The creation time of a stream as text: a new one has lost what the old one held."""
        ...

    async def last(self, stream: str, subject: str) -> bytes | None:
        """The newest message of a subject in a stream, or None."""
        ...

    async def stored(self, stream: str, subject: str, *, after: int = 0) -> Stored | None:
        """The first message of a subject (wildcards allowed) with a higher sequence, or None."""
        ...

    async def discard(self, stream: str, sequence: int) -> None:
        """Take one message out of a stream for good.

        Raises:
            NotFound: there is none of that sequence.
            StorageError, DeadlineExceeded, Unreachable: as for ``publish_durable``.
        """
        ...

    def listed(self, presence: Listed) -> AbstractAsyncContextManager[None]:
        """Say in the directory (``$SRV``) that this role is here, while entered."""
        ...
