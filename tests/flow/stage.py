"""The real roles in memory, with a hand on what ``treadle.testing`` keeps to itself.

A test may kill the process at any write of the journal and start another, let the ledger's clock
jump, send signals, decide approvals one by one, and run several runs on one ledger. Nothing here
sleeps: a test waits for a state of the ledger, and is told at every operation.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec.structs import replace

from actors.executor import Executor
from messages import subjects
from messages.agent import AgentSpec
from messages.errors import StorageError
from messages.events import AnyEvent
from messages.ledger import (
    AnyLedgerAnswer,
    AnyLedgerRequest,
    Append,
    ApprovalRow,
    ApprovalRows,
    Conflicted,
    Create,
    DecideApproval,
    EffectRow,
    EffectRows,
    Entry,
    ListApprovals,
    ListEffects,
    Load,
    Loaded,
    Renew,
    RunEnded,
    SendSignal,
    Signal,
    SignalKind,
)
from messages.parts import Limits
from messages.state import LoopState
from messages.status import Status
from runtime.agent import Agent, App
from runtime.bus import memory
from runtime.bus.bus import WireBus
from runtime.bus.wire import Pace
from runtime.clock import MachineClock, MachineIds
from runtime.ledger.memory import MemoryLedger
from runtime.ledger.port import GroupAnswer
from runtime.ledger.tables import RunHead
from runtime.loop.evolve import fold
from runtime.loop.start import first_entry
from runtime.model import scripted
from runtime.model.port import ModelAnswer, ModelRequest
from runtime.model.scripted import Playable, ScriptedModel
from runtime.policy.grants import Signer, Verifier
from runtime.settings import Model as ModelSettings
from runtime.settings import Policy, Runtime, Settings
from runtime.supervisor import Supervisor
from treadle.assembly import Parts, assemble
from treadle.models import models_of

PATIENCE_S = 10.0
RUN = "run-1"
TENANT = "default"
_RESTS = frozenset({Status.AWAITING_HUMAN, Status.PAUSED})

Verdict = Callable[[ApprovalRow], str | None]
"""What a person says to an approval; None: nothing."""


def yes(_row: ApprovalRow) -> str:
    """Everything is approved."""
    return "approved"


def no(_row: ApprovalRow) -> str:
    """Everything is denied."""
    return "denied"


def nothing(_row: ApprovalRow) -> None:
    """Nobody decides."""


class Watched:
    """The ledger, with a word after each operation and a place to die.

    Attributes:
        appends: Entries written so far, over all lives; refused: those of another history.
        die: Called with each Append before it is applied: ``before`` or ``after`` is where the
            process dies.
        answers: Called with each operation: an answer instead of the ledger's, or None.
    """

    def __init__(self, inner: MemoryLedger) -> None:
        self.inner = inner
        self.appends: list[Append] = []
        self.refused: list[Append] = []
        self.die: Callable[[Append], str] = lambda _append: ""
        self.answers: Callable[[AnyLedgerRequest], AnyLedgerAnswer | None] = lambda _op: None
        self.dead = anyio.Event()
        self.buried = anyio.Event()
        self.changed = anyio.Event()

    async def apply(self, operations: Sequence[AnyLedgerRequest]) -> list[GroupAnswer]:
        """See ``Ledger``."""
        result: list[GroupAnswer] = []
        for op in operations:
            where = self.die(op) if isinstance(op, Append) else ""
            if where == "before":
                await self._die()
            answer: GroupAnswer | None = self.answers(op)
            if answer is None:
                [answer] = await self.inner.apply([op])
            if isinstance(op, Append):
                kept = self.refused if isinstance(answer, Conflicted | RunEnded) else self.appends
                kept.append(op)
            self._tell()
            if where == "after":
                await self._die()
            result.append(answer)
        return result

    def _tell(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    async def _die(self) -> None:
        """Nothing comes back; a commit is shielded, so it is let go once its process is gone."""
        self.dead.set()
        await self.buried.wait()
        raise StorageError("the process is dead")

    async def close(self) -> None:
        """See ``Ledger``."""


class Listening(ScriptedModel):
    """A script that remembers what it was asked, and may wait or answer otherwise."""

    def __init__(self, script: Playable) -> None:
        super().__init__(script)
        self.requests: list[ModelRequest] = []
        self.gate: Callable[[ModelRequest], Any] | None = None

    async def attempt(self, request: ModelRequest) -> ModelAnswer:
        """See ``Model``."""
        self.requests.append(request)
        if self.gate is not None:
            await self.gate(request)
        return await super().attempt(request)


class Stage:
    """One ledger, over as many lives of the process as a test wants.

    Attributes:
        ledger: What the process sees; ``ledger.inner`` is never in its way.
        model: What the model was asked.
        late_s: How far the ledger's clock is ahead.
        verifier: Of the executor, instead of one that knows the authoriser's key.
    """

    def __init__(
        self,
        *agents: Agent[Any],
        script: Playable,
        deps: object = None,
        policy: Policy | None = None,
        settings: Settings | None = None,
        pace: Pace | None = None,
        max_payload: int = 1_000_000,
    ) -> None:
        @asynccontextmanager
        async def opened() -> AsyncGenerator[object]:
            yield deps

        self.app = App(*agents, deps=opened)
        self.agent = agents[0]
        self.model = Listening(script)
        self.late_s = 0.0
        self.verifier: Verifier | None = None
        self._clock = MachineClock()
        self.ids = MachineIds()
        self.ledger = Watched(MemoryLedger(lambda: self._clock.now() + self.late_s))
        self._policy = policy or Policy(version="test")
        self.settings = settings or Settings(runtime=Runtime(lease_s=0.4, due_s=0.03, grace_s=0.3))
        self._pace = pace
        self._max_payload = max_payload
        self._specs: Mapping[str, AgentSpec] = {}
        self.process = ""
        self.deaths = 0

    # ------------------------------------------------------------------ the ledger, from outside
    async def ask(self, op: Any) -> Any:
        """One operation that nothing interferes with."""
        [answer] = await self.ledger.inner.apply([op])
        self.ledger._tell()
        return answer

    async def entries(self, run_id: str = RUN) -> tuple[Entry, ...]:
        """The journal."""
        found: list[Entry] = []
        is_partial = True
        while is_partial:
            after = found[-1].version if found else -1
            loaded = await self.ask_quietly(Load(tenant=TENANT, run_id=run_id, after=after))
            assert isinstance(loaded, Loaded)
            found.extend(loaded.entries)
            is_partial = loaded.is_partial
        return tuple(found)

    async def ask_quietly(self, op: Any) -> Any:
        """A read, which changes nothing that others wait for."""
        [answer] = await self.ledger.inner.apply([op])
        return answer

    async def events(self, run_id: str = RUN) -> list[AnyEvent]:
        """All events of a run, in order."""
        return [event for entry in await self.entries(run_id) for event in entry.events]

    async def state(self, run_id: str = RUN) -> LoopState:
        """The run, folded."""
        return fold(await self.entries(run_id))

    async def effects(self) -> dict[str, EffectRow]:
        """The keys of the tenant."""
        rows = await self.ask_quietly(ListEffects(tenant=TENANT))
        assert isinstance(rows, EffectRows)
        return {row.key: row for row in rows.rows}

    async def approvals(self, *, is_pending_only: bool = True) -> tuple[ApprovalRow, ...]:
        """What people are asked."""
        rows = await self.ask_quietly(ListApprovals(tenant=TENANT, is_pending_only=is_pending_only))
        assert isinstance(rows, ApprovalRows)
        return rows.rows

    async def decide(self, verdict: Verdict) -> int:
        """A person looks at everything that is pending; how much was decided."""
        decided = 0
        for row in await self.approvals():
            word = verdict(row)
            if word is not None:
                await self.ask(
                    DecideApproval(
                        tenant=TENANT,
                        approval_id=row.id,
                        decision=word,  # pyright: ignore[reportArgumentType]
                        person="approver",
                        channel="test",
                        reason="said in a test",
                    )
                )
                decided += 1
        return decided

    async def signal(self, kind: SignalKind, run_id: str = RUN) -> Any:
        """Cancel, pause or resume."""
        signal = Signal(kind=kind, person="eve", reason="said in a test")
        return await self.ask(SendSignal(tenant=TENANT, run_id=run_id, signal=signal))

    async def specs(self) -> Mapping[str, AgentSpec]:
        """The agents as data; in a thread, since it reads the source of their hooks."""
        if not self._specs:
            work = partial(models_of, self.app, self.settings, scripted.NAME, script=self.model)
            self._specs, _ = await anyio.to_thread.run_sync(work)
        return self._specs

    def row(self, run_id: str = RUN) -> RunHead:
        """The run's row."""
        return self.ledger.inner.tables.runs[(TENANT, run_id)]

    async def owned(self, run_id: str = RUN, *, is_owned: bool) -> None:
        """Wait until somebody owns the run, or nobody."""
        with anyio.fail_after(PATIENCE_S):
            while (self.row(run_id).owner is not None) != is_owned:
                await self.ledger.changed.wait()

    async def create(
        self, run_id: str = RUN, *, goal: str = "go", limits: Limits | None = None, **inputs: Any
    ) -> None:
        """A new run of the first agent."""
        spec = (await self.specs())[self.agent.name]
        events, summary = first_entry(
            spec,
            tenant=TENANT,
            run_id=run_id,
            principal="submitter",
            scopes=self.app.tools.scopes,
            goal=goal,
            inputs=inputs,
            labels={},
            limits=limits or spec.limits,
            trace_id="trace-1",
            now=self._clock.now(),
        )
        create = Create(
            tenant=TENANT, run_id=run_id, append_id="create", events=events, summary=summary
        )
        await self.ask(create)

    # ------------------------------------------------------------------ lives
    @asynccontextmanager
    async def life(self) -> AsyncGenerator["Life"]:
        """One process, until the block is left or it dies; a dead one has lost its lease."""
        hub = memory.Hub(clock=self._clock, max_payload=self._max_payload)
        self.process = self.ids.new_id("proc")
        self.ledger.dead, self.ledger.buried = anyio.Event(), anyio.Event()
        async with memory.connect(hub, pace=self._pace) as bus, anyio.create_task_group() as tasks:
            await bus.prepare_streams(list(self.app.agents))
            agents = await self.specs()
            names = {use.model for agent in agents.values() for use in agent.uses}
            roles = assemble(
                Parts(
                    bus_of=lambda _role: bus,
                    ledger=self.ledger,
                    app=self.app,
                    agents=agents,
                    models=dict.fromkeys(names, self.model),
                    settings=self.settings,
                    policy=self._policy,
                    signer=Signer(bytes(32)),
                    public_key=Signer(bytes(32)).public_key,
                    clock=self._clock,
                    ids=self.ids,
                    chance=lambda: 0.0,
                    process=self.process,
                )
            )
            for role in roles.answering:
                if isinstance(role, Executor) and self.verifier is not None:
                    role._verifier = self.verifier
            supervisor = Supervisor(clock=self._clock, chance=lambda: 0.0, grace_s=1.0, signals=())
            tasks.start_soon(supervisor.run, roles.specs)
            yield Life(self, bus, supervisor, tasks)
            tasks.cancel_scope.cancel()
            self.ledger.buried.set()
        await self.ask(Renew(process=self.process, lease_s=0))

    async def play(
        self, verdict: Verdict = yes, *, until: Callable[[LoopState], bool] | None = None
    ) -> LoopState:
        """Live until the run rests, starting anew after each death."""
        while True:
            async with self.life() as life:
                state = await life.rest(verdict, until=until)
            if state is not None:
                return state
            self.deaths += 1


class Life:
    """One process."""

    def __init__(
        self, stage: Stage, bus: WireBus, supervisor: Supervisor, tasks: TaskGroup
    ) -> None:
        self._stage = stage
        self.bus = bus
        self.supervisor = supervisor
        self.tasks = tasks

    async def nudge(self, run_id: str = RUN) -> None:
        """Hints, as the gateway sends them after a signal."""
        await self.bus.publish(subjects.signal(TENANT, run_id), b"cancel")
        await self.bus.publish(subjects.wake(TENANT, run_id), b"")

    async def nudge_wake(self, run_id: str = RUN) -> None:
        """A hint that a run wants a drive."""
        await self.bus.publish(subjects.wake(TENANT, run_id), b"")

    async def rest(
        self,
        verdict: Verdict = yes,
        *,
        until: Callable[[LoopState], bool] | None = None,
        run_id: str = RUN,
    ) -> LoopState | None:
        """The run once it has ended or waits for a person, or ``until``; None: it died first."""
        stage = self._stage
        with anyio.fail_after(PATIENCE_S):
            while not stage.ledger.dead.is_set():
                changed = stage.ledger.changed
                state = await stage.state(run_id)
                is_at_rest = state.status.is_terminal or state.status in _RESTS
                if until(state) if until else is_at_rest:
                    return state
                if state.status is Status.AWAITING_APPROVAL:
                    if verdict is nothing and until is None:
                        return state
                    _ = await stage.decide(verdict)
                await self._change(changed)
        return None

    async def _change(self, changed: anyio.Event) -> None:
        async with anyio.create_task_group() as either:

            async def first(event: anyio.Event) -> None:
                await event.wait()
                either.cancel_scope.cancel()

            either.start_soon(first, changed)
            either.start_soon(first, self._stage.ledger.dead)


def priced(settings: Settings | None = None) -> Settings:
    """Settings under which a script costs money."""
    price = ModelSettings(
        input_usd_per_mtok="3", output_usd_per_mtok="15", cache_write_usd_per_mtok="3.75"
    )
    return replace(settings or Settings(), models={scripted.NAME: price})
