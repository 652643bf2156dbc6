"""The bus in memory: the same asking and serving over a wire that never leaves the process.

For tests of whole loops and for agents run without NATS. It keeps NATS's manners: one serial
reader per subscription, queue groups, no responders, payload limit, dropped messages when a reader
is slow. It knows no users: what the permission matrix refuses is tested against the real server.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from messages.errors import TooLarge, Unreachable
from runtime.bus.bus import WireBus, open_bus
from runtime.bus.directory import Identity
from runtime.bus.memory_streams import MemoryStreams, Shelf, matches
from runtime.bus.port import Delivery
from runtime.bus.tasks import lone_errors
from runtime.bus.wire import MAX_PAYLOAD, NO_RESPONDERS, OnMessage, Pace, Watchers, size_of
from runtime.clock import Clock, Ids, MachineClock, MachineIds


class Hub:
    """The broker: what every connection of one test shares.

    Attributes:
        shelf: The streams.
        max_payload: Bytes, headers included.
    """

    def __init__(self, clock: Clock | None = None, *, max_payload: int = MAX_PAYLOAD) -> None:
        """Args: clock: for deadlines and redelivery; max_payload: as of a NATS server."""
        self.clock = clock or MachineClock()
        self.max_payload = max_payload
        self.shelf = Shelf(self.clock)
        self._interests: list[MemoryInterest] = []
        self._routes: dict[str, tuple[list[MemoryInterest], dict[str, list[MemoryInterest]]]] = {}
        self._turn = 0

    def add(self, interest: "MemoryInterest") -> None:
        """Somebody listens."""
        self._interests.append(interest)
        self._routes.clear()

    def remove(self, interest: "MemoryInterest") -> None:
        """Nobody listens there any more."""
        if interest in self._interests:
            self._interests.remove(interest)
            self._routes.clear()

    def route(self, delivery: Delivery) -> None:
        """Hand a message to everybody who listens, and to one member of each queue group."""
        plain, groups = self._route(delivery.subject)
        for interest in plain:
            interest.put(delivery)
        for members in groups.values():
            self._turn += 1
            members[self._turn % len(members)].put(delivery)
        if delivery.reply and not plain and not groups:
            self.route(
                Delivery(subject=delivery.reply, data=b"", headers={"Status": NO_RESPONDERS})
            )

    def _route(
        self, subject: str
    ) -> "tuple[list[MemoryInterest], dict[str, list[MemoryInterest]]]":
        found = self._routes.get(subject)
        if found is None:
            if len(self._routes) > _MOST_ROUTES:
                self._routes.clear()
            tokens = subject.split(".")
            hits = [i for i in self._interests if matches(i.pattern, tokens)]
            groups: dict[str, list[MemoryInterest]] = {}
            for interest in hits:
                if interest.queue:
                    groups.setdefault(interest.queue, []).append(interest)
            found = self._routes[subject] = [i for i in hits if not i.queue], groups
        return found


_MOST_ROUTES = 1024


class MemoryInterest:
    """One subscription (``wire.Subscription``)."""

    def __init__(self, hub: Hub, subject: str, queue: str, pending: int) -> None:
        self.pattern = tuple(subject.split("."))
        self.queue = queue
        self._hub = hub
        self._put, self._get = anyio.create_memory_object_stream[Delivery](pending)
        self._is_over = anyio.Event()

    def put(self, delivery: Delivery) -> None:
        """Queue a message for the reader; when it is slow, the newest is dropped."""
        try:
            self._put.send_nowait(delivery)
        except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return

    async def read(self, on_message: OnMessage) -> None:
        """The reader: one message after the other."""
        try:
            with self._put, self._get:
                async for delivery in self._get:
                    await on_message(delivery)
        finally:
            self._is_over.set()

    async def close(self) -> None:
        """See ``wire.Subscription``."""
        self._hub.remove(self)
        self._put.close()
        await self._is_over.wait()


class MemoryWire(Watchers):
    """One connection to a hub (``wire.Wire``)."""

    def __init__(self, hub: Hub, inbox: str, tasks: TaskGroup) -> None:
        super().__init__()
        self._hub = hub
        self._inbox = inbox
        self._tasks = tasks
        self._interests: list[MemoryInterest] = []
        self.is_connected = True

    @property
    def inbox(self) -> str:
        """See ``Wire``."""
        return self._inbox

    @property
    def max_payload(self) -> int:
        """See ``Wire``."""
        return self._hub.max_payload

    async def connected(self, deadline_s: float) -> None:  # noqa: ARG002 -- it will not come back
        """See ``Wire``."""
        if not self.is_connected:
            raise Unreachable("this connection to the memory bus is closed")

    async def publish(
        self, subject: str, data: bytes, reply: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        """See ``Wire``."""
        size = size_of(data, headers)
        if size > self._hub.max_payload:
            raise TooLarge(f"a message to {subject}", size, self._hub.max_payload)
        await self.connected(0.0)
        self._hub.route(Delivery(subject=subject, data=data, reply=reply, headers=headers or {}))

    async def subscribe(
        self, subject: str, on_message: OnMessage, *, queue: str = "", pending: int = 4096
    ) -> MemoryInterest:
        """See ``Wire``."""
        interest = MemoryInterest(self._hub, subject, queue, pending)
        self._tasks.start_soon(interest.read, on_message, name=f"reader of {subject}")
        self._hub.add(interest)
        self._interests.append(interest)
        return interest

    async def flush(self) -> None:
        """See ``Wire``."""

    def cut(self) -> None:
        """Leave without a word, as a killed process does: the hub forgets this connection."""
        self.is_connected = False
        for interest in self._interests:
            self._hub.remove(interest)
        self.tell_closed(Unreachable("this connection to the memory bus is closed"))


@asynccontextmanager
async def connect(
    hub: Hub, *, name: str = "memory", ids: Ids | None = None, pace: Pace | None = None
) -> AsyncGenerator[WireBus]:
    """A bus over a hub, while entered.

    Args:
        hub: shared by all who are to hear each other.
        name: what this connection is called.
        ids: the machine's unless given.
        pace: how patient both ends are, by the hub's clock.
    """
    own_id = (ids or MachineIds()).new_id("conn")
    async with lone_errors() as tasks:
        wire = MemoryWire(hub, f"_INBOX_memory.{own_id}", tasks)
        streams = MemoryStreams(hub.shelf, hub.route)
        identity = Identity(name=name, id=own_id)
        async with open_bus(
            wire, identity=identity, clock=hub.clock, pace=pace or Pace(), streams=streams
        ) as bus:
            yield bus
