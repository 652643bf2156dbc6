"""The bus put together: asking, serving, plain messages and streams over one wire.

The same for NATS and for memory; ``client.connect`` and ``memory.connect`` build one.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from messages import subjects
from messages.base import Request
from messages.errors import TreadleError
from runtime.bus.ask import Asker
from runtime.bus.desk import Desk
from runtime.bus.directory import Directory, Identity
from runtime.bus.jetstream import JetStream
from runtime.bus.port import (
    AtOnce,
    BreakerStates,
    Delivery,
    InlineHandler,
    Serving,
    Stored,
    TaskDelivery,
    TaskHandler,
)
from runtime.bus.presence import Listed
from runtime.bus.serve import Service
from runtime.bus.streams import Streams
from runtime.bus.tasks import lone_errors
from runtime.bus.wire import Pace, Wire
from runtime.clock import Clock
from runtime.log import Level, Line, describe, log

ReplyT = TypeVar("ReplyT")

_PREPARE_PAUSE_S = 0.5
"""Before streams are looked at again where that failed after a reconnect."""


class WireBus:
    """One connection as actors see it (``port.Bus``); ``open_bus`` makes one."""

    def __init__(
        self, wire: Wire, asker: Asker, desk: Desk, streams: Streams, directory: Directory
    ) -> None:
        self.wire = wire
        self._asker = asker
        self._desk = desk
        self._streams = streams
        self._directory = directory
        self._near: dict[str, Service] = {}
        """What is answered in place, by its subject without the verb."""
        self._agents: tuple[str, ...] | None = None
        self._came_back = anyio.Event()
        wire.watch(reconnected=self._note_reconnect)

    async def ask(
        self, request: Request[ReplyT], *, deadline_s: float = 10.0, silence_s: float | None = None
    ) -> ReplyT:
        """See ``port.Bus``.

        What this very connection serves and can answer without waiting is answered in place: with
        one NATS user for both there is nobody to tell apart, and nothing to wait for or to share.
        """
        subject = subjects.rpc(request)
        near = self._near.get(subject[: subject.rindex(".")])
        if near is not None:
            reply = await self._asker.in_place(request, subject, near.answer_in_place)
            if reply is not None:
                return reply
        return await self._asker.ask(request, subject, deadline_s=deadline_s, silence_s=silence_s)

    @asynccontextmanager
    async def serve(  # noqa: PLR0913 -- how a role is served, each by name
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
    ) -> AsyncGenerator[Serving]:
        """See ``port.Bus``."""
        service = Service(
            self._desk,
            role,
            tool,
            handler,
            is_inline=is_inline,
            at_once=at_once,
            slots=slots,
            pending=pending,
            breakers=breakers,
        )
        async with service.serving(), self._directory.listed(service):
            place = service.subject.removesuffix(".*")
            if service.is_quick:
                self._near[place] = service
            try:
                yield service
            finally:
                if self._near.get(place) is service:
                    del self._near[place]

    @property
    def open_asks(self) -> int:
        """Asks and requests that wait for a reply now."""
        return self._asker.open_asks

    @property
    def roles(self) -> frozenset[str]:
        """The roles that are served over this connection now."""
        return self._directory.roles

    @property
    def is_connected(self) -> bool:
        """Whether there is a server at the other end now."""
        return self.wire.is_connected

    async def publish(
        self,
        subject: str,
        data: bytes,
        *,
        reply: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """See ``port.Bus``."""
        await self.wire.publish(subject, data, reply, headers)

    @asynccontextmanager
    async def subscribe(
        self, subject: str, *, queue: str = "", pending: int = 1024
    ) -> AsyncGenerator[MemoryObjectReceiveStream[Delivery]]:
        """See ``port.Bus``."""
        put, get = anyio.create_memory_object_stream[Delivery](pending)

        async def on_message(delivery: Delivery) -> None:
            try:
                put.send_nowait(delivery)
            except anyio.WouldBlock:
                log(Line.LATE_MESSAGE_DROPPED, Level.WARNING, subject=delivery.subject, why="full")
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass

        with put, get:
            subscription = await self.wire.subscribe(subject, on_message, queue=queue)
            try:
                yield get
            finally:
                with anyio.move_on_after(_PREPARE_PAUSE_S, shield=True):
                    await subscription.close()

    async def request(self, subject: str, data: bytes, *, timeout_s: float) -> bytes:
        """See ``port.Bus``."""
        return (await self._asker.exchange(subject, data, deadline_s=timeout_s)).data

    async def survey(self, subject: str, data: bytes = b"", *, within_s: float) -> list[bytes]:
        """See ``port.Bus``."""
        return await self._asker.survey(subject, data, within_s=within_s)

    async def publish_durable(self, subject: str, data: bytes, *, message_id: str) -> None:
        """See ``port.Bus``."""
        await self._streams.publish(subject, data, message_id)

    def consume(
        self, stream: str, durable: str, *, batch: int = 16
    ) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[TaskDelivery]]:
        """See ``port.Bus``."""
        return self._streams.consume(stream, durable, batch)

    async def stream_created(self, stream: str) -> str:
        """See ``port.Bus``."""
        return await self._streams.created(stream)

    async def last(self, stream: str, subject: str) -> bytes | None:
        """See ``port.Bus``."""
        return await self._streams.last(stream, subject)

    async def stored(self, stream: str, subject: str, *, after: int = 0) -> Stored | None:
        """See ``port.Bus``."""
        return await self._streams.stored(stream, subject, after)

    async def discard(self, stream: str, sequence: int) -> None:
        """See ``port.Bus``."""
        await self._streams.discard(stream, sequence)

    def listed(self, presence: Listed) -> AbstractAsyncContextManager[None]:
        """See ``port.Bus``."""
        return self._directory.listed(presence)

    async def prepare_streams(self, agents: Sequence[str]) -> None:
        """See ``port.Bus``."""
        self._agents = tuple(agents)
        await self._streams.prepare(self._agents)

    def _note_reconnect(self) -> None:
        self._came_back.set()

    async def keep_streams(self, clock: Clock) -> None:
        """Prepare them again after each reconnect: the broker may have come back without them."""
        while True:
            await self._came_back.wait()
            self._came_back = anyio.Event()
            if self._agents is None:
                continue
            try:
                await self._streams.prepare(self._agents)
            except TreadleError as error:
                log(Line.BUS_ERROR, Level.ERROR, **describe(error))
                await clock.sleep(_PREPARE_PAUSE_S)
                self._came_back.set()


@asynccontextmanager
async def open_bus(
    wire: Wire, *, identity: Identity, clock: Clock, pace: Pace, streams: Streams | None = None
) -> AsyncGenerator[WireBus]:
    """A bus while entered.

    Args:
        wire: an open connection.
        identity: who this process is.
        clock: for every limit.
        pace: how patient both ends are.
        streams: the durable half; None: JetStream over the same wire.
    """
    async with lone_errors() as tasks:
        asker = Asker(wire, clock, pace)
        desk = Desk(wire, asker.hear, clock, pace, tasks)
        directory = Directory(wire, identity, clock)
        durable = streams or JetStream(wire, asker, clock)
        bus = WireBus(wire, asker, desk, durable, directory)
        await asker.start()
        tasks.start_soon(asker.sweep, name="ask sweep")
        tasks.start_soon(desk.sweep, name="heartbeats")
        tasks.start_soon(bus.keep_streams, clock, name="streams")
        yield bus
