"""What the events of one step do to a run: its reservation, decision and assessment."""

from msgspec.structs import replace

from messages import events as e
from messages.parts import Amount, Problem
from messages.state import LoopState, Turn
from messages.status import Reason
from runtime.loop import budget, calls, progress
from runtime.loop.strategies.loop import read_turn


def in_turn(state: LoopState, **changes: object) -> LoopState:
    """The state with fields of its current turn changed; raises when there is no turn."""
    return replace(state, turn=replace(calls.turn_of(state), **changes))


def reserved(state: LoopState, event: e.StepReserved) -> LoopState:
    """A step is reserved: its most is held back and the last turn is done with."""
    reservation = event.reservation
    said = budget.LEFT_BYTES if state.turn is not None else 0
    return replace(
        state,
        reservation=reservation,
        context_bytes=state.context_bytes + said,
        retry_at=0.0,
        turn=None,
        has_had_final_turn=state.has_had_final_turn or reservation.is_final,
    )


def lost(state: LoopState, event: e.StepLost) -> LoopState:
    """A step whose answer never came is charged as recorded and counts as a step."""
    return replace(
        state,
        reservation=None,
        step_count=state.step_count + (1 if _is_step(state) else 0),
        spent=plus(state.spent, event.charged),
        model_calls=state.model_calls + len(event.attempts),
        failed_attempts=0,
    )


def _is_step(state: LoopState) -> bool:
    """The last turn and a summary are none."""
    reservation = state.reservation
    return reservation is None or not (reservation.is_final or reservation.is_summary)


def attempt_failed(state: LoopState, event: e.AttemptFailed) -> LoopState:
    """The model failed and will be asked again: that attempt is charged, the step goes on."""
    return replace(
        state,
        reservation=None,
        spent=plus(state.spent, event.charged),
        model_s=state.model_s + event.attempt.duration_s,
        model_calls=state.model_calls + 1,
        failed_attempts=state.failed_attempts + 1,
    )


def plus(a: Amount, b: Amount) -> Amount:
    """The sum of two amounts, tokens and micro-dollars each."""
    return Amount(tokens=a.tokens + b.tokens, cost_microusd=a.cost_microusd + b.cost_microusd)


def decided(state: LoopState, event: e.Decided) -> LoopState:
    """The model answered: charge it, read its proposal and open the turn."""
    reservation = state.reservation
    is_final = reservation is not None and reservation.is_final
    proposal, proposed = read_turn(event.content, event.stop_reason, is_final=is_final)
    is_empty = proposal.kind == "empty"
    told = budget.result_bytes("") if proposal.control_id is not None else 0
    return replace(
        state,
        reservation=None,
        step_count=state.step_count + (0 if is_final else 1),
        usage=state.usage.plus(event.usage),
        spent=plus(state.spent, event.charged),
        exhausted=state.exhausted or _over(state, event),
        context_bytes=(event.recipe.tokens or state.context_bytes)
        + budget.talk_bytes(event.content)
        + told,
        model_s=state.model_s + event.duration_s,
        models=_with_model(state, event.model),
        model_calls=state.model_calls + max(1, len(event.attempts)),
        failed_attempts=0,
        nudges=state.nudges + 1 if is_empty else 0,
        turn=Turn(step=event.step, content=event.content, proposal=proposal, calls=proposed),
    )


def _over(state: LoopState, event: e.Decided | e.Consulted) -> str:
    """More than was reserved is charged in full and ends the run (GUARANTEES.md G4)."""
    if state.reservation is None:
        return ""
    most = state.reservation.most
    if event.charged.tokens > most.tokens:
        return Reason.MAX_TOKENS
    has_limit = state.limits.max_cost_microusd is not None
    if has_limit and event.charged.cost_microusd > most.cost_microusd:
        return Reason.MAX_USD
    return ""


def consulted(state: LoopState, event: e.Consulted) -> LoopState:
    """A model call outside a step (a summary, a judge) is charged to the run."""
    is_reserved = state.reservation is not None and state.reservation.is_summary
    return replace(
        state,
        reservation=None if is_reserved else state.reservation,
        failed_attempts=0 if is_reserved else state.failed_attempts,
        exhausted=state.exhausted or (_over(state, event) if is_reserved else ""),
        context_bytes=event.tokens or state.context_bytes,
        usage=state.usage.plus(event.usage),
        spent=plus(state.spent, event.charged),
        model_s=state.model_s + event.duration_s,
        models=_with_model(state, event.model),
        model_calls=state.model_calls + 1,
    )


def _with_model(state: LoopState, model: str) -> tuple[str, ...]:
    is_known = not model or model in state.models
    return state.models if is_known else (*state.models, model)


def rejected(state: LoopState, event: e.ProposalRejected) -> LoopState:
    """One call, or with no ordinal the whole proposal, was turned down."""
    if event.ordinal is None:
        return _rejected_whole(state, event.problem)
    call = calls.call_of(state, event.ordinal)
    state = replace(state, seen=progress.turn_down(state.seen, call, event.problem))
    return calls.end(state, event.ordinal, "rejected", problem=event.problem)


def _rejected_whole(state: LoopState, problem: Problem) -> LoopState:
    """Nothing of the turn is done; each of its calls still gets its one result."""
    state = grown(replace(state, corrections=state.corrections + 1), problem)
    for call in calls.turn_of(state).calls:
        if call.phase != "observed":
            state = calls.end(state, call.ordinal, "rejected", problem=problem)
    return in_turn(state, problem=problem, is_assessed=True)


def accepted(state: LoopState, event: e.Accepted) -> LoopState:
    """The proposal passed its checks: its calls are to do, or its output stands."""
    if not event.actions:
        proposal = replace(calls.turn_of(state).proposal, output=event.output)
        return in_turn(state, proposal=proposal, is_checked=True)
    for action in event.actions:
        state = calls.accept(state, action)
    return state


def flagged(state: LoopState, event: e.ProgressFlagged) -> LoopState:
    """Progress was doubted: warn the model once per kind, or stop the run."""
    state = replace(state, flags=state.flags + 1)
    if event.level == "stop":
        return in_turn(state, stopped_by=event.kind)
    flagged = state.seen.flagged
    if event.kind not in flagged:
        flagged = (*flagged, event.kind)
    state = replace(state, seen=replace(state.seen, flagged=flagged))
    if event.ordinal is None:
        return in_turn(state, warning=event.message)
    result = calls.call_of(state, event.ordinal).result
    warned = result and replace(result, warning=event.message)
    return calls.change(state, event.ordinal, result=warned)


def assessed(state: LoopState) -> LoopState:
    """The step is closed: count its errors and corrections in a row."""
    turn = calls.turn_of(state)
    errors = [c for c in turn.calls if c.result and c.result.kind == "error"]
    rejected = [c for c in turn.calls if c.result and c.result.kind == "rejected"]
    is_ok = any(c.result and c.result.kind == "ok" for c in turn.calls)
    is_all_rejected = bool(turn.calls) and len(rejected) == len(turn.calls)
    state = replace(state, seen=progress.close_step(state))
    if not turn.calls:
        return in_turn(state, is_assessed=True)
    state = replace(
        state,
        consecutive_errors=0 if is_ok else state.consecutive_errors + (1 if errors else 0),
        corrections=state.corrections + 1 if is_all_rejected else 0,
    )
    return in_turn(state, is_assessed=True)


def grown(state: LoopState, shown: object) -> LoopState:
    """The conversation grows by what the model will be told."""
    return replace(state, context_bytes=state.context_bytes + budget.result_bytes(shown))
