"""What cancels leave in the process itself, and at the provider: tasks, subscriptions, connections.

The daemon's own parts run here, in the test's process, over a real nats-server and SQLite, since
nobody outside can count another process's tasks.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from nats.aio.client import Client

from runtime.bus import client
from runtime.bus.bus import WireBus
from runtime.bus.client import NatsWire
from runtime.bus.server import EmbeddedServer
from runtime.clock import MachineClock, MachineIds, machine_chance
from runtime.ledger.sqlite import SqliteLedger
from runtime.model.scripted import Script, call, turn
from runtime.policy.grants import load_signer
from runtime.settings import Policy, Runtime, Settings
from runtime.supervisor import Supervisor
from tests.fakes.provider import Say, text
from tests.system.daemon import ask, raw_client
from tests.system.test_anthropic import served, shown
from tests.system.test_refund import publish, result_of
from treadle import Agent, App, Ctx, Request, Ruling, allow, each_call, read, write
from treadle.assembly import Parts, Roles, assemble
from treadle.models import models_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

SETTINGS = Settings(runtime=Runtime(lease_s=1.0, due_s=0.2, grace_s=0.2))
PATIENCE_S = 30.0
TOGETHER = 20
CALLS = 3
_PLACE_OF_WORK = re.compile(r"treadle\.rpc\..* \d+")
"""A task that serves one request after the other: made when it is first needed and kept, at most so
many as its role has slots. None of them is at work when it is counted."""


class Tools:
    """Tools that wait until they are let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.ended = 0
        self.go_on = anyio.Event()

    async def _while_held(self, *, is_stopped_by_cancel: bool) -> str:
        self.begun += 1
        try:
            await (anyio.sleep_forever() if is_stopped_by_cancel else self.go_on.wait())
        finally:
            self.ended += 1
        return "done"

    def app(self) -> App:
        """Two reads and a write in one turn."""

        @read(source="shelf")
        async def look(ctx: Ctx[None]) -> str:
            """Look for ever."""
            return await self._while_held(is_stopped_by_cancel=True)

        @write(key=each_call)
        async def post(ctx: Ctx[None]) -> str:
            """Post once let go."""
            return await self._while_held(is_stopped_by_cancel=False)

        @post.rule
        def may_post(req: Request) -> Ruling:
            return allow()

        @post.lookup
        def find_post(ctx: Ctx[None]) -> str | None:
            return None

        agent = Agent("inside", model="m", instructions="Do it.", tools=[look, post])
        return App(agent, script=Script([turn(call(look), call(post), call(look))]))


@dataclass
class Inside:
    """The daemon's parts, and a person's connection."""

    tools: Tools
    bus: WireBus
    roles: Roles
    submitter: Client
    operator: Client

    async def play_and_cancel(self, name: str) -> None:
        """Some runs side by side, each cancelled in the middle of its three calls."""
        runs = [f"{name}-{number}" for number in range(TOGETHER)]
        begun = self.tools.begun
        self.tools.go_on = anyio.Event()
        for run_id in runs:
            await publish(self.submitter, run_id, "inside")
        with anyio.fail_after(PATIENCE_S):
            while self.tools.begun < begun + TOGETHER * CALLS:  # noqa: ASYNC110 -- user code
                await anyio.sleep(0.01)
        for run_id in runs:
            await ask(self.operator, "cancel", {"run_id": run_id}, "operator")
        ends = [await result_of(self.submitter, run_id) for run_id in runs]
        assert {(end["status"], end["reason"]) for end in ends} == {
            ("CANCELLED", "effect_unsettled")
        }
        self.tools.go_on.set()

    async def left(self) -> Counter[str]:
        """What there is once nothing is under way: each kind of task, and of open interest."""
        driver = self.roles.orchestrator
        assert driver is not None
        with anyio.fail_after(PATIENCE_S):
            while self.tools.ended < self.tools.begun:  # noqa: ASYNC110 -- user code
                await anyio.sleep(0.01)
            while self.bus._desk._jobs or driver._driving or driver._publisher._busy:  # noqa: ASYNC110 -- theirs
                await anyio.sleep(0.01)
        wire = self.bus.wire
        assert isinstance(wire, NatsWire)
        names = [task.get_name() for task in asyncio.all_tasks()]
        left = Counter(name for name in names if not _PLACE_OF_WORK.fullmatch(name))
        left["subscriptions"] = len(wire._client._subs)
        left["heard"] = len(wire._client.heard)
        return left


@pytest.fixture
async def inside(data_dir: Path) -> AsyncGenerator[Inside]:
    """The whole daemon in this process."""
    clock, tools = MachineClock(), Tools()
    app = tools.app()
    agents, models = await anyio.to_thread.run_sync(models_of, app, SETTINGS, "scripted")
    signer = await anyio.to_thread.run_sync(load_signer, data_dir)
    ledger = await SqliteLedger.open(data_dir / "ledger.db", clock.now)
    async with (
        EmbeddedServer(data_dir) as server,
        client.connect(server.url, server.users["daemon"], clock=clock) as bus,
        _as(server, "submitter") as submitter,
        _as(server, "operator") as operator,
        anyio.create_task_group() as tasks,
    ):
        await bus.prepare_streams(sorted(agents))
        roles = assemble(
            Parts(
                bus_of=lambda _role: bus,
                ledger=ledger,
                app=app,
                agents=agents,
                models=models,
                settings=SETTINGS,
                policy=Policy(version="none"),
                signer=signer,
                public_key=signer.public_key,
                clock=clock,
                ids=MachineIds(),
                chance=machine_chance,
                process="proc-1",
            )
        )
        supervisor = Supervisor(clock=clock, chance=machine_chance, grace_s=5, signals=())
        tasks.start_soon(supervisor.run, roles.specs)
        await roles.ready()
        yield Inside(tools, bus, roles, submitter, operator)
        supervisor.stop()
    await ledger.close()


def _as(server: EmbeddedServer, name: str) -> AbstractAsyncContextManager[Client]:
    user = server.users[name]
    return raw_client(server.url, user.user, user.password, user.inbox_prefix)


async def test_cancelled_runs_leave_no_task_and_no_subscription(inside: Inside) -> None:
    await inside.play_and_cancel("warm")
    before = await inside.left()
    for name in ("one", "two", "three"):
        await inside.play_and_cancel(name)
    after = await inside.left()
    assert not after - before, "more of these than before"
    assert before["subscriptions"] > 0


async def test_a_model_call_in_flight_is_cut_and_its_connection_closed(data_dir: Path) -> None:
    stalled = Say(blocks=[text("I think about it.")], stall=True)
    async with served(data_dir, stalled) as (daemon, fake), daemon.client("operator") as person:
        async with daemon.client("submitter") as submitter:
            await publish(submitter, "x1")
            with anyio.fail_after(PATIENCE_S):
                while not fake.requests:  # noqa: ASYNC110 -- the fake's own list
                    await anyio.sleep(0.01)
                await ask(person, "cancel", {"run_id": "x1", "reason": "enough"}, "operator")
                result = await result_of(submitter, "x1")
                while not fake.left:  # noqa: ASYNC110 -- the same
                    await anyio.sleep(0.01)
        assert (result["status"], result["reason"]) == ("CANCELLED", "by_person")
        assert (len(fake.requests), fake.left, fake.connections) == (1, 1, 1)
        view = await shown(daemon)
        assert (view["step_count"], view["reserved"], view["tool_history"]) == (1, None, [])
        events = (await ask(person, "events", {"run_id": "x1"}, "operator"))["events"]
        [lost] = [event for event in events if event["kind"] == "step_lost"]
        assert lost["tokens"] > 0, "what the provider may have charged is paid for"
        assert await daemon.stop() == 0
        assert "never retrieved" not in await daemon.log()
