"""Signals: what waits for a run's owner, and when a run is due because of it."""

from msgspec.structs import replace

from messages.ledger import Missing, Refused, RunEnded, SendSignal, Signal, SignalStored
from messages.status import Reason, Status
from runtime.ledger.tables import RunHead, Tables

CONTROLS = ("cancel", "pause", "resume")
"""What SendSignal may store; the other kinds are written by the operation they belong to."""


def has_cancel(t: Tables, head: RunHead) -> bool:
    """A cancel is pending for the run."""
    return any(s.kind == "cancel" for s in t.signals(head.tenant, head.run_id))


def due_time(
    status: Status, until: float | None, owner: str | None, *, has_signals: bool
) -> float | None:
    """From when on Due has to look at such a run: a bound from below, Due decides exactly."""
    if status.is_terminal:
        return None
    if owner is not None or has_signals or not status.is_suspended:
        return 0.0
    return until


def store(t: Tables, head: RunHead, signal: Signal, now: float) -> Signal:
    """Store a signal for an open run, which is due from then on."""
    stored = t.add_signal(head.tenant, head.run_id, replace(signal, id=0, at=now))
    if head.due_at != 0.0:
        t.update_run(head, replace(head, due_at=0.0))
    return stored


def cancel(t: Tables, head: RunHead, signal: Signal, now: float) -> tuple[int, tuple[str, ...]]:
    """Store a cancel for an open run and all its open descendants.

    A run that has one pending gets no second one, but its descendants are looked at: one may have
    been created since.

    Returns:
        The id of the run's own cancel, and the descendants that were told.
    """
    present = _pending(t, head, "cancel")
    stored = present or store(t, head, signal, now)
    return stored.id, cancel_children(t, head, signal.person, now)


def cancel_children(t: Tables, head: RunHead, person: str, now: float) -> tuple[str, ...]:
    """Store a cancel for every open descendant that has none, and name those runs."""
    told: list[str] = []
    todo = list(t.children(head.tenant, head.run_id))
    while todo:
        child = todo.pop()
        if child.status.is_terminal:
            continue
        if _pending(t, child, "cancel") is None:
            order = Signal(kind="cancel", person=person, reason=Reason.PARENT)
            store(t, child, order, now)
            told.append(child.run_id)
        todo.extend(t.children(child.tenant, child.run_id))
    return tuple(sorted(told))


def send(t: Tables, op: SendSignal, now: float) -> SignalStored | RunEnded | Refused | Missing:
    """Store a control from outside."""
    head = t.run(op.tenant, op.run_id)
    if head is None:
        return Missing(kind="run", name=op.run_id)
    if head.status.is_terminal:
        return RunEnded(version=head.version, status=head.status)
    kind = op.signal.kind
    if kind not in CONTROLS:
        return Refused(why="NOT_A_CONTROL", message=f"a {kind} signal has its own operation")
    if kind == "cancel":
        cancel_id, also = cancel(t, head, op.signal, now)
        return SignalStored(run_id=head.run_id, id=cancel_id, also=also)
    last = _last_control(t, head)
    is_repeat = last is not None and last.kind == kind
    stored = last if last and is_repeat else store(t, head, op.signal, now)
    return SignalStored(run_id=head.run_id, id=stored.id)


def _pending(t: Tables, head: RunHead, kind: str) -> Signal | None:
    found = (s for s in t.signals(head.tenant, head.run_id) if s.kind == kind)
    return next(found, None)


def _last_control(t: Tables, head: RunHead) -> Signal | None:
    """The newest pending pause or resume: of these the last one wins."""
    controls = [s for s in t.signals(head.tenant, head.run_id) if s.kind in {"pause", "resume"}]
    return controls[-1] if controls else None
