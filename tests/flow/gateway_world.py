"""A gateway, a checkpointer and users over the bus in memory, with the ledger's real rules."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec.structs import replace

from actors.checkpointer import Checkpointer
from actors.gateway import Gateway
from messages import subjects
from messages.events import AnyEvent
from messages.ledger import Append, Committed, Entry, Load, Loaded, Take, Taken
from messages.state import LoopState
from runtime.bus.bus import WireBus
from runtime.bus.memory import Hub, connect
from runtime.clock import MachineClock, MachineIds
from runtime.ledger.memory import MemoryLedger
from runtime.loop.evolve import evolve, fold
from runtime.loop.summary import summarise
from runtime.settings import Settings
from tests.journals import SPEC

PATIENCE_S = 10.0


class World:
    """What a test holds on to."""

    def __init__(self, hub: Hub, bus: WireBus, tasks: TaskGroup) -> None:
        self.hub = hub
        self.bus = bus
        self.tasks = tasks
        self.late_s = 0.0
        self.ledger = MemoryLedger(lambda: MachineClock().now() + self.late_s)
        self.gateway: Gateway | None = None
        self._checkpointer = anyio.CancelScope()

    async def api(
        self, principal: str, verb: str, /, *, tenant: str = "default", **body: Any
    ) -> Any:
        """One request; the reply, or the error inside it."""
        data = msgspec.json.encode(body)
        return await self.raw(principal, verb, data, tenant=tenant)

    async def raw(self, principal: str, verb: str, data: bytes, *, tenant: str = "default") -> Any:
        """The same with a body of any bytes."""
        subject = subjects.api(tenant, principal, verb)
        return msgspec.json.decode(await self.bus.request(subject, data, timeout_s=PATIENCE_S))

    async def code(self, principal: str, verb: str, /, **body: Any) -> str:
        """The code of the refusal; ``ok`` where there is none."""
        reply = await self.api(principal, verb, **body)
        return reply["error"]["code"] if "error" in reply else "ok"

    async def publish_task(
        self, payload: bytes, *, principal: str = "submitter", agent: str = "refund"
    ) -> None:
        """Into the stream, with its acknowledgement."""
        subject = subjects.task("default", principal, agent)
        await self.bus.publish_durable(subject, payload, message_id=MachineIds().new_id("msg"))

    async def letter(self) -> tuple[str, Any]:
        """Subject and content of the newest dead letter, once there is one."""
        with anyio.fail_after(PATIENCE_S):
            while not self.hub.shelf.dead:
                await self.hub.shelf.change()
        subject, data = self.hub.shelf.dead[-1]
        return subject, msgspec.json.decode(data)

    async def settled(self) -> None:
        """Until no task waits."""
        with anyio.fail_after(PATIENCE_S):
            while self.hub.shelf.tasks:
                await self.hub.shelf.change()

    async def grow(self, run_id: str, *steps: Sequence[AnyEvent]) -> int:
        """Drive a run by hand: take it and append one entry for each step; its version."""
        taken = await self._one(
            Take(tenant="default", run_id=run_id, process="p", take_id=MachineIds().new_id("tk"))
        )
        assert isinstance(taken, Taken), taken
        read = await self.loaded(run_id)
        state = fold(read.entries)
        take_id = read.row.take_id or ""
        for events in steps:
            state = _after(state, events)
            append = Append(
                tenant="default",
                run_id=run_id,
                version=state.version + 1,
                append_id=MachineIds().new_id("apd"),
                prev_hash=state.head_hash,
                process="p",
                take_id=take_id,
                active_s=0.5,
                events=tuple(events),
                summary=summarise(state),
                named=tuple(signal.id for signal in read.signals),
            )
            committed = await self._one(append)
            assert isinstance(committed, Committed), committed
            state = replace(state, version=committed.version, head_hash=committed.hash)
        return state.version

    async def loaded(self, run_id: str) -> Loaded:
        """The run as the ledger has it, with its whole journal."""
        entries: list[Entry] = []
        while True:
            after = entries[-1].version if entries else -1
            read = await self._one(Load(tenant="default", run_id=run_id, after=after))
            assert isinstance(read, Loaded), read
            entries.extend(read.entries)
            if not read.is_partial:
                return replace(read, entries=tuple(entries))

    async def _one(self, operation: Any) -> Any:
        [answer] = await self.ledger.apply([operation])
        return answer

    async def start_ledger(self) -> None:
        """Serve the ledger on a connection of its own."""
        await self.tasks.start(self._serve_ledger)

    def stop_ledger(self) -> None:
        """Its process is gone."""
        self._checkpointer.cancel()

    async def _serve_ledger(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        with anyio.CancelScope() as self._checkpointer:
            async with connect(self.hub) as bus, anyio.create_task_group() as tasks:
                actor = Checkpointer(bus, self.ledger)
                tasks.start_soon(actor.run)
                await actor.is_serving.wait()
                task_status.started()
                await anyio.sleep_forever()


def _after(state: LoopState, events: Iterable[AnyEvent]) -> LoopState:
    for event in events:
        state = evolve(state, event)
    return state


@asynccontextmanager
async def world(
    *, settings: Settings | None = None, max_payload: int = 1_000_000, has_ledger: bool = True
) -> AsyncGenerator[World]:
    """Everything that answers a user, while entered."""
    hub = Hub(max_payload=max_payload)
    async with (
        connect(hub) as bus,
        connect(hub) as gateway_bus,
        anyio.create_task_group() as tasks,
    ):
        await gateway_bus.prepare_streams(["refund", "gone"])
        here = World(hub, bus, tasks)
        if has_ledger:
            await here.start_ledger()
        here.gateway = Gateway(
            bus=gateway_bus,
            agents={"refund": SPEC},
            settings=settings or Settings(),
            clock=MachineClock(),
            ids=MachineIds(),
        )
        await tasks.start(here.gateway.run)
        yield here
        tasks.cancel_scope.cancel()
