"""Taking tasks out of a work queue over NATS.

A pull request is never cancelled, since the server would send the next task into the void: it runs
out by itself after ``PULL_S``, and on leaving we unsubscribe, wait for what is on its way, and give
back what nobody handled.
"""

from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress

import anyio
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from messages.errors import BusError, DeadlineExceeded
from runtime.bus.ask import Asker
from runtime.bus.port import Delivery, TaskDelivery
from runtime.bus.streams import ACK_WAIT_S
from runtime.bus.tasks import lone_errors
from runtime.bus.wire import Wire
from runtime.clock import Clock

PULL_S = 2.0
"""How long one pull request waits for tasks."""
ACK_S = 2.0
ACK_TRIES = 3
_GIVE_BACK_S = 3.0
_PAUSE_S = 0.25
"""Before pulling again where the stream or the server was not there."""

_SLACK_S = 1.0
"""After which a pull request counts as lost with the server that had it."""
_RAN_OUT = "408"

_ACK = b"+ACK"
_NAK = b"-NAK"
_PROGRESS = b"+WPI"
_TERM = b"+TERM"
_ACK_TOKENS = 9
"""``$JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>``."""


class PulledTask:
    """One task as JetStream delivered it (``port.TaskDelivery``)."""

    def __init__(self, delivery: Delivery, asker: Asker, wire: Wire) -> None:
        self.subject = delivery.subject
        self.data = delivery.data
        self.headers: Mapping[str, str] = delivery.headers
        tokens = delivery.reply.split(".")
        # A domain and an account hash may stand before the stream.
        first = 4 if len(tokens) == _ACK_TOKENS else 6
        self.deliveries = int(tokens[first])
        self.sequence = int(tokens[first + 1])
        self.is_ended = False
        self._reply = delivery.reply
        self._asker = asker
        self._wire = wire

    async def ack(self) -> None:
        """See ``TaskDelivery``."""
        await self._end(_ACK)

    async def retry(self, delay_s: float) -> None:
        """See ``TaskDelivery``."""
        await self._end(_NAK + b' {"delay": %d}' % int(delay_s * 1e9))

    async def drop(self, why: str) -> None:
        """See ``TaskDelivery``."""
        await self._end(_TERM + b" " + why[:200].encode())

    async def extend(self) -> None:
        """See ``TaskDelivery``."""
        await self._wire.publish(self._reply, _PROGRESS)

    async def give_back(self) -> None:
        """Nobody handled it; deliver it to somebody else at once."""
        await self._wire.publish(self._reply, _NAK)

    async def _end(self, word: bytes) -> None:
        for attempt in range(1, ACK_TRIES + 1):
            try:
                await self._asker.exchange(self._reply, word, deadline_s=ACK_S)
            except DeadlineExceeded:
                if attempt == ACK_TRIES:
                    raise
            else:
                self.is_ended = True
                return


class Puller:
    """One process's share of a work queue."""

    def __init__(self, subject: str, batch: int, *, asker: Asker, wire: Wire, clock: Clock) -> None:
        """Args.

        subject: where the consumer is asked for its next messages.
        batch: how many tasks one pull asks for; none is pulled while one is not taken.
        asker, wire, clock: of the connection.
        """
        self._subject = subject
        self._batch = batch
        self._asker = asker
        self._wire = wire
        self._clock = clock
        self._arrived: deque[PulledTask] = deque()
        self._left = 0
        self._ends = 0.0
        self._is_refused = False
        self._something = anyio.Event()
        wire.watch(reconnected=self._pull_again)

    @asynccontextmanager
    async def tasks(self, inbox: str) -> AsyncGenerator[MemoryObjectReceiveStream[TaskDelivery]]:
        """Tasks while entered; what nobody took is given back on leaving.

        Args:
            inbox: a subject of this connection alone, for what is pulled.
        """
        put, get = anyio.create_memory_object_stream[TaskDelivery](0)
        subscription = await self._wire.subscribe(inbox, self._on_message)
        try:
            async with lone_errors() as tasks:
                tasks.start_soon(self._pull, inbox, put, name="pull")
                tasks.start_soon(self._keep, name="pull keep")
                with get:
                    yield get
        finally:
            put.close()
            with anyio.move_on_after(_GIVE_BACK_S, shield=True):
                await subscription.close()
                for task in self._arrived:
                    await task.give_back()
                await self._wire.flush()

    async def _pull(self, inbox: str, put: MemoryObjectSendStream[TaskDelivery]) -> None:
        request = msgspec.json.encode({"batch": self._batch, "expires": int(PULL_S * 1e9)})
        while True:
            while self._arrived:
                try:
                    await put.send(self._arrived[0])
                except anyio.BrokenResourceError:
                    return  # nobody takes tasks any more
                self._arrived.popleft()
            left_s = self._ends - self._clock.monotonic()
            if self._left > 0 and left_s > 0:
                await self._wait(left_s)
                continue
            if self._is_refused or not self._wire.is_connected:
                self._is_refused = False
                await self._wait(_PAUSE_S)
            self._left = self._batch
            self._ends = self._clock.monotonic() + PULL_S + _SLACK_S
            with suppress(BusError):
                await self._wire.publish(self._subject, request, inbox)

    async def _wait(self, longest_s: float) -> None:
        self._something = anyio.Event()
        with anyio.move_on_after(longest_s):
            await self._something.wait()

    async def _keep(self) -> None:
        """Tasks that wait for a free gateway must not be delivered again meanwhile."""
        while True:
            await self._clock.sleep(ACK_WAIT_S / 4)
            for task in list(self._arrived):
                with suppress(BusError):
                    await task.extend()

    async def _on_message(self, delivery: Delivery) -> None:
        status = delivery.headers.get("Status", "")
        if not delivery.reply:
            self._left = 0
            self._is_refused = status != _RAN_OUT
        else:
            self._left -= 1
            self._arrived.append(PulledTask(delivery, self._asker, self._wire))
        self._something.set()

    def _pull_again(self) -> None:
        self._left = 0
        self._something.set()
