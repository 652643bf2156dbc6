"""The durable half of the bus in memory (``streams.Streams``): it lives as long as the hub."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from messages import subjects
from messages.errors import NoResponders, NotFound
from runtime.bus.port import Delivery, Stored, TaskDelivery
from runtime.bus.streams import ACK_WAIT_S
from runtime.bus.tasks import lone_errors
from runtime.clock import Clock

_LOOK_S = 0.1
"""How often a waiting consumer looks whether an AckWait or a delay has passed."""


def matches(pattern: Iterable[str], tokens: list[str]) -> bool:
    """Whether a subject falls under a pattern with ``*`` and ``>``."""
    at = -1
    for at, wanted in enumerate(pattern):
        if wanted == ">":
            return at < len(tokens)
        if at >= len(tokens) or wanted not in {"*", tokens[at]}:
            return False
    return at + 1 == len(tokens)


class StoredTask:
    """One message of the work queue (``port.TaskDelivery``)."""

    def __init__(self, shelf: "Shelf", sequence: int, subject: str, data: bytes) -> None:
        self.subject = subject
        self.data = data
        self.headers: Mapping[str, str] = {}
        self.deliveries = 0
        self.sequence = sequence
        self.due = 0.0
        """Monotonic time from which it may be delivered (again)."""
        self._shelf = shelf

    async def ack(self) -> None:
        """See ``TaskDelivery``."""
        self._shelf.tasks.pop(self.sequence, None)

    async def retry(self, delay_s: float) -> None:
        """See ``TaskDelivery``."""
        self.wait(delay_s)

    async def drop(self, why: str) -> None:  # noqa: ARG002 -- nobody reads it here
        """See ``TaskDelivery``."""
        self._shelf.tasks.pop(self.sequence, None)

    async def extend(self) -> None:
        """See ``TaskDelivery``."""
        self.wait(ACK_WAIT_S)

    def wait(self, delay_s: float) -> None:
        """Not to be delivered for so long."""
        self.due = self._shelf.clock.monotonic() + delay_s
        self._shelf.changed()


class Shelf:
    """What the streams hold.

    Attributes:
        tasks: The work queue, by sequence.
        latest: Newest message of every other stored subject.
        dead: Dead letters in order, with their subjects.
        kept: Whatever is stored and is no task, by sequence.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.tasks: dict[int, StoredTask] = {}
        self.latest: dict[str, bytes] = {}
        self.dead: list[tuple[str, bytes]] = []
        self.kept: dict[int, Stored] = {}
        self.created = ""
        self._agents: frozenset[str] = frozenset()
        self._seen: set[tuple[str, str]] = set()
        self._sequence = 0
        self._change = anyio.Event()

    def prepare(self, agents: Sequence[str]) -> None:
        """The streams exist from now on."""
        self._agents = frozenset(subjects.tasks_of_agent(agent) for agent in agents)
        self.created = self.created or f"memory-{self.clock.now()}"

    def store(self, subject: str, data: bytes, message_id: str) -> None:
        """Keep a message once.

        Raises:
            NoResponders: no stream takes that subject.
        """
        kind, _, tail = subject.removeprefix(f"{subjects.ROOT}.").partition(".")
        agent = tail.rpartition(".")[2]
        is_task = kind == "tasks" and f"{subjects.ROOT}.tasks.*.*.{agent}" in self._agents
        if not self.created or not (is_task or kind in {"results", "dead"}):
            raise NoResponders(f"nobody serves {subject} now")
        if (kind, message_id) in self._seen:
            return
        self._seen.add((kind, message_id))
        self._sequence += 1
        if is_task:
            self.tasks[self._sequence] = StoredTask(self, self._sequence, subject, data)
            self.changed()
        else:
            self.latest[subject] = data
            self.kept[self._sequence] = Stored(subject=subject, sequence=self._sequence, data=data)
        if kind == "dead":
            self.dead.append((subject, data))

    def take(self) -> StoredTask | None:
        """The next task that nobody works on; it is out until its AckWait has passed."""
        now = self.clock.monotonic()
        for task in self.tasks.values():
            if task.due <= now:
                task.due = now + ACK_WAIT_S
                task.deliveries += 1
                return task
        return None

    def changed(self) -> None:
        """Let waiting consumers look again."""
        self._change.set()
        self._change = anyio.Event()

    async def change(self) -> None:
        """Return when something may have become deliverable."""
        async with anyio.create_task_group() as tasks:
            waited = self._change

            async def either(wait: Callable[[], object]) -> None:
                await wait()  # pyright: ignore[reportGeneralTypeIssues]
                tasks.cancel_scope.cancel()

            tasks.start_soon(either, waited.wait)
            tasks.start_soon(either, lambda: self.clock.sleep(_LOOK_S))


class MemoryStreams:
    """Streams of one connection."""

    def __init__(self, shelf: Shelf, route: Callable[[Delivery], None]) -> None:
        """Args: shelf: what is kept; route: where plain subscribers hear of it."""
        self._shelf = shelf
        self._route = route

    async def publish(self, subject: str, data: bytes, message_id: str) -> None:
        """See ``Bus.publish_durable``."""
        self._shelf.store(subject, data, message_id)
        self._route(Delivery(subject=subject, data=data))

    def consume(
        self,
        stream: str,  # noqa: ARG002 -- there is one queue
        durable: str,  # noqa: ARG002 -- and one consumer
        batch: int,  # noqa: ARG002
    ) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[TaskDelivery]]:
        """See ``Bus.consume``; one task is handed over at a time, whatever ``batch``."""
        return self._consume()

    @asynccontextmanager
    async def _consume(self) -> AsyncGenerator[MemoryObjectReceiveStream[TaskDelivery]]:
        put, get = anyio.create_memory_object_stream[TaskDelivery](0)
        async with lone_errors() as tasks:
            tasks.start_soon(self._hand_out, put, name="memory consumer")
            with put, get:
                yield get

    async def _hand_out(self, put: MemoryObjectSendStream[TaskDelivery]) -> None:
        while True:
            task = self._shelf.take()
            if task is None:
                await self._shelf.change()
                continue
            try:
                await put.send(task)
            except anyio.BrokenResourceError:
                task.wait(0.0)
                return
            except anyio.get_cancelled_exc_class():
                task.wait(0.0)
                raise

    async def created(self, stream: str) -> str:
        """See ``Bus.stream_created``."""
        if not self._shelf.created:
            raise NotFound("stream or consumer", stream)
        return self._shelf.created

    async def last(self, stream: str, subject: str) -> bytes | None:  # noqa: ARG002 -- by subject
        """See ``Bus.last``."""
        return self._shelf.latest.get(subject)

    async def stored(self, stream: str, subject: str, after: int) -> Stored | None:  # noqa: ARG002
        """See ``Bus.stored``."""
        pattern = subject.split(".")
        for sequence, message in self._shelf.kept.items():
            if sequence > after and matches(pattern, message.subject.split(".")):
                return message
        return None

    async def discard(self, stream: str, sequence: int) -> None:
        """See ``Bus.discard``."""
        if self._shelf.kept.pop(sequence, None) is None:
            raise NotFound("message", f"{stream} {sequence}")

    async def prepare(self, agents: Sequence[str]) -> None:
        """See ``Bus.prepare_streams``."""
        self._shelf.prepare(agents)
