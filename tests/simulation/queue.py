"""The streams of the broker: tasks until they are acknowledged, results, dead letters.

A wiped broker is a new one: empty, with another creation time.
"""

import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from messages import subjects
from messages.errors import DeadlineExceeded, NotFound
from runtime.bus.port import Stored, TaskDelivery
from runtime.bus.streams import ACK_WAIT_S
from tests.simulation.machine import Machine
from tests.simulation.options import Options

_PUBLISH_S = 2.0
_SHARE = (0.0, 0.05, 0.2)
"""Of the words with the broker that are lost, by the level of ``loss``."""

Consumer = MemoryObjectSendStream[TaskDelivery]


class Link(Protocol):
    """A connection, as far as a stream cares."""

    async def connected(self, deadline_s: float) -> None:
        """Wait until there is one."""
        ...


class Task:
    """One message of the work queue (``port.TaskDelivery``)."""

    headers: Mapping[str, str] = {}

    def __init__(self, queue: "Queue", sequence: int, subject: str, data: bytes) -> None:
        self.subject = subject
        self.data = data
        self.deliveries = 0
        self.sequence = sequence
        self.turn = 0
        """Counts up whenever its waiting time starts anew."""
        self._queue = queue

    async def ack(self) -> None:
        """See ``TaskDelivery``."""
        if self._queue.is_heard():
            self._queue.tasks.pop(self.sequence, None)

    async def drop(self, why: str) -> None:
        """See ``TaskDelivery``."""
        del why
        await self.ack()

    async def retry(self, delay_s: float) -> None:
        """See ``TaskDelivery``."""
        self._queue.later(self, delay_s)

    async def extend(self) -> None:
        """See ``TaskDelivery``."""
        self._queue.later(self, ACK_WAIT_S)


class Queue:
    """What the broker keeps.

    Attributes:
        tasks: Not acknowledged yet, by sequence.
        results: Newest by subject.
        dead: Letters.
        is_healed: Nothing is lost any more.
        is_down: The broker is away.
    """

    def __init__(self, machine: Machine, options: Options) -> None:
        self.tasks: dict[int, Task] = {}
        self.results: dict[str, bytes] = {}
        self.dead: dict[str, bytes] = {}
        self.is_healed = False
        self.is_down = False
        self.wipes = 0
        self._machine = machine
        self._chance = options.chance("queue")
        self._loss = _SHARE[options.level("loss")]
        self._seen: set[str] = set()
        self._sequence = 0
        self._consumers: list[Consumer] = []

    @property
    def created(self) -> str:
        """When these streams were made."""
        return f"made-{self.wipes}"

    def wipe(self) -> None:
        """A new, empty broker."""
        self.wipes += 1
        self.tasks.clear()
        self.results.clear()
        self.dead.clear()
        self._seen.clear()

    def is_heard(self) -> bool:
        """Whether a word with the broker arrives."""
        return not self.is_down and (self.is_healed or self._chance.random() >= self._loss)

    def store(self, subject: str, data: bytes, message_id: str) -> None:
        """Keep a message once."""
        if message_id in self._seen:
            return
        self._seen.add(message_id)
        kind = subject.split(".")[1]
        if kind == "tasks":
            self._sequence += 1
            task = self.tasks[self._sequence] = Task(self, self._sequence, subject, data)
            self.later(task, 0.0)
        else:
            (self.dead if kind == "dead" else self.results)[subject] = data

    def later(self, task: Task, delay_s: float) -> None:
        """Hand it out after a while, unless its waiting time starts anew before."""
        task.turn += 1
        self._machine.outside(delay_s, self._hand_out, task, task.turn)

    def _hand_out(self, task: Task, turn: int) -> None:
        if turn != task.turn or self.tasks.get(task.sequence) is not task:
            return
        ready = [c for c in self._consumers if c.statistics().current_buffer_used == 0]
        if not ready or self.is_down:
            self.later(task, 0.25)
            return
        task.deliveries += 1
        self._chance.choice(ready).send_nowait(task)
        self.later(task, ACK_WAIT_S)

    def leave(self, gone: Sequence[Consumer]) -> None:
        """A gateway is gone."""
        self._consumers[:] = [each for each in self._consumers if each not in gone]

    def streams(self, link: Link, chance: random.Random) -> "Streams":
        """The streams as one connection has them."""
        return Streams(self, self._consumers, link, chance)


class Streams:
    """The streams of one connection (``streams.Streams``)."""

    def __init__(
        self, queue: Queue, consumers: list[Consumer], link: Link, chance: random.Random
    ) -> None:
        self._queue = queue
        self._consumers = consumers
        self._link = link
        self._chance = chance
        self.mine: list[Consumer] = []

    async def publish(self, subject: str, data: bytes, message_id: str) -> None:
        """See ``Bus.publish_durable``."""
        await self._speak(subject)
        self._queue.store(subject, data, message_id)
        await self._speak(subject)  # the word that it is stored

    async def _speak(self, what: str) -> None:
        await self._link.connected(_PUBLISH_S)
        await anyio.sleep(self._chance.random() * 0.002)
        if not self._queue.is_heard():
            await anyio.sleep(_PUBLISH_S)
            raise DeadlineExceeded(f"no word from the broker about {what}")

    def consume(
        self, stream: str, durable: str, batch: int
    ) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[TaskDelivery]]:
        """See ``Bus.consume``."""
        del stream, durable, batch
        return self._consume()

    @asynccontextmanager
    async def _consume(self) -> AsyncGenerator[MemoryObjectReceiveStream[TaskDelivery]]:
        put, get = anyio.create_memory_object_stream[TaskDelivery](16)
        self._consumers.append(put)
        self.mine.append(put)
        try:
            with put, get:
                yield get
        finally:
            self._queue.leave([put])

    async def created(self, stream: str) -> str:
        """See ``Bus.stream_created``."""
        await self._speak(stream)
        return self._queue.created

    async def last(self, stream: str, subject: str) -> bytes | None:
        """See ``Bus.last``."""
        await self._speak(stream)
        return self._queue.results.get(subject)

    async def stored(self, stream: str, subject: str, after: int) -> Stored | None:
        """See ``Bus.stored``; nobody here reads letters."""
        del stream, subject, after
        await anyio.lowlevel.checkpoint()
        return None

    async def discard(self, stream: str, sequence: int) -> None:
        """See ``Bus.discard``."""
        await anyio.lowlevel.checkpoint()
        raise NotFound("message", f"{stream} {sequence}")

    async def prepare(self, agents: Sequence[str]) -> None:
        """See ``Bus.prepare_streams``."""
        del agents
        await self._link.connected(_PUBLISH_S)


def result_of(queue: Queue, run_id: str) -> bytes | None:
    """The result of a run, if it is in the present stream."""
    return queue.results.get(subjects.result("default", run_id))
