"""Append: the one way a run's history grows."""

from collections.abc import Sequence

from msgspec.structs import replace

from messages.events import ChildStarted, RunCreated, is_progress
from messages.ledger import (
    Append,
    Committed,
    Conflicted,
    Entry,
    KeysTaken,
    Missing,
    Refused,
    RunEnded,
    Signal,
    Stale,
)
from runtime.ledger import chain
from runtime.ledger.rules.agree import denied_event, taken_keys
from runtime.ledger.rules.derive import TOUCHING, derive, finish, finished_event
from runtime.ledger.rules.people import is_held
from runtime.ledger.rules.runs import bad_birth, insert, is_alive
from runtime.ledger.rules.signals import due_time
from runtime.ledger.tables import RunHead, StoredEntry, Tables

AppendAnswer = Committed | Conflicted | KeysTaken | Stale | RunEnded | Refused | Missing


def append(t: Tables, op: Append, now: float) -> AppendAnswer:
    """One entry, if it is the next one, by whoever may write it.

    The version and the head hash alone keep the history single. A live owner other than the
    appender is a reason to refuse as well: whoever was fenced off must stop.
    """
    head = t.run(op.tenant, op.run_id)
    if head is None:
        return Missing(kind="run", name=op.run_id)
    if op.append_id == head.append_id and op.version == head.version:
        return _committed(t, head, t.signals(op.tenant, op.run_id), now)
    refusal = _out_of_turn(t, head, op, now) or _unsound(t, op, now)
    return refusal or _write(t, head, op, now)


# ------------------------------------------------------------------ may it be written
def _out_of_turn(t: Tables, head: RunHead, op: Append, now: float) -> RunEnded | Conflicted | None:
    if head.status.is_terminal:
        return RunEnded(version=head.version, status=head.status)
    if op.version != head.version + 1 or op.prev_hash != head.head_hash:
        return Conflicted(version=head.version)
    if head.owner is None or (head.owner, head.take_id) == (op.process, op.take_id):
        return None
    # Another take of the same process is newer, and alive by definition.
    if head.owner == op.process or is_alive(t, head.owner, now):
        return Conflicted(version=head.version)
    return None


def _unsound(t: Tables, op: Append, now: float) -> Refused | KeysTaken | Stale | None:
    problem = _bad_entry(t, op)
    if problem:
        return Refused(why="BAD_ENTRY", message=problem)
    keys = taken_keys(t, op)
    if keys:
        return KeysTaken(keys=keys)
    denied = denied_event(t, op, now)
    return Stale(why=denied) if denied else None


def _bad_entry(t: Tables, op: Append) -> str | None:
    """Why these events can be no entry at all: a mistake of the appender, or None."""
    if not op.events:
        return "an entry has at least one event"
    if any(isinstance(event, RunCreated) for event in op.events):
        return "run_created stands in version 0"
    ended = finished_event(op.events)
    if (ended is not None) != op.summary.status.is_terminal:
        return "a terminal status comes with a finished event, and only then"
    if ended is not None and ended.status is not op.summary.status:
        return "summary and finished event differ in status"
    return _bad_children(t, op)


def _bad_children(t: Tables, op: Append) -> str | None:
    named = [c.run_id for e in op.events if isinstance(e, ChildStarted) for c in e.children]
    if not named and not op.children:
        return None
    if sorted(named) != sorted(child.run_id for child in op.children):
        return "children and child_started name different runs"
    if len(set(named)) != len(named):
        return "child_started names a run twice"
    for child in op.children:
        problem = bad_birth(child)
        if problem:
            return f"child {child.run_id}: {problem}"
        created = child.events[0]
        is_ours = isinstance(created, RunCreated) and created.parent == op.run_id
        if not is_ours or child.tenant != op.tenant:
            return f"child {child.run_id} names another parent or tenant"
        if t.run(child.tenant, child.run_id) is not None:
            return f"child {child.run_id} is a run already"
    return None


# ------------------------------------------------------------------ writing
def _write(t: Tables, head: RunHead, op: Append, now: float) -> Committed:
    entry = Entry(
        tenant=op.tenant,
        run_id=op.run_id,
        version=op.version,
        append_id=op.append_id,
        at=now,
        active_s=op.active_s,
        prev_hash=op.prev_hash,
        events=op.events,
    )
    entry_hash, body = chain.seal(entry)
    t.insert_entry(op.tenant, op.run_id, StoredEntry(op.version, entry_hash, body))
    for event in op.events:
        if type(event) in TOUCHING:
            derive(t, head, event, now)
    for child in op.children:
        insert(t, child, now)
    if op.children:
        # A child that could not even start has told this run so, which changed its row.
        head = t.run(op.tenant, op.run_id) or head
    signals = t.signals(op.tenant, op.run_id)
    if op.named:
        t.drop_signals(op.tenant, op.run_id, op.named)
        signals = [signal for signal in signals if signal.id not in op.named]
    after = _next_head(head, op, entry_hash, now, has_signals=bool(signals))
    t.update_run(head, after, op.summary)
    ended = finished_event(op.events)
    if ended is not None:
        finish(t, after, ended, op.summary, now)
        signals = ()
    return _committed(t, after, signals, now)


def _next_head(
    head: RunHead, op: Append, entry_hash: str, now: float, *, has_signals: bool
) -> RunHead:
    """The run's row after the entry; the appender owns it unless the run now waits or has ended."""
    status, until = op.summary.status, op.summary.until
    is_let_go = status.is_terminal or (status.is_suspended and not has_signals)
    owner = None if is_let_go else op.process
    return replace(
        head,
        status=status,
        until=until,
        version=op.version,
        head_hash=entry_hash,
        append_id=op.append_id,
        owner=owner,
        take_id=None if is_let_go else op.take_id,
        is_clean=is_let_go or head.is_clean,
        deaths=0 if is_progress(op.events) else head.deaths,
        updated_at=now,
        due_at=due_time(status, until, owner, has_signals=has_signals),
    )


def _committed(t: Tables, head: RunHead, signals: Sequence[Signal], now: float) -> Committed:
    return Committed(
        version=head.version,
        hash=head.head_hash,
        now=now,
        signals=tuple(signals),
        is_held=is_held(t, head),
    )
