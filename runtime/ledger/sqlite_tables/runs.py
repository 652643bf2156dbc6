"""Runs, their journal and the processes that own them."""

# ruff: noqa: D102, S608 -- Tables documents the methods; statements are made of constants only

from collections.abc import Iterable, Sequence
from operator import attrgetter

import msgspec

from messages.ledger import RunRow, Summary
from runtime.ledger.rows import INDEXED_COLUMNS, RUN_COLUMNS, RUN_KEY, head_of
from runtime.ledger.rules.queries import row_of
from runtime.ledger.sqlite_tables.statements import Statements, encode
from runtime.ledger.tables import ProcessRow, RunFilter, RunHead, StoredEntry

_COLUMNS = ", ".join(RUN_COLUMNS)
_CHANGING = tuple(
    name
    for name in RUN_COLUMNS
    if name not in {*RUN_KEY, *INDEXED_COLUMNS, "agent", "principal", "continues", "origin"}
)
"""What an ordinary append or take may change."""
_WAKING = (*_CHANGING, "due_at", "published")
"""What may change when a run waits, wakes, ends or is published."""
_changing_values = attrgetter(*_CHANGING)
_waking_values = attrgetter(*_WAKING)


def _update(columns: tuple[str, ...]) -> str:
    settings = ", ".join(f"{name} = ?" for name in columns)
    return f"UPDATE runs SET {settings} WHERE tenant = ? AND run_id = ?"


_UPDATES = {
    (False, False): _update(_CHANGING),
    (False, True): _update((*_CHANGING, "summary")),
    (True, False): _update((*_WAKING, "is_open")),
    (True, True): _update((*_WAKING, "is_open", "summary")),
}
"""By (an index is touched, the summary is replaced)."""
_INSERT_RUN = (
    f"INSERT INTO runs ({_COLUMNS}, is_open, summary) "
    f"VALUES ({', '.join('?' * (len(RUN_COLUMNS) + 2))})"
)
_RUN = f"SELECT {_COLUMNS} FROM runs WHERE tenant = ? AND run_id = ?"
_CHILDREN = (
    f"SELECT {_COLUMNS} FROM runs WHERE tenant = ? AND parent = ? ORDER BY created_at, run_id"
)
_NEWEST = f"SELECT {_COLUMNS}, summary FROM runs WHERE tenant = ? AND created_at >= ?"
_NEWEST_FIRST = " ORDER BY created_at DESC, run_id DESC"
_DUE = (
    f"SELECT {_COLUMNS} FROM runs WHERE due_at IS NOT NULL AND due_at <= ? "
    "AND (owner IS NULL OR owner = ? OR owner NOT IN "
    "(SELECT process FROM processes WHERE expires_at > ?)) "
    "ORDER BY created_at, tenant, run_id"
)
_UNPUBLISHED = (
    f"SELECT {_COLUMNS} FROM runs WHERE is_open = 0 AND published {{}} ? "
    "ORDER BY published, created_at, tenant, run_id LIMIT ?"
)

_read_summary = msgspec.json.Decoder(Summary).decode


class RunTables(Statements):
    """The part of ``Tables`` about runs."""

    def run(self, tenant: str, run_id: str) -> RunHead | None:
        row = self.one(_RUN, (tenant, run_id))
        return None if row is None else head_of(row)

    def summary(self, tenant: str, run_id: str) -> Summary:
        row = self.one("SELECT summary FROM runs WHERE tenant = ? AND run_id = ?", (tenant, run_id))
        if row is None:
            raise LookupError(run_id)
        return _read_summary(row[0])

    def insert_run(self, head: RunHead, summary: Summary) -> None:
        is_open = not head.status.is_terminal
        values = (*msgspec.structs.astuple(head), is_open, encode(summary))
        self.write(_INSERT_RUN, values)

    def update_run(self, old: RunHead, new: RunHead, summary: Summary | None = None) -> None:
        is_waking = (old.due_at, old.published) != (new.due_at, new.published)
        # A run that waits for nothing in particular ends without its due time changing.
        is_waking = is_waking or new.status.is_terminal
        values = _waking_values(new) if is_waking else _changing_values(new)
        if is_waking:
            values += (not new.status.is_terminal,)
        if summary is not None:
            values += (encode(summary),)
        sql = _UPDATES[is_waking, summary is not None]
        self.write(sql, (*values, old.tenant, old.run_id))

    def insert_entry(self, tenant: str, run_id: str, entry: StoredEntry) -> None:
        self.write(
            "INSERT INTO journal (tenant, run_id, version, hash, body) VALUES (?, ?, ?, ?, ?)",
            (tenant, run_id, entry.version, entry.hash, entry.body),
        )

    def entries(self, tenant: str, run_id: str, after: int, upto: int) -> Iterable[StoredEntry]:
        rows = self.each(
            "SELECT version, hash, CAST(body AS BLOB) FROM journal WHERE tenant = ? AND run_id = ? "
            "AND version > ? AND version <= ? ORDER BY version",
            (tenant, run_id, after, upto),
        )
        return (StoredEntry(*row) for row in rows)

    def children(self, tenant: str, run_id: str) -> Sequence[RunHead]:
        return [head_of(row) for row in self.all(_CHILDREN, (tenant, run_id))]

    def newest_runs(self, tenant: str, like: RunFilter) -> Iterable[RunRow]:
        sql = _NEWEST
        values: list[str | float] = [tenant, like.since, *like.statuses]
        if like.is_open_only:
            sql += " AND is_open = 1"
        if like.statuses:
            sql += f" AND status IN ({', '.join('?' * len(like.statuses))})"
        if like.agent is not None:
            sql += " AND agent = ?"
            values.append(like.agent)
        if like.until is not None:
            sql += " AND created_at < ?"
            values.append(like.until)
        if like.after is not None:
            sql += " AND (created_at, run_id) < (?, ?)"
            values += like.after
        rows = self.each(sql + _NEWEST_FIRST, tuple(values))
        return (row_of(head_of(row[:-1]), _read_summary(row[-1])) for row in rows)

    def due_runs(self, now: float, process: str) -> Iterable[RunHead]:
        return (head_of(row) for row in self.each(_DUE, (now, process, now)))

    def unpublished_runs(self, stream: str, limit: int) -> Sequence[RunHead]:
        # Two ranges of the index instead of an inequality, which would read every ended run.
        rows = self.all(_UNPUBLISHED.format("<"), (stream, limit))
        if len(rows) < limit:
            rows += self.all(_UNPUBLISHED.format(">"), (stream, limit - len(rows)))
        return [head_of(row) for row in rows]


class ProcessTables(Statements):
    """The part of ``Tables`` about processes, read once in a transaction."""

    _known: dict[str, ProcessRow | None] | None = None

    def begin(self) -> None:
        super().begin()
        self._known = None

    def process(self, process: str) -> ProcessRow | None:
        known = self._known = self._known or {}
        if process not in known:
            sql = "SELECT process, lease_s, expires_at FROM processes WHERE process = ?"
            row = self.one(sql, (process,))
            known[process] = None if row is None else ProcessRow(*row)
        return known[process]

    def put_process(self, row: ProcessRow) -> None:
        self._known = None
        self.write(
            "INSERT INTO processes (process, lease_s, expires_at) VALUES (?, ?, ?) "
            "ON CONFLICT (process) DO UPDATE SET lease_s = excluded.lease_s, "
            "expires_at = excluded.expires_at",
            (row.process, row.lease_s, row.expires_at),
        )

    def drop_process(self, process: str) -> None:
        self._known = None
        self.write("DELETE FROM processes WHERE process = ?", (process,))

    def drop_processes_before(self, expired: float) -> None:
        self._known = None
        self.write("DELETE FROM processes WHERE expires_at < ?", (expired,))
