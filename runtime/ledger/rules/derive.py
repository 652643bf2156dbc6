"""The rows that follow from the events of an entry, in the transaction of that entry."""

from collections.abc import Sequence

from msgspec.structs import replace

from messages.events import (
    AnyEvent,
    ApprovalExpired,
    ApprovalRequested,
    Finished,
    HumanAsked,
    Intended,
    Observed,
    Reconciled,
)
from messages.ledger import ApprovalRow, EffectRow, QuestionRow, Signal, Summary
from runtime.ledger.rules.effects import (
    is_error_proof,
    is_open,
    mark_done,
    mark_free,
    mark_unknown,
)
from runtime.ledger.rules.signals import cancel_children, store
from runtime.ledger.tables import RunHead, Tables

TOUCHING = frozenset(
    {Intended, Observed, Reconciled, ApprovalRequested, ApprovalExpired, HumanAsked}
)
"""Events that rows follow from; looked up first, since most events of most entries are others."""


def finished_event(events: Sequence[AnyEvent]) -> Finished | None:
    """The event that ends the run, if this is its last entry."""
    return next((event for event in events if isinstance(event, Finished)), None)


def derive(t: Tables, head: RunHead, event: AnyEvent, now: float) -> None:
    """Bring the rows that one event of ``TOUCHING`` is about up to date."""
    match event:
        case Intended():
            _intend(t, head, event, now)
        case Observed():
            _observe(t, head, event, now)
        case Reconciled():
            _reconcile(t, head, event, now)
        case ApprovalRequested():
            t.put_approval(_approval(head, event, now))
        case ApprovalExpired():
            row = t.approval(head.tenant, event.approval_id)
            if row is not None:
                t.put_approval(replace(row, state="expired", decided_at=now))
        case HumanAsked():
            t.put_question(_question(head, event, now))
        case _:
            pass  # the other events are about the run alone


# ------------------------------------------------------------------ effects
def is_same_call(row: EffectRow, run_id: str, event: Intended | Observed) -> bool:
    """The row is of this very call, not of another with the same key."""
    return (row.run_id, row.step, row.ordinal) == (run_id, event.step, event.ordinal)


def _intend(t: Tables, head: RunHead, event: Intended, now: float) -> None:
    """A retry of an open intent is a new grant on the same row, and keeps the claims."""
    old = t.effect(head.tenant, event.key)
    kept = old if old and is_open(old) and is_same_call(old, head.run_id, event) else None
    row = EffectRow(
        tenant=head.tenant,
        key=event.key,
        state="intended",
        run_id=head.run_id,
        step=event.step,
        ordinal=event.ordinal,
        tool=event.tool,
        action_hash=event.action_hash,
        effect=event.effect,
        grant_id=event.grant_id,
        claims=kept.claims if kept else (),
        # The longer one: an earlier claim may have been made under it.
        settle_after_s=max(event.settle_after_s, kept.settle_after_s if kept else 0.0),
        updated_at=now,
    )
    t.put_effect(row)


def _observe(t: Tables, head: RunHead, event: Observed, now: float) -> None:
    """Close the key of a write that has its result; a read has no row."""
    rows = t.effects_of(head.tenant, head.run_id)
    row = next((r for r in rows if is_open(r) and is_same_call(r, head.run_id, event)), None)
    if row is None:
        return
    match event.kind:
        case "ok":
            mark_done(t, row, event.evidence, now)
        case "error" if is_error_proof(row):
            mark_free(t, row, event.problem, now)
        case "not_started" | "cancelled" if not row.claims:
            mark_free(t, row, event.problem, now)
        case _:
            pass  # no proof: the key stays open until it is reconciled or the run ends


def _reconcile(t: Tables, head: RunHead, event: Reconciled, now: float) -> None:
    row = t.effect(head.tenant, event.key)
    if row is None or row.run_id != head.run_id or not is_open(row):
        return
    match event.finding:
        case "happened":
            mark_done(t, row, event.evidence, now)
        case "absent":
            mark_free(t, row, event.problem, now)
        case "undecidable":
            mark_unknown(t, row, event.problem, now)


# ------------------------------------------------------------------ people
def _approval(head: RunHead, event: ApprovalRequested, now: float) -> ApprovalRow:
    return ApprovalRow(
        tenant=head.tenant,
        id=event.approval_id,
        run_id=head.run_id,
        agent=head.agent,
        principal=head.principal,
        step=event.step,
        ordinal=event.ordinal,
        tool=event.tool,
        action_hash=event.action_hash,
        key=event.key,
        group=event.group,
        size=event.size,
        rule=event.rule,
        why=event.why,
        package=event.package,
        requested_at=now,
        expires_at=event.expires_at,
    )


def _question(head: RunHead, event: HumanAsked, now: float) -> QuestionRow:
    return QuestionRow(
        tenant=head.tenant,
        id=event.question_id,
        run_id=head.run_id,
        text=event.text,
        schema=event.schema,
        group=event.group,
        asked_at=now,
    )


# ------------------------------------------------------------------ the end
def finish(t: Tables, head: RunHead, event: Finished, summary: Summary, now: float) -> None:
    """What ends with a run. ``head`` is its row as the last entry left it."""
    pending = t.oldest_approvals(head.tenant, run_id=head.run_id, is_pending_only=True)
    for row in list(pending):  # read to the end first: writing moves the rows it walks over
        t.put_approval(replace(row, state="void", decided_at=now))
    for question in t.questions_of(head.tenant, head.run_id):
        if question.state == "open":
            t.put_question(replace(question, state="void"))
    for key in t.effects_of(head.tenant, head.run_id):
        _close_key(t, key, now)
    t.drop_signals(head.tenant, head.run_id, _ids(t, head))
    _tell_parent(t, head, event, summary, now)
    cancel_children(t, head, event.person or "", now)


def _close_key(t: Tables, row: EffectRow, now: float) -> None:
    """A key that was never claimed cannot have happened; the others are for a person."""
    if not is_open(row):
        return
    if row.state == "intended" and not row.claims:
        mark_free(t, row, None, now)
    else:
        mark_unknown(t, row, row.problem, now)


def _ids(t: Tables, head: RunHead) -> list[int]:
    return [signal.id for signal in t.signals(head.tenant, head.run_id)]


def _tell_parent(t: Tables, head: RunHead, event: Finished, summary: Summary, now: float) -> None:
    parent = t.run(head.tenant, head.parent) if head.parent else None
    if parent is None or parent.status.is_terminal:
        return
    signal = Signal(
        kind="child",
        child_run=head.run_id,
        child_status=event.status,
        child_reason=event.reason,
        child_usage=summary.usage,
        child_cost_microusd=summary.cost_microusd,
        child_steps=summary.step_count,
        child_result=event.output,
    )
    store(t, parent, signal, now)
