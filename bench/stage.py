"""The product as it is measured: every role over a real nats-server and a durable SQLite ledger.

An instant scripted model calls one read tool as often as it is told and finishes; the run is
created through the ledger and driven by the orchestrator, so intake is apart.
"""

import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import anyio

from messages import subjects
from messages.agent import AgentSpec
from messages.ledger import Create, Entry, Hold, HoldRow, Lift, Load, Loaded
from messages.status import Status
from messages.subjects import ROLES
from runtime import heap
from runtime.asking import Asking
from runtime.bus import client
from runtime.bus.bus import WireBus
from runtime.bus.permissions import DAEMON, Credentials
from runtime.bus.server import EmbeddedServer
from runtime.clock import MachineClock, MachineIds, machine_chance
from runtime.ledger.port import Ledger
from runtime.ledger.sqlite import SqliteLedger
from runtime.loop.start import first_entry
from runtime.model.scripted import Turn, View, call, finish
from runtime.policy.grants import Signer
from runtime.settings import Policy, Runtime, Settings
from runtime.supervisor import Supervisor
from treadle import Agent, App, Budget, Ctx, read
from treadle.assembly import Parts, Roles, assemble
from treadle.models import models_of

AGENT = "bench"
TENANT = "default"
SLOTS = 256
"""Runs that one orchestrator drives at a time, so that the largest load really is concurrent."""


@read(source="bench")
async def look(ctx: Ctx[None], place: int) -> dict[str, int | str]:
    """Look at a place; every place looks different, so this is progress."""
    del ctx
    return {"ok": 1, "place": place, "value": "y" * 40}


def script(view: View) -> Turn:
    """As many looks as the inputs say, then the end."""
    if view.turn >= view.inputs["iterations"]:
        return finish("done")
    return call(look, place=view.turn)


agent = Agent(
    AGENT,
    model="scripted",
    instructions="Look at every place.",
    tools=[look],
    output=str,
    budget=Budget(max_steps=2000, max_tokens=1_000_000_000, max_seconds=86_400),
)


_LOOK_S = 0.01


class Spent(NamedTuple):
    """What something took: seconds on the wall, and of this process's CPU."""

    wall_s: float
    cpu_s: float


class Stopwatch:
    """Both times since it was made."""

    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._cpu = time.process_time()

    def read(self) -> Spent:
        return Spent(time.perf_counter() - self._wall, time.process_time() - self._cpu)


@dataclass
class Stage:
    """A serving process to measure.

    Attributes:
        url, users: Of its broker.
        bus: Its connection.
    """

    url: str
    users: Mapping[str, Credentials]
    bus: WireBus
    asking: Asking
    spec: AgentSpec
    ids: MachineIds

    async def create(self, iterations: int) -> str:
        """Accept one run without waking anybody for it."""
        run_id = self.ids.new_id("run")
        events, summary = first_entry(
            self.spec,
            tenant=TENANT,
            run_id=run_id,
            principal="bench",
            scopes=(),
            goal="look around",
            inputs={"iterations": iterations},
            labels={},
            limits=self.spec.limits,
            trace_id="bench",
            now=MachineClock().now(),
        )
        _ = await self.asking.again(
            Create(tenant=TENANT, run_id=run_id, append_id=run_id, events=events, summary=summary)
        )
        return run_id

    async def hold(self) -> None:
        """Let accepted runs lie until they are driven."""
        _ = await self.asking.again(Hold(hold=HoldRow(reason="bench")))

    async def drive(self, run_ids: list[str]) -> Spent:
        """Let held runs go, wake them, and return when all of them have ended."""
        left = set(run_ids)
        feed = f"{subjects.ROOT}.events.{TENANT}.*.finished"
        async with self.bus.subscribe(feed, pending=len(left) + 16) as finished:
            watch = Stopwatch()
            _ = await self.asking.again(Lift())
            for run_id in run_ids:
                await self.bus.publish(subjects.wake(TENANT, run_id), b"")
            async for delivery in finished:
                left.discard(delivery.subject.split(".")[3])
                if not left:
                    break
            spent = watch.read()
        for run_id in run_ids:
            await self._check(run_id)
        return spent

    async def journal(self, run_id: str) -> tuple[Entry, ...]:
        """Every entry of a run."""
        loaded = await self.asking.again(Load(tenant=TENANT, run_id=run_id))
        if not isinstance(loaded, Loaded) or loaded.is_partial:
            raise AssertionError(f"run {run_id} cannot be read in one page")
        return loaded.entries

    async def _check(self, run_id: str) -> None:
        """It succeeded, and nothing of it is left to do beside what is measured next."""
        while True:
            loaded = await self.asking.again(Load(tenant=TENANT, run_id=run_id, upto=0))
            if not isinstance(loaded, Loaded) or loaded.row.summary.status is not Status.SUCCEEDED:
                raise AssertionError(f"run {run_id} did not succeed")
            if loaded.row.published:
                return
            await anyio.sleep(_LOOK_S)


def roles_of(
    bus: WireBus, ledger: Ledger | None, roles: tuple[str, ...]
) -> tuple[Roles, AgentSpec]:
    """These roles of the app over one connection, and the agent they serve."""
    clock, ids, app = MachineClock(), MachineIds(), App(agent, script=script)
    settings, signer = Settings(runtime=Runtime(slots=SLOTS)), Signer(bytes(32))
    agents, models = models_of(app, settings, "scripted")
    parts = Parts(
        bus_of=lambda _role: bus,
        ledger=ledger,
        app=app,
        agents=agents,
        models=models,
        settings=settings,
        policy=Policy(version="bench", limits={}),
        signer=signer,
        public_key=signer.public_key,
        clock=clock,
        ids=ids,
        chance=machine_chance,
        process=ids.new_id("proc"),
    )
    return assemble(parts, roles), agents[AGENT]


@asynccontextmanager
async def serving(data_dir: Path, roles: tuple[str, ...] = ROLES) -> AsyncGenerator[Stage]:
    """These roles in this process, with broker and ledger, while entered."""
    clock = MachineClock()
    ledger = await SqliteLedger.open(data_dir / "ledger.db", clock.now)
    try:
        async with (
            EmbeddedServer(data_dir) as server,
            client.connect(server.url, server.users[DAEMON]) as bus,
            anyio.create_task_group() as tasks,
        ):
            await bus.prepare_streams([AGENT])
            served, spec = roles_of(bus, ledger, roles)
            supervisor = Supervisor(clock=clock, chance=machine_chance, grace_s=5, signals=())
            tasks.start_soon(supervisor.run, served.specs)
            await served.ready()
            heap.settle()
            yield Stage(server.url, server.users, bus, Asking(bus, clock), spec, MachineIds())
            supervisor.stop()
    finally:
        await ledger.close()
