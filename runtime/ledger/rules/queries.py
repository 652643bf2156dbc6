"""What only reads: journal pages, what is due, listings."""

import heapq
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from messages.errors import BrokenChain
from messages.ledger import (
    ApprovalRow,
    ApprovalRows,
    Due,
    DueRun,
    DueRuns,
    EffectRow,
    EffectRows,
    Entry,
    ListApprovals,
    ListEffects,
    ListRuns,
    Load,
    Loaded,
    Missing,
    RunCursor,
    RunRow,
    RunRows,
    Summary,
    Tallies,
    TallyRuns,
)
from messages.status import Status
from runtime.ledger import chain
from runtime.ledger.rules.people import is_held
from runtime.ledger.rules.signals import has_cancel
from runtime.ledger.tables import RunFilter, RunHead, Tables
from runtime.tally import tally

RowT = TypeVar("RowT")

PAGE_BYTES = 512 * 1024
"""Entries in one answer; half of the broker's limit leaves room for the rest of the answer."""
MOST_ROWS = 500
"""Rows in one answer, whatever was asked for."""


# ------------------------------------------------------------------ journal
def page(t: Tables, head: RunHead, after: int, upto: int) -> tuple[tuple[Entry, ...], bool]:
    """Entries above ``after``, at least one and at most ``PAGE_BYTES``, checked as they are read.

    Returns:
        The entries, and whether more follow.

    Raises:
        BrokenChain: one is missing, changed, or does not follow the one before it.
    """
    first, last = max(after, -1) + 1, min(upto, head.version)
    entries: list[Entry] = []
    size, prev_hash = 0, "" if first == 0 else None
    for row in t.entries(head.tenant, head.run_id, first - 1, last):
        size += len(row.body)
        if entries and size > PAGE_BYTES:
            return tuple(entries), True
        where = chain.place(head.run_id, row.version)
        entry = chain.unseal(row.body, row.hash, where)
        chain.follow(entry, first + len(entries), prev_hash)
        entries.append(entry)
        prev_hash = entry.hash
    _check_end(head, entries, first, last)
    return tuple(entries), False


def _check_end(head: RunHead, entries: list[Entry], first: int, last: int) -> None:
    """The journal reaches as far as the run's row says, and to the same hash."""
    if first + len(entries) <= last:
        missing = chain.place(head.run_id, first + len(entries))
        message = f"{missing}: the entry is missing"
        raise BrokenChain(message)
    if entries and entries[-1].version == head.version and entries[-1].hash != head.head_hash:
        message = f"{chain.place(head.run_id, last)}: it is not the head that was recorded"
        raise BrokenChain(message)


def load(t: Tables, op: Load, now: float) -> Loaded | Missing:
    """One page of a journal, with the run's row and what is pending."""
    head = t.run(op.tenant, op.run_id)
    if head is None:
        return Missing(kind="run", name=op.run_id)
    upto = head.version if op.upto is None else op.upto
    entries, is_partial = page(t, head, op.after, upto)
    return Loaded(
        entries=entries,
        is_partial=is_partial,
        row=row_of(head, t.summary(op.tenant, op.run_id)),
        signals=tuple(t.signals(op.tenant, op.run_id)),
        now=now,
    )


def row_of(head: RunHead, summary: Summary) -> RunRow:
    """The row as others see it."""
    return RunRow(
        tenant=head.tenant,
        run_id=head.run_id,
        version=head.version,
        head_hash=head.head_hash,
        summary=summary,
        created_at=head.created_at,
        updated_at=head.updated_at,
        owner=head.owner,
        take_id=head.take_id,
        is_clean=head.is_clean,
        deaths=head.deaths,
        published=head.published,
        parent=head.parent,
        continues=head.continues,
        origin=head.origin,
    )


# ------------------------------------------------------------------ due
def due(t: Tables, op: Due, now: float) -> DueRuns:
    """What needs a drive by this process or a publish, oldest first. Changes nothing.

    It never changes an owner: a late answer must not unseat a live drive.
    """
    limit = _most(op.limit)
    driving = frozenset(op.driving)
    drives = (
        (head.created_at, _drive(head, op.process))
        for head in t.due_runs(now, op.process)
        if _wants_drive(t, head, op.process, driving, now)
    )
    unpublished = t.unpublished_runs(op.stream, limit) if op.stream else ()
    publishes = sorted(
        (
            (head.created_at, DueRun(tenant=head.tenant, run_id=head.run_id, need="publish"))
            for head in unpublished
        ),
        key=_created,
    )
    merged = heapq.merge(list(islice(drives, limit)), publishes, key=_created)
    return DueRuns(runs=tuple(run for _, run in islice(merged, limit)), now=now)


def _drive(head: RunHead, process: str) -> DueRun:
    """A run that wants a drive: if it has another owner, that one is dead."""
    has_dead_owner = head.owner is not None and head.owner != process
    deaths = head.deaths + has_dead_owner
    return DueRun(tenant=head.tenant, run_id=head.run_id, need="drive", deaths=deaths)


def _created(item: tuple[float, DueRun]) -> float:
    return item[0]


def _wants_drive(
    t: Tables, head: RunHead, process: str, driving: frozenset[str], now: float
) -> bool:
    if is_held(t, head) and not has_cancel(t, head):
        return False
    if head.owner == process and f"{head.tenant}/{head.run_id}" not in driving:
        return True  # its Taken was lost, or its drive crashed
    owner = t.process(head.owner) if head.owner else None
    if owner is not None and owner.expires_at > now:
        return False
    if not head.status.is_suspended or t.signals(head.tenant, head.run_id):
        return True
    return head.until is not None and head.until <= now


# ------------------------------------------------------------------ listings
def list_runs(t: Tables, op: ListRuns) -> RunRows:
    """Runs that match all that is given."""
    # QUEUED is shown, never stored.
    stored = {Status.RUNNING if s is Status.QUEUED else s for s in op.statuses}
    are_open = op.is_open_only and not stored
    if stored:
        are_open = not any(status.is_terminal for status in stored)
    like = RunFilter(
        is_open_only=are_open,
        statuses=tuple(sorted(stored)),
        agent=op.agent,
        since=op.since or 0.0,
    )
    rows = t.newest_runs(op.tenant, like)
    return RunRows(rows=_first(_runs_like(rows, op), op.limit))


def _runs_like(rows: Iterable[RunRow], op: ListRuns) -> Iterator[RunRow]:
    for row in rows:
        is_status = not op.statuses or row.shown_status in op.statuses
        if is_status and op.labels.items() <= row.summary.labels.items():
            yield row


def tally_runs(t: Tables, op: TallyRuns) -> Tallies:
    """One page of runs, counted; the page is of rows looked at, so its time is bounded."""
    limit = max(1, _most(op.limit))
    after = op.after and (op.after.created_at, op.after.run_id)
    like = RunFilter(since=op.since or 0.0, until=op.until, after=after)
    rows = _first(t.newest_runs(op.tenant, like), limit)
    matching = [row for row in rows if op.labels.items() <= row.summary.labels.items()]
    is_last = len(rows) < limit
    end = None if is_last else RunCursor(created_at=rows[-1].created_at, run_id=rows[-1].run_id)
    return Tallies(tallies=tally(matching, op.by), next=end)


def list_approvals(t: Tables, op: ListApprovals) -> ApprovalRows:
    """Approvals of a tenant."""
    if op.ids:
        found = (t.approval(op.tenant, approval_id) for approval_id in op.ids)
        rows: Iterable[ApprovalRow] = (row for row in found if row is not None)
        if op.run_id is not None:
            rows = (row for row in rows if row.run_id == op.run_id)
    else:
        rows = t.oldest_approvals(op.tenant, run_id=op.run_id, is_pending_only=op.is_pending_only)
    return ApprovalRows(rows=_first(rows, op.limit))


def list_effects(t: Tables, op: ListEffects) -> EffectRows:
    """Keys of a tenant."""
    rows: Iterable[EffectRow]
    if op.keys:
        found = (t.effect(op.tenant, key) for key in op.keys)
        rows = (row for row in found if row is not None)
    elif op.run_id is not None:
        rows = sorted(
            t.effects_of(op.tenant, op.run_id), key=lambda row: row.updated_at, reverse=True
        )
    else:
        rows = t.newest_effects(op.tenant, is_unresolved_only=op.is_unresolved_only)
    return EffectRows(rows=_first((row for row in rows if _is_effect_like(row, op)), op.limit))


def _is_effect_like(row: EffectRow, op: ListEffects) -> bool:
    is_run = op.run_id is None or row.run_id == op.run_id
    is_unresolved = row.is_flagged or row.state == "unknown"
    return is_run and (is_unresolved or not op.is_unresolved_only)


def _most(limit: int) -> int:
    return max(0, min(limit, MOST_ROWS))


def _first(rows: Iterable[RowT], limit: int) -> tuple[RowT, ...]:
    return tuple(islice(rows, _most(limit)))
