"""Short runs told as events: what the tests of the pure loop start from."""

from typing import Any

from msgspec.structs import replace

from messages import events as e
from messages.agent import AgentSpec
from messages.authority import Grant, Verdict
from messages.ledger import Signal
from messages.parts import Amount, Block, Evidence, Limits, Problem, Reservation, Usage
from messages.state import LoopState
from messages.status import Status
from runtime.loop import directives as d
from runtime.loop.evolve import evolve, fold_entry, seal
from runtime.loop.next import next_directive
from tests.unit.runtime.loop.loop_world import SPEC, T0, World, action_of, text, use

NO = Problem(code="NO", message="no")
GRANT = Grant(id="gr-1", tenant="t", run_id="r", step=1, actions=(), expires_at=T0 + 20)
NOW = d.Moment(at=T0 + 1, take_id="take-1")
CANCEL = Signal(id=7, kind="cancel", person="eve", reason="wrong order")
PAUSE = Signal(id=8, kind="pause", person="eve")


def born(spec: AgentSpec = SPEC, limits: Limits | None = None) -> LoopState:
    """A run with step 1 reserved."""
    return World(0, spec=spec, limits=limits).state


def told(state: LoopState, *events: e.AnyEvent) -> LoopState:
    """``state`` after events that are not durable yet."""
    for event in events:
        state = evolve(state, event)
    return state


def decided(
    *blocks: Block, step: int = 1, stop_reason: str = "tool_use", tokens: int = 100
) -> e.Decided:
    """The model said this."""
    return e.Decided(
        step=step,
        content=blocks,
        stop_reason=stop_reason,
        usage=Usage(input_tokens=tokens),
        charged=Amount(tokens=tokens),
        model="scripted",
        started_at=T0,
        duration_s=2.0,
    )


def called(*names: str, step: int = 1) -> e.Decided:
    """The model called these tools, each with ``x=<place>``."""
    blocks = [use(place, name, x=f"x{place}") for place, name in enumerate(names)]
    return decided(*blocks, step=step)


def accepted(state: LoopState) -> LoopState:
    """Every call of the open turn is well-formed."""
    assert state.turn is not None
    actions = tuple(action_of(call) for call in state.turn.calls)
    return told(state, e.Accepted(step=state.turn.step, actions=actions))


def authorised(state: LoopState, *decisions: str, expires_at: float = T0 + 20) -> LoopState:
    """Verdicts on the calls of the open turn, in order."""
    assert state.turn is not None
    verdicts = tuple(
        Verdict(ordinal=o, decision=v, why="POL-1", group="g", rule="r", expires_at=T0 + 100)  # pyright: ignore[reportArgumentType]
        for o, v in enumerate(decisions)
    )
    grant = replace(GRANT, expires_at=expires_at)
    return told(
        state, e.Authorised(step=state.turn.step, verdicts=verdicts, policy="p1", grant=grant)
    )


def allowed(*names: str, spec: AgentSpec = SPEC) -> LoopState:
    """Calls under a grant, in the first turn."""
    return authorised(accepted(told(born(spec), called(*names))), *["allow"] * len(names))


def intended(state: LoopState, ordinal: int = 0) -> LoopState:
    """A write may have started."""
    assert state.turn is not None
    action = state.turn.calls[ordinal].action
    assert action is not None
    return told(
        state,
        e.Intended(
            step=state.turn.step,
            ordinal=ordinal,
            tool=action.tool,
            key=action.key or "",
            action_hash=action.action_hash,
            grant_id="gr-1",
            effect="replay",
        ),
    )


def evidence(state: LoopState, payload: object = "data", tool: str = "look") -> Evidence:
    """What a call brought."""
    return Evidence(
        id=state.next_evidence_id,
        tool=tool,
        request_id=f"req-{len(state.evidence)}",
        fetched_at=T0 + 2,
        duration_s=0.5,
        source="s",
        payload=payload,
    )


def observed(
    state: LoopState, ordinal: int = 0, kind: str = "ok", payload: object = "data"
) -> LoopState:
    """A call has its result."""
    assert state.turn is not None
    item = evidence(state, payload, state.turn.calls[ordinal].tool) if kind == "ok" else None
    return told(
        state,
        e.Observed(
            step=state.turn.step,
            ordinal=ordinal,
            kind=kind,  # pyright: ignore[reportArgumentType]
            evidence=item,
            problem=None if kind == "ok" else NO,
        ),
    )


def reconciled(state: LoopState, ordinal: int = 0, payload: object = "data") -> LoopState:
    """A write whose outcome was unknown at first; then it was found to have happened."""
    assert state.turn is not None
    call = state.turn.calls[ordinal]
    assert call.action is not None
    return told(
        intended(state, ordinal),
        e.Observed(step=state.turn.step, ordinal=ordinal, kind="unknown"),
        e.Reconciled(
            step=state.turn.step,
            ordinal=ordinal,
            key=call.action.key or "",
            finding="happened",
            how="settled",
            evidence=evidence(state, payload, call.tool),
        ),
    )


def assessed(state: LoopState) -> LoopState:
    """The monitor had nothing to say."""
    return told(state, e.Assessed(step=state.step_count))


def asked(state: LoopState, ordinal: int = 0, approval_id: str = "apr-1") -> LoopState:
    """A person is asked about a call."""
    assert state.turn is not None
    call = state.turn.calls[ordinal]
    assert call.action is not None
    return told(
        state,
        e.ApprovalRequested(
            step=state.turn.step,
            ordinal=ordinal,
            approval_id=approval_id,
            tool=call.tool,
            action_hash=call.action.action_hash,
            key=call.action.key,
            group="g",
            expires_at=T0 + 100,
            package="p",
        ),
    )


def waiting_for_approval() -> LoopState:
    """A write that a person was asked about, suspended."""
    state = asked(authorised(accepted(told(born(), called("mail"))), "ask"))
    suspended = e.Suspended(status=Status.AWAITING_APPROVAL, reason="r", until=T0 + 100)
    return told(state, suspended)


def resolved(state: LoopState, decision: str, approval_id: str = "apr-1") -> LoopState:
    """A person decided."""
    return told(
        state,
        e.ApprovalResolved(
            step=state.step_count,
            ordinal=0,
            approval_id=approval_id,
            decision=decision,  # pyright: ignore[reportArgumentType]
            person="eve",
            reason="because",
            decided_at=T0 + 5,
        ),
    )


def reserved(state: LoopState, step: int, tokens: int = 3_000, **fields: Any) -> LoopState:
    """The next step is paid for."""
    reservation = Reservation(
        step=step, most=Amount(tokens=tokens), output_tokens=1_000, take_id="take-1", **fields
    )
    return told(state, e.StepReserved(reservation=reservation))


def sealed(state: LoopState, at: float = T0, active_s: float = 0.0) -> LoopState:
    """What is known is durable."""
    return seal(state, state.version + 1, "h", at, active_s)


def next_of(state: LoopState, spec: AgentSpec = SPEC, **moment: Any) -> d.Directive:
    """What must happen next."""
    return next_directive(state, spec, replace(NOW, **moment))


__all__ = [
    "CANCEL",
    "GRANT",
    "NO",
    "NOW",
    "PAUSE",
    "SPEC",
    "T0",
    "accepted",
    "allowed",
    "asked",
    "assessed",
    "authorised",
    "born",
    "called",
    "decided",
    "evidence",
    "fold_entry",
    "intended",
    "next_of",
    "observed",
    "reconciled",
    "reserved",
    "resolved",
    "sealed",
    "text",
    "told",
    "use",
    "waiting_for_approval",
]
