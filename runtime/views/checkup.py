"""What ``doctor`` looks at in the ledger, and how a check is written down.

The gateway checks through the checkpointer, the command line a data directory by itself.
"""

from collections.abc import Sequence

from messages.base import Timestamp
from messages.errors import BrokenChain, TreadleError
from messages.ledger import Due, DueRun, Entry, ListRuns, RunRow
from runtime.ledger import chain
from runtime.views.reading import Ask, Reader
from runtime.views.values import View

NEWEST = 5
"""Journals that are followed from their first entry to their head."""
STUCK_S = 10.0
"""A run that was never taken may wait so long before it counts as forgotten."""
_MOST_RUNS = 500


def check(name: str, detail: str, *, is_ok: bool = True, hint: str = "") -> View:
    """One check as it is printed."""
    return {"name": name, "ok": is_ok, "detail": detail, "hint": "" if is_ok else hint}


def failed(name: str, error: TreadleError) -> View:
    """A check that could not even be made."""
    return check(name, f"{error.message} ({error.code})", is_ok=False, hint=error.hint)


async def check_ledger(ask: Ask, reader: Reader, tenant: str) -> View:
    """Whether it can be read, and whether the newest journals hold together."""
    name = "ledger"
    try:
        rows = (await ask(ListRuns(tenant=tenant, is_open_only=False, limit=NEWEST))).rows
        for row in rows:
            read = await reader.history(row.run_id)
            follow_chain(read.entries, read.row.head_hash)
    except TreadleError as error:
        return failed(name, error)
    return check(name, f"readable; the chain of the newest {len(rows)} runs holds")


def follow_chain(entries: Sequence[Entry], head_hash: str) -> None:
    """Whether each entry hangs on the one before it, up to the head.

    The hash of each entry was checked against its stored bytes when it was read.

    Raises:
        BrokenChain: an entry is missing or hangs on another.
    """
    last = ""
    for version, entry in enumerate(entries):
        chain.follow(entry, version, last)
        last = entry.hash
    if last != head_hash:
        where = chain.place(entries[0].run_id, len(entries)) if entries else "a run without entries"
        message = f"{where}: the journal ends before its head"
        raise BrokenChain(message)


async def due_runs(ask: Ask, tenant: str, process: str) -> dict[str, RunRow]:
    """Open runs of a tenant that want a drive and that no live process owns, by id."""
    due = await ask(Due(process=process, limit=_MOST_RUNS))
    wanted = {run.run_id for run in due.runs if _is_wanted(run, tenant)}
    if not wanted:
        return {}
    rows = (await ask(ListRuns(tenant=tenant, limit=_MOST_RUNS))).rows
    return {row.run_id: row for row in rows if row.run_id in wanted}


def _is_wanted(run: DueRun, tenant: str) -> bool:
    return run.tenant == tenant and run.need == "drive"


def check_owners(
    first: dict[str, RunRow], second: dict[str, RunRow], now: Timestamp, waited_s: float
) -> View:
    """Runs that nobody drives, judged by two looks some time apart.

    A run between two owners, or one that waits for a free slot since a moment, is none.

    Args:
        first: What ``due_runs`` gave.
        second: What it gave later.
        now: The time of the second look.
        waited_s: Between the two.
    """
    name = "owners"
    lost = [
        run_id
        for run_id, row in second.items()
        if run_id in first
        and first[run_id].version == row.version
        and (row.owner is not None or now - row.updated_at > STUCK_S)
    ]
    if not lost:
        return check(name, "every run that wants a drive has a live owner")
    named = ", ".join(sorted(lost)[:3])
    detail = f"{len(lost)} runs had no live owner for {waited_s:g} s: {named}"
    return check(name, detail, is_ok=False, hint="is an orchestrator running? treadle actors")
