"""Making runs: the same few lines for a task from the stream, a submit and a continuation."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from messages import subjects
from messages.agent import AgentSpec
from messages.errors import BadTask, BusError, NotFound
from messages.ledger import Create, Existing, Refused
from messages.parts import JsonValue, Limits
from messages.state import LoopState
from messages.subjects import TaskAddress
from messages.task import Accepted, Task
from runtime.bus.port import Bus
from runtime.clock import Clock, Ids
from runtime.faults import fault
from runtime.intake import Admitted, Trace, admit
from runtime.log import Level, Line, log
from runtime.loop.start import first_entry
from runtime.settings import Settings
from runtime.views.run import ended_at_once

CREATE_S = 5.0


class App(NamedTuple):
    """What the gateway knows of the app and its surroundings."""

    agents: Mapping[str, AgentSpec]
    settings: Settings
    clock: Clock
    ids: Ids
    calls: AgentSpec | None = None
    """The agent behind ``tools call``; it is nobody's to submit to."""

    def agent(self, name: str) -> AgentSpec:
        """The agent of that name.

        Raises:
            NotFound: There is none.
        """
        spec = self.agents.get(name)
        if spec is None:
            raise NotFound("agent", name, hint=f"this app has: {', '.join(sorted(self.agents))}")
        return spec


class Sender(NamedTuple):
    """For whom a run is made."""

    tenant: str
    principal: str


class Birth(NamedTuple):
    """What a run is born with beside its task."""

    run_id: str
    trace: Trace | None = None
    continues: str | None = None


class Runs:
    """Creates runs through the checkpointer and says so to whoever might drive them."""

    def __init__(self, bus: Bus, app: App) -> None:
        self._bus = bus
        self._app = app

    async def create(
        self, sender: Sender, task: Task, admitted: Admitted, birth: Birth
    ) -> Accepted:
        """Make the run durable; the same id again is the same run.

        Raises:
            BadTask: The ledger does not take it.
            BusError, StorageError, RemoteFailure: The ledger did not answer; ask again.
        """
        spec, scopes, limits = admitted
        trace = birth.trace
        events, summary = first_entry(
            spec,
            tenant=sender.tenant,
            run_id=birth.run_id,
            principal=sender.principal,
            scopes=scopes,
            goal=task.goal,
            inputs=task.inputs,
            labels=task.labels,
            limits=limits,
            trace_id=trace.trace_id if trace else self._app.ids.new_id("trace"),
            traceparent=trace.traceparent if trace else None,
            now=self._app.clock.now(),
            reply_to=task.reply_to,
            continues=birth.continues,
        )
        fault("gateway.before_create")
        answer = await self._bus.ask(
            Create(
                tenant=sender.tenant,
                run_id=birth.run_id,
                append_id=self._app.ids.new_id("apd"),
                events=events,
                summary=summary,
            ),
            deadline_s=CREATE_S,
        )
        fault("gateway.after_create")
        if isinstance(answer, Refused):
            raise BadTask(answer.message or answer.why)
        is_existing = isinstance(answer, Existing)
        if not is_existing:
            named = {"run_id": birth.run_id, "tenant": sender.tenant}
            log(Line.RUN_CREATED, **named, agent=spec.name)
            if summary.status.is_terminal:  # its first step does not fit the budget
                log(Line.RUN_FINISHED, **named, **ended_at_once(summary))
        await self.wake(sender.tenant, birth.run_id)
        return Accepted(run_id=birth.run_id, existing=is_existing)

    async def go_on(self, state: LoopState, told: dict[str, JsonValue], run_id: str) -> Accepted:
        """Make a run of the same principal that goes on from an ended one: terminal is final.

        Args:
            state: Of the ended run.
            told: What is known by now; an input beside the first run's.
            run_id: The same id again is the same run.

        Raises:
            BadTask, NotAllowed, NotFound: The agent or the principal is gone, or the agent would
                not take this task any more.
        """
        owner = state.identity.principal
        before = {"run_id": state.run_id, **told, "done": state.summary}
        if state.continues is not None and "continued" in state.inputs:
            before["before"] = state.inputs["continued"]
        task = Task(
            goal=state.goal, inputs={**state.inputs, "continued": before}, labels=state.labels
        )
        address = TaskAddress(state.tenant, owner, state.agent)
        admitted = admit(task, address, self._app.agents, self._app.settings)
        limits = _lower_of(state.limits, admitted.limits)
        return await self.create(
            Sender(state.tenant, owner),
            task,
            Admitted(admitted.spec, admitted.scopes, limits),
            Birth(run_id, continues=state.run_id),
        )

    async def wake(self, tenant: str, run_id: str) -> None:
        """Hint that a run wants a drive; whoever asks Due finds it anyway."""
        await self._hint(subjects.wake(tenant, run_id))

    async def nudge(self, tenant: str, run_id: str, kind: str = "") -> None:
        """Hint that a signal is stored: to a live owner, and to whoever may take the run.

        Args:
            tenant: whose.
            run_id: of which run.
            kind: of the signal; only a cancel is worth cutting a paid model call short.
        """
        await self._hint(subjects.signal(tenant, run_id), kind.encode())
        await self._hint(subjects.wake(tenant, run_id))

    async def _hint(self, subject: str, data: bytes = b"") -> None:
        try:
            await self._bus.publish(subject, data)
        except BusError as error:
            log(Line.BUS_ERROR, Level.DEBUG, subject=subject, code=error.code)


def _lower_of(first: Limits, second: Limits) -> Limits:
    costs = [c for c in (first.max_cost_microusd, second.max_cost_microusd) if c is not None]
    return replace(
        first,
        max_steps=min(first.max_steps, second.max_steps),
        max_tokens=min(first.max_tokens, second.max_tokens),
        max_cost_microusd=min(costs, default=None),
        max_seconds=min(first.max_seconds, second.max_seconds),
    )
