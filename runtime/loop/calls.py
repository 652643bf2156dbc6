"""The life of a call inside its turn, and of its side effect among the outstanding ones.

proposed -> accepted -> allowed -> (intended -> unknown)* -> observed, with a detour over
asking -> waiting -> approved -> accepted for what a person has to decide. Every call ends observed,
with exactly one result, whatever happened to it.
"""

from typing import Literal

from msgspec.structs import replace

from messages.canon import arguments_hash
from messages.events import (
    ApprovalRequested,
    Authorised,
    Intended,
    Observed,
    Reconciled,
    Verified,
)
from messages.parts import Action, Evidence, Problem, ResultKind
from messages.state import (
    CallResult,
    CallState,
    LoopState,
    Outstanding,
    OutstandingStatus,
    ToolRecord,
    Turn,
    Verification,
)
from runtime.loop import budget, progress

OPEN_PHASES = frozenset({"intended", "unknown"})
"""A write that may have started: nothing else happens before it is reconciled."""

PERSON_DENIED = "PERSON_DENIED"
_TURNED_DOWN = frozenset({"refused", "denied", "expired"})
"""Ends of a well-formed call that is of no use to propose again and again."""


def turn_of(state: LoopState) -> Turn:
    """The open turn; an event about a call without one is a broken journal."""
    if state.turn is None:
        raise AssertionError(f"run {state.run_id} has no open turn at version {state.version}")
    return state.turn


def call_of(state: LoopState, ordinal: int) -> CallState:
    """One call of the open turn; an event about another one is a broken journal."""
    calls = turn_of(state).calls
    if not 0 <= ordinal < len(calls):
        raise AssertionError(f"run {state.run_id} has no call {ordinal} at version {state.version}")
    return calls[ordinal]


def change(state: LoopState, ordinal: int, **fields: object) -> LoopState:
    """``state`` with fields of one call of the open turn changed."""
    return replace(state, turn=_with(state, ordinal, fields))


def _with(state: LoopState, ordinal: int, fields: dict[str, object]) -> Turn:
    changed = replace(call_of(state, ordinal), **fields)
    turn = turn_of(state)
    return replace(turn, calls=(*turn.calls[:ordinal], changed, *turn.calls[ordinal + 1 :]))


def accept(state: LoopState, action: Action) -> LoopState:
    """A call is well-formed; an approval it already has stays with it."""
    return change(state, action.ordinal, phase="accepted", action=action, is_rechecked=False)


def authorise(state: LoopState, event: Authorised) -> LoopState:
    """Verdicts arrive: under a grant, to be asked, or denied by policy."""
    for verdict in event.verdicts:
        if verdict.decision == "deny":
            problem = verdict.problem or Problem(code="POLICY_DENIED", message=verdict.why)
            state = end(state, verdict.ordinal, "denied", problem=problem)
            continue
        grant, call = event.grant, call_of(state, verdict.ordinal)
        state = change(
            state,
            verdict.ordinal,
            phase="allowed" if verdict.decision == "allow" else "asking",
            rule=verdict.rule,
            why=verdict.why,
            group=verdict.group or "",
            size=verdict.size,
            package=verdict.package,
            approval_expires_at=verdict.expires_at or call.approval_expires_at,
            grant_id=grant.id if grant else "",
            grant_expires_at=grant.expires_at if grant else 0.0,
            is_rechecked=False,
        )
    return state


def ask(state: LoopState, event: ApprovalRequested) -> LoopState:
    """A person has been asked; the side effect is known of from now on."""
    state = change(
        state,
        event.ordinal,
        phase="waiting",
        approval_id=event.approval_id,
        approval_expires_at=event.expires_at,
    )
    return outstanding(state, event.ordinal, "proposed")


def intend(state: LoopState, event: Intended) -> LoopState:
    """A write may start."""
    state = change(
        state,
        event.ordinal,
        phase="intended",
        effect=event.effect,
        intents=call_of(state, event.ordinal).intents + 1,
        grant_id=event.grant_id,
    )
    return outstanding(state, event.ordinal, "intended")


def observe(state: LoopState, event: Observed) -> LoopState:
    """A call has its result, or its outcome is unknown and must be reconciled."""
    call = call_of(state, event.ordinal)
    if event.kind == "unknown":
        state = change(state, event.ordinal, phase="unknown")
        state = replace(state, tool_history=_history(state, call, "unknown", None))
        return outstanding(state, event.ordinal, "unknown")
    status: OutstandingStatus = "executed" if event.kind == "ok" else "dropped"
    state = outstanding(state, event.ordinal, status)
    return end(state, event.ordinal, event.kind, problem=event.problem, evidence=event.evidence)


def reconcile(state: LoopState, event: Reconciled) -> LoopState:
    """What became of an unknown write: it has its result, starts over, or stays unknown."""
    match event.finding:
        case "happened":
            is_seen = event.how == "lookup"  # it need not be looked up again before success
            state = outstanding(state, event.ordinal, "executed", is_seen=is_seen)
            return end(state, event.ordinal, "ok", evidence=event.evidence)
        case "absent":
            state = change(state, event.ordinal, phase="accepted", is_rechecked=False)
            return outstanding(state, event.ordinal, "approved")
        case "undecidable":
            return outstanding(state, event.ordinal, "unknown")


def verify(state: LoopState, event: Verified) -> LoopState:
    """What the lookup before success said of an executed write, whichever calls had its key."""
    said: Verification = "happened" if event.is_there else "absent"
    changes: dict[str, object] = {"verification": "undecidable" if event.problem else said}
    if event.is_there:
        changes["status"] = "verified"
    marked = tuple(
        replace(o, **changes) if o.key == event.key and o.status == "executed" else o
        for o in state.outstanding
    )
    return replace(state, outstanding=marked)


def end(
    state: LoopState,
    ordinal: int,
    kind: ResultKind,
    *,
    problem: Problem | None = None,
    evidence: Evidence | None = None,
) -> LoopState:
    """A call is over: its result, what the model will be shown of it, and what was turned down."""
    call, evidence_id = call_of(state, ordinal), evidence.id if evidence else None
    result = CallResult(kind=kind, problem=problem, evidence_id=evidence_id)
    shown = [evidence.payload, evidence.notes] if evidence else problem
    if kind not in {"ok", "error"} and any(
        o.step == turn_of(state).step and o.ordinal == ordinal for o in state.outstanding
    ):
        state = outstanding(state, ordinal, "dropped")
    return replace(
        state,
        turn=_with(state, ordinal, {"phase": "observed", "result": result}),
        evidence=(*state.evidence, evidence) if evidence else state.evidence,
        context_bytes=state.context_bytes + budget.result_bytes(shown),
        seen=progress.turn_down(state.seen, call, problem) if kind in _TURNED_DOWN else state.seen,
        tool_history=_history(state, call, kind, evidence_id),
    )


def _history(
    state: LoopState,
    call: CallState,
    outcome: ResultKind | Literal["unknown"],
    evidence_id: str | None,
) -> tuple[ToolRecord, ...]:
    """Tool history with one more line."""
    action = call.action
    line = ToolRecord(
        step=turn_of(state).step,
        tool=call.tool,
        args_hash=arguments_hash(action.arguments if action else call.arguments),
        idempotency_key=action.key if action else None,
        outcome=outcome,
        evidence_id=evidence_id,
    )
    return (*state.tool_history, line)


def outstanding(
    state: LoopState, ordinal: int, status: OutstandingStatus, *, is_seen: bool = False
) -> LoopState:
    """Set the life of a call's side effect; a read has none."""
    call = call_of(state, ordinal)
    if call.action is None or call.action.key is None:
        return state
    step = turn_of(state).step
    mine = Outstanding(
        kind=call.tool,
        key=call.action.key,
        action_hash=call.action.action_hash,
        arguments=call.action.arguments,
        status=status,
        step=step,
        ordinal=ordinal,
        verification="happened" if is_seen else None,
    )
    others = tuple(o for o in state.outstanding if not (o.step == step and o.ordinal == ordinal))
    return replace(state, outstanding=(*others, mine))
