"""The product as it is measured: every role over a real nats-server and a durable SQLite ledger.

An instant scripted model calls one read tool as often as it is told and finishes; the run is
created through the ledger and driven by the orchestrator, so intake is apart.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread

from messages import subjects
from messages.agent import AgentSpec
from messages.ledger import Create, Hold, HoldRow, Lift, Load, Loaded
from messages.status import Status
from runtime.asking import Asking
from runtime.bus import client
from runtime.bus.bus import WireBus
from runtime.bus.server import EmbeddedServer
from runtime.clock import MachineClock, MachineIds, machine_chance
from runtime.ledger.sqlite import SqliteLedger
from runtime.loop.start import first_entry
from runtime.model.scripted import Turn, View, call, finish
from runtime.policy.grants import Signer
from runtime.settings import Policy, Settings
from runtime.supervisor import Supervisor
from treadle import Agent, App, Budget, Ctx, read
from treadle.assembly import Parts, assemble
from treadle.models import models_of

AGENT = "bench"
TENANT = "default"


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


@dataclass
class Stage:
    """A serving process to measure.

    Attributes:
        bus: Its connection.
    """

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

    async def drive(self, run_ids: list[str]) -> None:
        """Let held runs go, wake them, and return when all of them have ended."""
        left = set(run_ids)
        feed = f"{subjects.ROOT}.events.{TENANT}.*.finished"
        async with self.bus.subscribe(feed, pending=len(left) + 16) as finished:
            _ = await self.asking.again(Lift())
            for run_id in run_ids:
                await self.bus.publish(subjects.wake(TENANT, run_id), b"")
            async for delivery in finished:
                left.discard(delivery.subject.split(".")[3])
                if not left:
                    break
        for run_id in run_ids:
            await self._check(run_id)

    async def _check(self, run_id: str) -> None:
        loaded = await self.asking.again(Load(tenant=TENANT, run_id=run_id, upto=0))
        if not isinstance(loaded, Loaded) or loaded.row.summary.status is not Status.SUCCEEDED:
            raise AssertionError(f"run {run_id} did not succeed")


@asynccontextmanager
async def serving(data_dir: Path) -> AsyncGenerator[Stage]:
    """Every role in this process, while entered."""
    clock, ids = MachineClock(), MachineIds()
    app = App(agent, script=script)
    settings = Settings()
    agents, models = await anyio.to_thread.run_sync(models_of, app, settings, "scripted")
    ledger = await SqliteLedger.open(data_dir / "ledger.db", clock.now)
    async with (
        EmbeddedServer(data_dir) as server,
        client.connect(server.url, server.users["daemon"]) as bus,
        anyio.create_task_group() as tasks,
    ):
        await bus.prepare_streams([AGENT])
        roles = assemble(
            Parts(
                bus_of=lambda _role: bus,
                ledger=ledger,
                app=app,
                agents=agents,
                models=models,
                settings=settings,
                policy=Policy(version="bench", limits={}),
                signer=Signer(bytes(32)),
                public_key=Signer(bytes(32)).public_key,
                clock=clock,
                ids=ids,
                chance=machine_chance,
                process=ids.new_id("proc"),
            )
        )
        supervisor = Supervisor(clock=clock, chance=machine_chance, grace_s=5, signals=())
        tasks.start_soon(supervisor.run, roles.specs)
        await roles.ready()
        yield Stage(bus, Asking(bus, clock), agents[AGENT], ids)
        supervisor.stop()
    await ledger.close()
