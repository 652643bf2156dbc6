"""What an entry says must agree with the rows: keys nobody else holds, decisions that were made."""

from typing import Literal

from messages.events import (
    AnyEvent,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalResolved,
    HumanAnswered,
    HumanAsked,
    Intended,
    Reconciled,
)
from messages.ledger import Append, EffectRow, TakenKey
from runtime.ledger.rules.derive import is_same_call
from runtime.ledger.rules.effects import is_error_proof, is_open
from runtime.ledger.tables import Tables


# ------------------------------------------------------------------ keys
def taken_keys(t: Tables, op: Append) -> tuple[TakenKey, ...]:
    """The intended keys that another call holds, in this entry or before it."""
    seen: dict[str, Intended] = {}
    taken: list[TakenKey] = []
    for event in op.events:
        if not isinstance(event, Intended):
            continue
        first = seen.setdefault(event.key, event)
        row = t.effect(op.tenant, event.key)
        if first is not event and first.action_hash == event.action_hash:
            taken.append(_taken(event, "busy", op.run_id))
        elif first is not event:
            taken.append(_taken(event, "mismatch", op.run_id))
        elif row is not None and not _may_intend(row, op.run_id, event):
            taken.append(_taken(event, _how_taken(row, event), row.run_id, row))
    return tuple(taken)


def _may_intend(row: EffectRow, run_id: str, event: Intended) -> bool:
    """The key is free, or this very call holds it already and tries again."""
    if row.state == "free":
        return True
    is_ours = is_same_call(row, run_id, event) and row.action_hash == event.action_hash
    return is_ours and is_open(row)


def _how_taken(row: EffectRow, event: Intended) -> Literal["done", "busy", "mismatch"]:
    if row.action_hash != event.action_hash:
        return "mismatch"
    return "done" if row.state == "done" else "busy"


def _taken(
    event: Intended,
    state: Literal["done", "busy", "mismatch"],
    run_id: str,
    row: EffectRow | None = None,
) -> TakenKey:
    return TakenKey(
        key=event.key,
        state=state,
        run_id=run_id,
        step=event.step,
        ordinal=event.ordinal,
        evidence=row.evidence if row and state == "done" else None,
    )


# ------------------------------------------------------------------ facts
CLAIMING = frozenset(
    {
        ApprovalRequested,
        ApprovalResolved,
        ApprovalExpired,
        HumanAsked,
        HumanAnswered,
        Reconciled,
    }
)
"""Events that say something a row may deny; looked up first, since most events are others."""


def denied_event(t: Tables, op: Append, now: float) -> str | None:
    """Name of the first event that the rows deny, or None."""
    for event in op.events:
        if type(event) in CLAIMING and not _agrees(t, op, event, now):
            return type(event).__name__
    return None


def _agrees(t: Tables, op: Append, event: AnyEvent, now: float) -> bool:
    match event:
        case ApprovalRequested():
            return t.approval(op.tenant, event.approval_id) is None
        case ApprovalResolved():
            return _was_decided(t, op, event)
        case ApprovalExpired():
            return _has_expired(t, op, event, now)
        case HumanAsked():
            return t.question(op.tenant, event.question_id) is None
        case HumanAnswered():
            return _was_answered(t, op, event)
        case Reconciled(finding="absent"):
            return _is_absent(t, op, event, now)
        case _:
            return True


def _was_decided(t: Tables, op: Append, event: ApprovalResolved) -> bool:
    row = t.approval(op.tenant, event.approval_id)
    return row is not None and row.run_id == op.run_id and row.state == event.decision


def _has_expired(t: Tables, op: Append, event: ApprovalExpired, now: float) -> bool:
    """A yes that came in time is never overruled by the clock."""
    row = t.approval(op.tenant, event.approval_id)
    is_pending = row is not None and row.run_id == op.run_id and row.state == "pending"
    return is_pending and row is not None and now >= row.expires_at


def _was_answered(t: Tables, op: Append, event: HumanAnswered) -> bool:
    row = t.question(op.tenant, event.question_id)
    return row is not None and row.run_id == op.run_id and row.state == "answered"


def _is_absent(t: Tables, op: Append, event: Reconciled, now: float) -> bool:
    """Not being there proves nothing while a claimed request may still arrive.

    Kept here although the loop waits for W itself: this is the place that cannot be raced.
    """
    row = t.effect(op.tenant, event.key)
    if row is None or row.run_id != op.run_id or not is_open(row) or not row.claims:
        return True
    match event.how:
        case "lookup":
            return now >= row.claims[-1].at + row.settle_after_s
        case "replay" | "settled":
            return is_error_proof(row)
        case "void" | "none":
            return False
