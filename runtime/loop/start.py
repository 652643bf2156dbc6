"""The first entry of a run: its creation and the reservation of step 1, or its immediate end."""

from msgspec.structs import replace

from messages.agent import AgentSpec
from messages.base import Timestamp
from messages.events import AnyEvent, Finished, RunCreated, StepReserved
from messages.ledger import Summary
from messages.parts import Identity, JsonValue, Limits
from messages.status import Reason, Status
from runtime.loop import budget
from runtime.loop.evolve import created, evolve
from runtime.loop.summary import summarise


def first_entry(  # noqa: PLR0913 - all that a run is born with
    spec: AgentSpec,
    *,
    tenant: str,
    run_id: str,
    principal: str,
    scopes: tuple[str, ...],
    goal: str,
    inputs: dict[str, JsonValue],
    labels: dict[str, str],
    limits: Limits,
    trace_id: str,
    now: Timestamp,
    traceparent: str | None = None,
    reply_to: str | None = None,
    parent: str | None = None,
    continues: str | None = None,
) -> tuple[tuple[AnyEvent, ...], Summary]:
    """Version 0 of a run.

    Args:
        spec: the agent.
        tenant: whose run.
        run_id: its id.
        principal: who asked for it.
        scopes: what it may touch.
        goal: of the task.
        inputs: of the task.
        labels: of the task.
        limits: of the task, already merged with the agent's.
        trace_id: of the trace the run belongs to.
        traceparent: as it came, if it came.
        now: the creator's clock; the entry carries the ledger's.
        reply_to: where the submitter wants to be told of the end.
        parent: the run that started it as a sub-agent.
        continues: the run it goes on from.

    Returns:
        The events and the row. Where step 1 and the final turn do not fit the budget there is no
        reservation and the run ends at once.
    """
    event = RunCreated(
        goal=goal,
        inputs=inputs,
        agent=spec.name,
        agent_code=spec.code,
        identity=Identity(tenant=tenant, principal=principal, scopes=scopes),
        limits=limits,
        labels=labels,
        trace_id=trace_id,
        traceparent=traceparent,
        parent=parent,
        continues=continues,
        reply_to=reply_to,
        context_bytes=budget.result_bytes([goal, inputs]),
        created_at=now,
    )
    state = created(run_id, event)
    fit = budget.next_reservation(state, spec)
    second: AnyEvent
    if isinstance(fit, budget.Exhausted):
        is_budget = Reason(fit.reason).is_budget
        status = Status.BUDGET_EXHAUSTED if is_budget else Status.FAILED
        second = Finished(
            status=status, reason=fit.reason, why="the first step does not fit the budget"
        )
    else:
        second = StepReserved(reservation=fit)
    state = replace(evolve(state, second), version=0)
    return (event, second), summarise(state)
