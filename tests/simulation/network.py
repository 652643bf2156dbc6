"""The network between the processes: messages are late, lost, repeated and overtake each other."""

import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import anyio

from messages import subjects
from messages.errors import TooLarge, Unreachable
from runtime.bus.bus import WireBus, open_bus
from runtime.bus.directory import Identity
from runtime.bus.memory import Hub, MemoryInterest, MemoryWire
from runtime.bus.port import Delivery
from runtime.bus.tasks import lone_errors
from runtime.bus.wire import NO_RESPONDERS, Pace, size_of
from runtime.clock import Clock, Ids
from tests.simulation.machine import Machine, Process
from tests.simulation.options import Options
from tests.simulation.queue import Consumer, Queue

PACE = Pace(heartbeat_s=0.5, silence_s=1.5, sweep_s=0.25)
_USUAL_S = 0.002
_SLOW_S = (0.0, 1.0, 4.0)
_SHARE = (0.0, 0.02, 0.12)
"""Of the messages that meet with a fault, by its level."""
_EXECUTORS = f"{subjects.ROOT}.rpc.executor."
"""Their requests may come twice to two of them; to others a copy comes the way of its original."""
_HINTS = tuple(f"{subjects.ROOT}.{kind}." for kind in ("wakes", "signals", "ctl"))


class Network(Hub):
    """Carries messages between connections.

    Attributes:
        is_healed: Nothing goes wrong any more.
        is_down: The broker is away: nothing arrives.
    """

    def __init__(self, machine: Machine, clock: Clock, options: Options, queue: Queue) -> None:
        super().__init__(clock)
        self.queue = queue
        self.is_healed = False
        self.is_down = False
        self._machine = machine
        self._chance = options.chance("network")
        self._share = {name: _SHARE[options.level(name)] for name in ("loss", "repeat", "slow")}
        self._share["hints"] = 4 * _SHARE[options.level("hints")]
        self._longest_s = _SLOW_S[options.level("slow")]
        self._wires: list[SimWire] = []

    def route(self, delivery: Delivery) -> None:
        """Hand it on, sometime or never."""
        if self.is_down:
            return
        plain, groups = self._route(_stem(delivery.subject))
        for interest in plain:
            self._carry(interest, delivery)
        for members in groups.values():
            self._carry(self._chance.choice(members), delivery)
            if delivery.subject.startswith(_EXECUTORS) and self._is("repeat"):
                self._carry(self._chance.choice(members), delivery)
        if delivery.reply and not plain and not groups:
            headers = {"Status": NO_RESPONDERS}
            self.route(Delivery(subject=delivery.reply, data=b"", headers=headers))

    def _is(self, fault: str) -> bool:
        return not self.is_healed and self._chance.random() < self._share[fault]

    def _carry(self, interest: MemoryInterest, delivery: Delivery) -> None:
        chance = self._chance.random
        delay_s = chance() * _USUAL_S
        if not self.is_healed:
            is_hint = delivery.subject.startswith(_HINTS)
            if self._is("loss") or (is_hint and self._is("hints")):
                return
            if self._is("slow"):
                delay_s += chance() * self._longest_s
            if self._is("repeat"):
                self._machine.outside(delay_s + chance() * 2.0, interest.put, delivery)
        self._machine.outside(delay_s, interest.put, delivery)

    # ------------------------------------------------------------------ connections
    def plug(self, wire: "SimWire") -> None:
        """A connection opens."""
        self._wires.append(wire)

    def unplug(self, process: Process) -> None:
        """The broker notices that a process is gone: its sockets are closed."""
        for wire in [w for w in self._wires if w.process is process]:
            wire.cut()
            self._wires.remove(wire)
            self.queue.leave(wire.consumers)

    def fall(self) -> None:
        """The broker goes away."""
        self.is_down = True
        for wire in self._wires:
            wire.is_connected = False

    def rise(self) -> None:
        """It is back."""
        self.is_down = False
        for wire in self._wires:
            wire.come_back()


def _stem(subject: str) -> str:
    """What of a subject decides where it goes: every reply has one of its own."""
    return f"{subject.rsplit('.', 2)[0]}.x.x" if subject.startswith("_INBOX_") else subject


class SimWire(MemoryWire):
    """One connection, which waits for the broker while it is away."""

    def __init__(
        self, network: Network, process: Process, inbox: str, tasks: anyio.abc.TaskGroup
    ) -> None:
        super().__init__(network, inbox, tasks)
        self.process = process
        self._network = network
        self._back = anyio.Event()
        self.consumers: list[Consumer] = []
        network.plug(self)

    async def connected(self, deadline_s: float) -> None:
        """See ``Wire``."""
        if not self.is_connected:
            back = self._back
            with anyio.move_on_after(deadline_s):
                await back.wait()
        if not self.is_connected:
            raise Unreachable("there is no broker")

    async def publish(
        self, subject: str, data: bytes, reply: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        """See ``Wire``; what is sent while the broker is away is lost."""
        size = size_of(data, headers)
        if size > self.max_payload:
            raise TooLarge(f"a message to {subject}", size, self.max_payload)
        self._network.route(
            Delivery(subject=subject, data=data, reply=reply, headers=headers or {})
        )

    def come_back(self) -> None:
        """Connected again."""
        if not self.is_connected:
            self.is_connected = True
            self._back.set()
            self._back = anyio.Event()
            self.process.context.run(self.tell_reconnected)


@asynccontextmanager
async def connect(
    network: Network, process: Process, clock: Clock, ids: Ids, chance: random.Random
) -> AsyncGenerator[WireBus]:
    """A bus of this process, while entered."""
    own_id = ids.new_id("conn")
    async with lone_errors() as tasks:
        wire = SimWire(network, process, f"_INBOX_sim.{own_id}", tasks)
        streams = network.queue.streams(wire, chance)
        wire.consumers = streams.mine
        identity = Identity(name=process.name, id=own_id)
        async with open_bus(
            wire, identity=identity, clock=clock, pace=PACE, streams=streams
        ) as bus:
            yield bus
