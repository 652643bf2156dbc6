"""Finding out what became of a write that may have started (DESIGN.md section 6).

In this order: Void, for one that never did; what its executor settled; a replay under the same key
while the downstream honours it; a lookup, once no earlier request can still arrive; a person.
"""

from typing import Literal

from msgspec.structs import replace

from actors.orchestrator.execute import (
    CANCELLED_TEXT,
    INTENTS_TEXT,
    ask_executor,
    intend,
    not_started,
    observe,
    tool_of,
)
from actors.orchestrator.hand import Hand
from actors.orchestrator.lookup import look_up, settling_grant
from messages import events as e
from messages import execution
from messages.ledger import Elsewhere, Happened, Started, Void, Voided
from messages.parts import Evidence, Problem
from messages.state import CallState
from messages.status import Reason, Status
from runtime.faults import fault
from runtime.loop import directives as d
from runtime.loop.calls import OPEN_PHASES
from runtime.loop.next import MAX_INTENTS

Finding = Literal["happened", "absent", "undecidable"]
How = Literal["void", "settled", "replay", "lookup", "none"]
_CANCEL_POLL_S = 0.25


async def reconcile(hand: Hand, directive: d.Reconcile) -> bool:
    """Void first; then what was settled, a replay, a lookup after W, or a person."""
    call = hand.call(directive.ordinal)
    started = await _void(hand, call, is_cancelling=directive.is_cancelling)
    if started is None:
        return True
    if directive.is_cancelling:
        return await _cancelled(hand, started)
    return await _started(hand, call, started)


async def _void(hand: Hand, call: CallState, *, is_cancelling: bool) -> Started | None:
    """Take the intent back, or note what the ledger knows of it; else that it was started."""
    action = call.action
    if action is None or action.key is None:
        raise AssertionError("only a write is reconciled")
    state = hand.pen.state
    fault("orchestrator.before_reconcile")
    found = await hand.asking.ledger(
        Void(tenant=state.tenant, run_id=state.run_id, key=action.key, grant_id=call.grant_id)
    )
    fault("orchestrator.after_reconcile")
    match found:
        case Voided():
            _voided(hand, call, found, is_cancelling=is_cancelling)
        case Happened():
            evidence = found.evidence
            if evidence is not None:
                evidence = replace(evidence, id=state.next_evidence_id)
            _note(hand, call, "happened", "settled", evidence=evidence)
        case Elsewhere():
            not_started(hand, call.ordinal, "KEY_BUSY", "Another run holds this key.")
        case Started():
            return found
    return None


def _voided(hand: Hand, call: CallState, found: Voided, *, is_cancelling: bool) -> None:
    if found.problem is not None:  # it ran and said so: nobody retries a write by itself
        observe(hand, call.ordinal, execution.Outcome(kind="error", problem=found.problem))
    elif is_cancelling:
        not_started(hand, call.ordinal, "CANCELLED", CANCELLED_TEXT)
    elif call.intents >= MAX_INTENTS:
        not_started(hand, call.ordinal, "INTENTS", INTENTS_TEXT)
    else:
        _note(hand, call, "absent", "void")


def _note(
    hand: Hand,
    call: CallState,
    finding: Finding,
    how: How,
    *,
    evidence: Evidence | None = None,
    problem: Problem | None = None,
) -> None:
    hand.pen.add(
        e.Reconciled(
            step=hand.turn_step,
            ordinal=call.ordinal,
            key=call.action.key or "" if call.action else "",
            finding=finding,
            how=how,
            evidence=evidence,
            problem=problem,
        )
    )


async def _cancelled(hand: Hand, found: Started) -> bool:
    """A cancelled run gives a started write the grace period to settle, then ends without it."""
    if found.now < found.last_claim_at + hand.times.grace_s and not hand.is_draining:
        await hand.clock.sleep(_CANCEL_POLL_S)
        return True
    turn = hand.pen.state.turn
    open_ = [call for call in turn.calls if call.phase in OPEN_PHASES] if turn else []
    still = [await _void(hand, call, is_cancelling=True) for call in open_]
    if not any(still):
        return True  # the last of them was settled just now
    return await hand.finish(d.Finish(status=Status.CANCELLED, reason=Reason.EFFECT_UNSETTLED))


async def _started(hand: Hand, call: CallState, found: Started) -> bool:
    spec = tool_of(hand, call)
    settled_by = found.last_claim_at + spec.settle_after_s
    is_replayable = (
        spec.replay_for_s is not None
        and found.now < found.first_claim_at + spec.replay_for_s
        and call.intents < MAX_INTENTS
    )
    if is_replayable and (call.intents <= 1 or found.now >= settled_by):
        return await _replay(hand, call)
    if found.now < settled_by:
        return await hand.suspend(
            d.Suspend(status=Status.WAITING, reason=Reason.TIMER, until=settled_by + 0.1)
        )
    if spec.has_lookup:
        return await _look_up(hand, call)
    return await _undecidable(hand, call, "the downstream can neither be asked nor be repeated to")


async def _undecidable(hand: Hand, call: CallState, why: str) -> bool:
    problem = Problem(code="UNKNOWN_EFFECT", message=why)
    _note(hand, call, "undecidable", "none", problem=problem)
    return await hand.finish(d.Finish(status=Status.FAILED, reason=Reason.UNKNOWN_EFFECT, why=why))


async def _replay(hand: Hand, call: CallState) -> bool:
    """The same key again: a downstream that honours it answers with what happened."""
    if call.action is None:
        raise AssertionError("only a write is replayed")
    grant = await settling_grant(hand, call.action, step=hand.turn_step, purpose="execute")
    if grant is None:
        return await _undecidable(hand, call, "policy no longer allows the replay")
    intend(hand, replace(call, grant_id=grant.id))
    fault("orchestrator.before_intended")
    await hand.commit()
    fault("orchestrator.after_intended")
    if hand.call(call.ordinal).phase != "intended":
        return True  # it was settled in the meantime
    outcome: execution.Outcome | None = None
    with hand.interrupt.cutting(grace_s=hand.times.grace_s):
        outcome = await ask_executor(hand, hand.call(call.ordinal))
    fault("orchestrator.after_execute")
    if outcome is not None and outcome.kind != "unknown":
        observe(hand, call.ordinal, outcome)
    return True


async def _look_up(hand: Hand, call: CallState) -> bool:
    if call.action is None:
        raise AssertionError("only a write is looked up")
    evidence_id = hand.pen.state.next_evidence_id
    finding = await look_up(hand, call.action, step=hand.turn_step, evidence_id=evidence_id)
    if finding is None:
        return True  # a cancel was heard
    if finding.kind == "undecidable":
        message = finding.problem.message if finding.problem else "the lookup could not decide"
        return await _undecidable(hand, call, message)
    _note(hand, call, finding.kind, "lookup", evidence=finding.evidence)
    return True
