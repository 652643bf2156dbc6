"""The stage a tested agent plays on: one run, over as many lives of the process as it takes."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from anyio.streams.memory import MemoryObjectReceiveStream
from msgspec.structs import replace

from messages import subjects
from messages.agent import AgentSpec
from messages.errors import DeclarationError
from messages.ledger import ApprovalRows, Create, DecideApproval, ListApprovals, Load, Loaded
from messages.parts import JsonValue
from messages.state import LoopState
from messages.status import Status
from runtime.agent import Agent, App
from runtime.bus import memory
from runtime.bus.port import Bus, Delivery
from runtime.clock import Clock, Ids, MachineClock, MachineIds, machine_chance
from runtime.ledger.memory import MemoryLedger
from runtime.loop.evolve import fold
from runtime.loop.start import first_entry
from runtime.model import scripted
from runtime.model.scripted import Playable
from runtime.policy.grants import Signer
from runtime.settings import Policy, Runtime, Settings
from runtime.supervisor import Supervisor
from runtime.tools.workers import Workers
from treadle.assembly import Parts, assemble
from treadle.models import models_of
from treadle.testing.crash import Crash, Dying, MortalCaller

if TYPE_CHECKING:
    from runtime.model.port import Model

_APPROVER = "approver"
_SUBMITTER = "submitter"
_RUN = "run-1"
_TENANT = "default"
_SETTLE_S = 0.05
"""W of every tool: how long after its claim "absent" does not count yet."""
_RESTS = frozenset({Status.AWAITING_HUMAN, Status.PAUSED})
"""Waits that only a person could end."""


@dataclass(frozen=True)
class Run:
    """How a run ended.

    Attributes:
        state: All of it, folded from the journal.
    """

    state: LoopState

    @property
    def status(self) -> Status:
        """Where it ended, or waits."""
        return self.state.status

    @property
    def reason(self) -> str:
        """Why."""
        return self.state.reason

    @property
    def output(self) -> JsonValue:
        """What it handed in."""
        return self.state.output


class Stage:
    """One run, over as many lives of the process as it takes."""

    def __init__(
        self,
        agent: Agent[Any],
        model: Playable,
        deps: object,
        *,
        approve: bool | None,
        crash: Crash | None,
        policy: Policy,
    ) -> None:
        self._app = App(agent, deps=_opening(deps))
        self._agent = agent
        self._script = model
        self._approve = approve
        self._crash: Crash | None = crash
        self._policy = policy
        self._clock: Clock = MachineClock()
        self._ids: Ids = MachineIds()
        self._ledger = MemoryLedger(self._clock.now)
        self._signer = Signer(bytes(32))
        self._agents: Mapping[str, AgentSpec] = {}
        self._models: Mapping[str, Model] = {}
        self._settings = Settings(runtime=Runtime(lease_s=0.4, due_s=0.1, grace_s=1.0))

    async def play(self, goal: str, inputs: dict[str, JsonValue]) -> Run:
        """Create the run and live, and after the crash live again."""
        await self._create(goal, inputs)
        if self._crash is not None:
            _ = await self._live(self._crash)
        return await self._live(None)

    async def _create(self, goal: str, inputs: dict[str, JsonValue]) -> None:
        agents, self._models = await anyio.to_thread.run_sync(
            partial(models_of, self._app, self._settings, scripted.NAME, script=self._script)
        )
        self._agents = {name: _impatient(spec) for name, spec in agents.items()}
        spec = self._agents[self._agent.name]
        events, summary = first_entry(
            spec,
            tenant=_TENANT,
            run_id=_RUN,
            principal=_SUBMITTER,
            scopes=self._app.tools.scopes,
            goal=goal,
            inputs=inputs,
            labels={},
            limits=spec.limits,
            trace_id="trace-1",
            now=self._clock.now(),
        )
        create = Create(
            tenant=_TENANT, run_id=_RUN, append_id="create", events=events, summary=summary
        )
        _ = await self._ledger.apply([create])

    async def _live(self, crash: Crash | None) -> Run:
        """One life of the process: until the run rests, or the crash."""
        dying = Dying(crash)
        hub = memory.Hub(clock=self._clock)
        async with memory.connect(hub) as bus, anyio.create_task_group() as life:
            await bus.prepare_streams([self._agent.name])
            roles = assemble(self._parts(bus, dying))
            supervisor = Supervisor(
                clock=self._clock, chance=machine_chance, grace_s=1.0, signals=()
            )
            async with bus.subscribe(f"{subjects.ROOT}.events.{_TENANT}.{_RUN}.*") as events:
                life.start_soon(supervisor.run, roles.specs)
                life.start_soon(dying.end, life.cancel_scope)
                await self._until_rest(events)
                life.cancel_scope.cancel()
        return Run(await self._state())

    def _parts(self, bus: Bus, dying: "Dying") -> Parts:
        caller = MortalCaller(
            dying, clock=self._clock, ids=self._ids, chance=machine_chance, workers=Workers()
        )
        return Parts(
            bus_of=lambda _role: bus,
            ledger=self._ledger,
            app=self._app,
            agents=self._agents,
            models=self._models,
            settings=self._settings,
            policy=self._policy,
            signer=self._signer,
            public_key=self._signer.public_key,
            clock=self._clock,
            ids=self._ids,
            chance=machine_chance,
            process=self._ids.new_id("proc"),
            caller=caller,
        )

    async def _until_rest(self, events: MemoryObjectReceiveStream[Delivery]) -> None:
        """Decide what is asked, until nothing more will happen."""
        while True:
            state = await self._state()
            if state.status.is_terminal or state.status in _RESTS:
                return
            if state.status is Status.AWAITING_APPROVAL and not await self._decide():
                return
            _ = await events.receive()

    async def _decide(self) -> bool:
        """Grant or deny what is pending. False: it is to be left open."""
        if self._approve is None:
            return False
        [pending] = await self._ledger.apply([ListApprovals(tenant=_TENANT)])
        rows = pending.rows if isinstance(pending, ApprovalRows) else ()
        for row in rows:
            decide = DecideApproval(
                tenant=_TENANT,
                approval_id=row.id,
                decision="approved" if self._approve else "denied",
                person=_APPROVER,
                channel="testing",
                reason="" if self._approve else "denied by the test",
            )
            _ = await self._ledger.apply([decide])
        return True

    async def _state(self) -> LoopState:
        [loaded] = await self._ledger.apply([Load(tenant=_TENANT, run_id=_RUN)])
        if not isinstance(loaded, Loaded) or loaded.is_partial:
            raise AssertionError("the run's journal cannot be read")
        return fold(loaded.entries)


def _impatient(spec: AgentSpec) -> AgentSpec:
    """A process that died here is really gone, so nothing it sent can still arrive late."""
    tools = [replace(t, late_commit_s=_SETTLE_S - t.timeout_s) for t in spec.tools]
    return replace(spec, tools=tuple(tools))


def _opening(deps: object) -> Callable[[], AbstractAsyncContextManager[Any]]:
    """What App wants of deps, from an object or from something that opens one."""
    if isinstance(deps, AbstractAsyncContextManager):
        raise DeclarationError(
            "deps is an open context manager, which could be entered only once: pass the function"
            " that makes it, or the object itself"
        )
    if callable(deps):
        return deps  # pyright: ignore[reportReturnType] -- App refuses what is not

    @asynccontextmanager
    async def given() -> AsyncGenerator[object]:
        yield deps

    return given
