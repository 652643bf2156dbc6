"""event -> state. One flat match to one small function per event; no decision is made here.

``fold`` over a journal is the whole of recovery: the same events always give the same state, on any
machine, so a run continues wherever its journal can be read.
"""

from collections.abc import Iterable
from typing import assert_never

from msgspec.structs import replace

from messages import events as e
from messages.errors import BrokenChain
from messages.events import AnyEvent
from messages.ledger import Entry
from messages.parts import Amount, Problem
from messages.state import LoopState, Question
from messages.status import Reason, Status
from runtime.loop import calls, progress, steps
from runtime.loop.transitions import change as change_status


def fold(entries: Iterable[Entry], state: LoopState | None = None) -> LoopState:
    """The state after ``entries``, continuing ``state`` where given.

    Raises:
        BrokenChain: there is no entry, or a version is missing.
    """
    for entry in entries:
        state = fold_entry(state, entry)
    if state is None:
        raise BrokenChain("an empty journal has no state")
    return state


def fold_entry(state: LoopState | None, entry: Entry) -> LoopState:
    """The state after one more entry.

    Raises:
        BrokenChain: the entry does not follow the state.
    """
    expected = -1 if state is None else state.version
    if entry.version != expected + 1:
        raise BrokenChain(f"run {entry.run_id}: version {entry.version} follows {expected}")
    for event in entry.events:
        state = evolve(state, event) if state else begin(entry, event)
    if state is None:
        raise BrokenChain(f"run {entry.run_id}: version 0 holds no event")
    return seal(state, entry.version, entry.hash, entry.at, entry.active_s)


def begin(entry: Entry, event: AnyEvent) -> LoopState:
    """The state of a run whose journal starts with ``event``.

    Raises:
        BrokenChain: a journal must start with RunCreated.
    """
    if not isinstance(event, e.RunCreated):
        raise BrokenChain(f"run {entry.run_id} does not start with its creation")
    return created(entry.run_id, event)


def created(run_id: str, event: e.RunCreated) -> LoopState:
    """The state of a run that was just created."""
    return LoopState(
        tenant=event.identity.tenant,
        run_id=run_id,
        trace_id=event.trace_id,
        agent=event.agent,
        agent_code=event.agent_code,
        identity=event.identity,
        goal=event.goal,
        inputs=event.inputs,
        labels=event.labels,
        limits=event.limits,
        parent=event.parent,
        continues=event.continues,
        created_at=event.created_at,
        updated_at=event.created_at,
        context_bytes=event.context_bytes,
    )


def seal(state: LoopState, version: int, head_hash: str, at: float, active_s: float) -> LoopState:
    """The state once its newest events are an entry."""
    suspended_s, suspended_at = state.suspended_s, state.suspended_at
    if state.status.is_suspended and suspended_at is None:
        suspended_at = at
    elif not state.status.is_suspended and suspended_at is not None:
        suspended_s, suspended_at = suspended_s + max(0.0, at - suspended_at), None
    return replace(
        state,
        version=version,
        head_hash=head_hash,
        updated_at=at,
        active_s=state.active_s + active_s,
        suspended_s=suspended_s,
        suspended_at=suspended_at,
    )


def evolve(state: LoopState, event: AnyEvent) -> LoopState:  # noqa: C901, PLR0912, PLR0915 - one flat match over a closed union
    """The state after one more event.

    Raises:
        IllegalTransition: the event would change the status against the table.
    """
    match event:  # what nearly every step brings comes first
        case e.Decided():
            return steps.decided(state, event)
        case e.Accepted():
            return steps.accepted(state, event)
        case e.Authorised():
            return calls.authorise(state, event)
        case e.Observed():
            return _observed(state, event)
        case e.Assessed():
            return steps.assessed(state)
        case e.StepReserved():
            return steps.reserved(state, event)
        case e.RunCreated():
            raise BrokenChain(f"run {state.run_id} is created twice")
        case e.StepLost():
            return steps.lost(state, event)
        case e.AttemptFailed():
            return steps.attempt_failed(state, event)
        case e.Consulted():
            return steps.consulted(state, event)
        case e.ProposalRejected():
            return steps.rejected(state, event)
        case e.ProgressFlagged():
            return steps.flagged(state, event)
        case e.Judged():
            return steps.in_turn(state, is_judged=True, is_met=False)
        case e.CompletionAccepted():
            return steps.in_turn(state, is_judged=True, is_met=True)
        case e.CompletionRejected():
            return steps.in_turn(steps.grown(state, event.problem), problem=event.problem)
        case e.Rechecked():
            return _rechecked(state, event)
        case e.Intended():
            return calls.intend(state, event)
        case e.Reconciled():
            return _reconciled(state, event)
        case e.ApprovalRequested():
            return calls.ask(replace(state, escalations=state.escalations + 1), event)
        case e.ApprovalResolved():
            return _resolved(state, event)
        case e.ApprovalExpired():
            return calls.end(state, event.ordinal, "expired", problem=_EXPIRED)
        case e.HumanAsked():
            return _human_asked(state, event)
        case e.HumanAnswered():
            return _human_answered(state, event)
        case e.Suspended():
            return _suspended(state, event)
        case e.Resumed():
            return _status(state, Status.RUNNING, event.why, None)
        case e.ChildStarted():
            return replace(state, children=(*state.children, *event.children))
        case e.ChildEnded():
            return _child_ended(state, event)
        case e.Finished():
            return _finished(state, event)
        case e.Verified():
            return calls.verify(state, event)
        case e.Planned() | e.HandedOver():
            return state
    assert_never(event)


_EXPIRED = Problem(
    code="APPROVAL_EXPIRED", message="Nobody decided in time. The action was not done."
)


def _rechecked(state: LoopState, event: e.Rechecked) -> LoopState:
    if event.unmet is None:
        return calls.change(state, event.ordinal, is_rechecked=True)
    problem = Problem(code="PRECONDITION_UNMET", message=event.unmet)
    return calls.end(state, event.ordinal, "unmet", problem=problem)


def _observed(state: LoopState, event: e.Observed) -> LoopState:
    call = calls.call_of(state, event.ordinal)
    is_reused = event.evidence is not None and event.evidence.reused != ""
    is_run = event.kind in {"ok", "error", "unknown"} and not is_reused
    seconds = event.evidence.duration_s if event.evidence else 0.0
    seconds = seconds or sum(attempt.duration_s for attempt in event.attempts)
    state = replace(
        state,
        tool_calls=state.tool_calls + (1 if is_run else 0),
        tool_errors=state.tool_errors + (1 if event.kind == "error" else 0),
        tool_s=state.tool_s + seconds,
    )
    if event.kind in {"ok", "error"}:
        payload = (
            event.evidence.payload if event.evidence else [event.problem and event.problem.code]
        )
        seen = progress.note(state.seen, call, progress.payload_hash(payload))
        state = replace(state, seen=seen)
    return calls.observe(state, event)


def _reconciled(state: LoopState, event: e.Reconciled) -> LoopState:
    if event.finding == "happened":  # a write that was done, however that became known
        call = calls.call_of(state, event.ordinal)
        payload = event.evidence.payload if event.evidence else None
        seen = progress.note(state.seen, call, progress.payload_hash(payload))
        state = replace(state, seen=seen)
    return calls.reconcile(state, event)


def _resolved(state: LoopState, event: e.ApprovalResolved) -> LoopState:
    if event.decision == "approved":
        state = calls.change(state, event.ordinal, phase="approved")
        return calls.outstanding(state, event.ordinal, "approved")
    problem = Problem(code=calls.PERSON_DENIED, message=f"{event.person} said no: {event.reason}")
    return calls.end(state, event.ordinal, "denied", problem=problem)


def _human_asked(state: LoopState, event: e.HumanAsked) -> LoopState:
    question = Question(
        id=event.question_id, text=event.text, schema=event.schema, group=event.group
    )
    return replace(state, question=question, escalations=state.escalations + 1)


def _human_answered(state: LoopState, event: e.HumanAnswered) -> LoopState:
    return replace(
        steps.grown(state, [event.person, event.answer]),
        question=None,
        answers=state.answers + 1,
        consecutive_errors=0,
        corrections=0,
    )


def _status(state: LoopState, new: Status, reason: str, until: float | None) -> LoopState:
    status = change_status(state.run_id, state.status, new, reason)
    return replace(
        state, status=status, reason="" if new is Status.RUNNING else reason, until=until
    )


def _suspended(state: LoopState, event: e.Suspended) -> LoopState:
    state = _status(state, event.status, event.reason, event.until)
    turn = state.turn
    if event.reason == Reason.RETRY_AFTER and event.until is not None:
        return replace(state, retry_at=event.until)
    if event.status is not Status.WAITING or turn is None or turn.proposal.kind != "wait":
        return state
    if turn.is_waited:  # a signal that changes nothing writes the same wait once more
        return state
    state = replace(state, waited_s=state.waited_s + turn.proposal.seconds)
    return steps.in_turn(state, is_waited=True, waits_until=event.until or 0.0)


def _child_ended(state: LoopState, event: e.ChildEnded) -> LoopState:
    used = Amount(tokens=event.used_tokens, cost_microusd=event.used_cost_microusd)
    children = tuple(child for child in state.children if child.run_id != event.run_id)
    if len(children) == len(state.children):
        return state  # its carve was returned already: once is enough
    folded_in = state.children_microusd + event.used_cost_microusd
    spent = steps.plus(state.spent, used)
    return replace(state, spent=spent, children_microusd=folded_in, children=children)


def _finished(state: LoopState, event: e.Finished) -> LoopState:
    state = _status(state, event.status, event.reason, None)
    return replace(
        state,
        reservation=None,
        output=event.output,
        summary=event.summary,
        question=None,
    )
