"""Owner and lifetime of a run: created, taken, released, published."""

from msgspec.structs import replace

from messages.errors import BrokenChain
from messages.events import RunCreated
from messages.ledger import (
    Create,
    Created,
    Done,
    Entry,
    Existing,
    Held,
    Missing,
    Published,
    Refused,
    Release,
    Renew,
    RunEnded,
    Signal,
    Take,
    Taken,
)
from messages.status import Reason
from runtime.ledger import chain
from runtime.ledger.rules.derive import finish, finished_event
from runtime.ledger.rules.people import is_held
from runtime.ledger.rules.queries import page
from runtime.ledger.rules.signals import due_time, has_cancel, store
from runtime.ledger.tables import ProcessRow, RunHead, StoredEntry, Tables

DEFAULT_LEASE_S = 5.0
"""Of a process that takes a run before it ever renewed."""
FORGET_AFTER_S = 3600.0
"""A process row that expired so long ago is of no more use, not even to a person."""


# ------------------------------------------------------------------ create
def create(t: Tables, op: Create, now: float) -> Created | Existing | Refused:
    """Make version 0; the same run id again is the same run."""
    head = t.run(op.tenant, op.run_id)
    if head is not None:
        return Existing(run_id=head.run_id, version=head.version, status=head.status)
    problem = bad_birth(op)
    if problem:
        return Refused(why="BAD_ENTRY", message=problem)
    insert(t, op, now)
    return Created(run_id=op.run_id, now=now)


def bad_birth(op: Create) -> str | None:
    """Why these cannot be the first events of a run, or None."""
    first = op.events[0] if op.events else None
    if not isinstance(first, RunCreated):
        return "version 0 begins with run_created"
    if first.identity.tenant != op.tenant:
        return "run_created names another tenant"
    if (finished_event(op.events) is not None) != op.summary.status.is_terminal:
        return "a run that ends at creation has a finished event, and only such a run"
    return None


def insert(t: Tables, op: Create, now: float) -> None:
    """Write a run whose events are sound; ``op.run_id`` is free.

    A child of a run with a pending cancel is born with it, and so is one whose parent has ended.
    """
    created = op.events[0]
    assert isinstance(created, RunCreated)  # noqa: S101 -- bad_birth has seen to it
    entry = Entry(
        tenant=op.tenant,
        run_id=op.run_id,
        version=0,
        append_id=op.append_id,
        at=now,
        events=op.events,
    )
    entry_hash, body = chain.seal(entry)
    head = _newborn(op, created, entry_hash, now)
    t.insert_entry(op.tenant, op.run_id, StoredEntry(0, entry_hash, body))
    t.insert_run(head, op.summary)
    ended = finished_event(op.events)
    if ended is not None:
        finish(t, head, ended, op.summary, now)
        return
    parent = t.run(op.tenant, created.parent) if created.parent else None
    if parent is not None and (parent.status.is_terminal or has_cancel(t, parent)):
        store(t, head, Signal(kind="cancel", reason=Reason.PARENT), now)


def _newborn(op: Create, created: RunCreated, entry_hash: str, now: float) -> RunHead:
    s = op.summary
    return RunHead(
        tenant=op.tenant,
        run_id=op.run_id,
        status=s.status,
        is_clean=True,
        version=0,
        head_hash=entry_hash,
        append_id=op.append_id,
        agent=created.agent,
        principal=created.identity.principal,
        until=s.until,
        owner=None,
        take_id=None,
        deaths=0,
        created_at=now,
        updated_at=now,
        published="",
        parent=created.parent,
        continues=created.continues,
        origin=op.origin or op.run_id,
        due_at=due_time(s.status, s.until, None, has_signals=False),
    )


# ------------------------------------------------------------------ owner
def is_alive(t: Tables, process: str, now: float) -> bool:
    """The process has renewed in time."""
    row = t.process(process)
    return row is not None and row.expires_at > now


def take(t: Tables, op: Take, now: float) -> Taken | Held | RunEnded | Refused | Missing:
    """Make this take the owner, if nobody alive is.

    A run whose journal does not hold together is set aside: nobody owns it and it is not due until
    a signal arrives, so that it cannot keep everyone busy.
    """
    head = t.run(op.tenant, op.run_id)
    if head is None:
        return Missing(kind="run", name=op.run_id)
    if head.status.is_terminal:
        return RunEnded(version=head.version, status=head.status)
    if is_held(t, head) and not has_cancel(t, head):
        return Held(why="hold")
    is_foreign = head.owner is not None and head.owner != op.process
    if is_foreign and is_alive(t, head.owner or "", now):
        return Held(why="owned")
    try:
        entries, is_partial = page(t, head, op.after, head.version)
    except BrokenChain as error:
        t.update_run(head, replace(head, owner=None, take_id=None, due_at=None))
        return Refused(why=error.code, message=error.message)
    taken = _own(t, head, op, now, deaths=head.deaths + is_foreign)
    return Taken(
        entries=entries,
        is_partial=is_partial,
        version=taken.version,
        head_hash=taken.head_hash,
        signals=tuple(t.signals(op.tenant, op.run_id)),
        now=now,
        is_clean=taken.is_clean,
        deaths=taken.deaths,
    )


def _own(t: Tables, head: RunHead, op: Take, now: float, *, deaths: int) -> RunHead:
    """The run's row with its new owner, whose lease is renewed with it.

    The open reservation may be used only if there was no owner: the run was new, suspended, or
    released clean. Repeating a take repeats its answer.
    """
    is_same = (head.owner, head.take_id) == (op.process, op.take_id)
    taken = replace(
        head,
        is_clean=head.is_clean if is_same else head.owner is None and head.is_clean,
        owner=op.process,
        take_id=op.take_id,
        deaths=deaths,
        due_at=0.0,
    )
    if taken != head:
        t.update_run(head, replace(taken, updated_at=now))
    _keep_alive(t, op.process, now)
    return taken


def _keep_alive(t: Tables, process: str, now: float) -> None:
    row = t.process(process)
    lease_s = row.lease_s if row else DEFAULT_LEASE_S
    if row is None or row.expires_at < now + lease_s:
        t.put_process(ProcessRow(process, lease_s, now + lease_s))


def renew(t: Tables, op: Renew, now: float) -> Done:
    """Say how long the process is taken to be alive from now; 0: not any more."""
    if op.lease_s <= 0:
        t.drop_process(op.process)
        return Done(now=now)
    if t.process(op.process) is None:
        t.drop_processes_before(now - FORGET_AFTER_S)
    t.put_process(ProcessRow(op.process, op.lease_s, now + op.lease_s))
    return Done(now=now)


def release(t: Tables, op: Release, now: float) -> Done:
    """Let go, if version and take are the present ones; otherwise somebody went on already.

    An unclean release leaves no owner either, and the next take may not use the reservation; it
    is no death.
    """
    head = t.run(op.tenant, op.run_id)
    is_present = (
        head is not None
        and head.version == op.version
        and (head.owner, head.take_id) == (op.process, op.take_id)
    )
    if head is not None and is_present:
        has_signals = bool(t.signals(op.tenant, op.run_id))
        due_at = due_time(head.status, head.until, None, has_signals=has_signals)
        free = replace(
            head,
            owner=None,
            take_id=None,
            is_clean=op.is_clean,
            due_at=due_at,
            updated_at=now,
        )
        t.update_run(head, free)
    return Done(now=now)


def published(t: Tables, op: Published, now: float) -> Done:
    """Note in which results stream the result of a terminal run is."""
    head = t.run(op.tenant, op.run_id)
    if head is not None and head.status.is_terminal and head.published != op.stream:
        t.update_run(head, replace(head, published=op.stream))
    return Done(now=now)
