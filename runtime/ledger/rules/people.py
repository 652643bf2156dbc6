"""People: approvals and questions, each compare-and-set on one row, and holds."""

import re

from msgspec.structs import replace

from messages.canon import SHOWN_HEX
from messages.ledger import (
    AnswerQuestion,
    ApprovalDecided,
    ApprovalRow,
    DecideApproval,
    Done,
    Hold,
    Lift,
    Missing,
    Refused,
    Signal,
    SignalStored,
)
from runtime.ledger.rules.signals import has_cancel, store
from runtime.ledger.tables import RunHead, Tables

EVERY = "*"
_SHOWN_HASH = re.compile(rf"[0-9a-f]{{{SHOWN_HEX},64}}")
_CLOSED = {"expired": "EXPIRED", "void": "ENDED"}


# ------------------------------------------------------------------ approvals
def decide(t: Tables, op: DecideApproval, now: float) -> ApprovalDecided | Refused | Missing:
    """Approve or deny: the first decision wins, and the run is told in the same transaction."""
    row = t.approval(op.tenant, op.approval_id)
    head = t.run(op.tenant, row.run_id) if row else None
    if row is None or head is None:
        return Missing(kind="approval", name=op.approval_id)
    why = _approval_refusal(row, op, now) or _closed(t, head)
    if why:
        return Refused(why=why)
    decided = replace(
        row,
        state=op.decision,
        person=op.person,
        credential=op.credential,
        channel=op.channel,
        reason=op.reason,
        decided_at=now,
    )
    t.put_approval(decided)
    signal = Signal(
        kind="decision",
        person=op.person,
        reason=op.reason,
        approval_id=row.id,
        decision=op.decision,
        credential=op.credential,
        channel=op.channel,
        confirmed_hash=op.confirmed_hash,
    )
    store(t, head, signal, now)
    return ApprovalDecided(approval=decided)


def _approval_refusal(row: ApprovalRow, op: DecideApproval, now: float) -> str | None:
    if row.state != "pending":
        return _CLOSED.get(row.state, "ALREADY_DECIDED")
    if now >= row.expires_at:
        return "EXPIRED"
    if op.confirmed_hash and not is_hash_of(op.confirmed_hash, row.action_hash):
        return "HASH_MISMATCH"
    return None


def is_hash_of(confirmed: str, full_hash: str) -> bool:
    """What a person confirmed is enough of this hash, and of no other."""
    return _SHOWN_HASH.fullmatch(confirmed) is not None and full_hash.startswith(confirmed)


def _closed(t: Tables, head: RunHead) -> str | None:
    """Why no person can move this run any more, or None."""
    if head.status.is_terminal:
        return "ENDED"
    return "CANCEL_PENDING" if has_cancel(t, head) else None


# ------------------------------------------------------------------ questions
def answer(t: Tables, op: AnswerQuestion, now: float) -> SignalStored | Refused | Missing:
    """Answer the named question once."""
    row = t.question(op.tenant, op.question_id)
    head = t.run(op.tenant, op.run_id)
    if row is None or head is None or row.run_id != op.run_id:
        return Missing(kind="question", name=op.question_id)
    if row.state != "open":
        return Refused(why=_CLOSED.get(row.state, "ALREADY_ANSWERED"))
    why = _closed(t, head)
    if why:
        return Refused(why=why)
    t.put_question(
        replace(row, state="answered", answer=op.answer, person=op.person, answered_at=now)
    )
    signal = Signal(kind="answer", person=op.person, question_id=op.question_id, answer=op.answer)
    return SignalStored(run_id=op.run_id, id=store(t, head, signal, now).id)


# ------------------------------------------------------------------ holds
def is_held(t: Tables, head: RunHead) -> bool:
    """A hold on everything, the tenant or the agent covers this run."""
    return any(
        hold.tenant in (EVERY, head.tenant) and hold.agent in (EVERY, head.agent)
        for hold in t.holds()
    )


def hold(t: Tables, op: Hold, now: float) -> Done:
    """Take and Due pass over what it names from now on; runs being driven see it at Committed."""
    t.put_hold(replace(op.hold, at=now))
    return Done(now=now)


def lift(t: Tables, op: Lift, now: float) -> Done:
    """End exactly this hold; a wider one stays."""
    t.drop_hold(op.tenant, op.agent)
    return Done(now=now)
