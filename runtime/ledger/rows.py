"""Tables of the SQL back ends: the schema, its migrations, the columns of a run.

A row struct is stored as its msgspec JSON (``doc``) beside the columns that indexes need. Two
tables are kept apart from that: a run's columns are read and written at every append and its
summary is only ever replaced, and a journal row is exactly the bytes that were hashed.

An index costs every write that changes one of its columns, so none holds a column that an ordinary
append changes; ``due_at`` is what Due scans by and moves only when a run waits, wakes or ends.
"""

from typing import Any

from messages.status import Status
from runtime.ledger.tables import RunHead

Row = tuple[Any, ...]

RUN_COLUMNS = RunHead.__struct_fields__
"""In the order of the struct, so that a fetched row builds it."""
RUN_KEY = ("tenant", "run_id")
INDEXED_COLUMNS = ("due_at", "published", "parent", "created_at")
"""Run columns that stand in an index: an update that leaves them alone costs a third less."""

MIGRATIONS: dict[int, tuple[str, ...]] = {
    1: (
        """CREATE TABLE runs (
            tenant TEXT NOT NULL, run_id TEXT NOT NULL, status TEXT NOT NULL,
            is_clean INTEGER NOT NULL, version INTEGER NOT NULL, head_hash TEXT NOT NULL,
            append_id TEXT NOT NULL, agent TEXT NOT NULL, principal TEXT NOT NULL, until REAL,
            owner TEXT, take_id TEXT, deaths INTEGER NOT NULL, created_at REAL NOT NULL,
            updated_at REAL NOT NULL, published TEXT NOT NULL, parent TEXT, continues TEXT,
            origin TEXT NOT NULL, due_at REAL, is_open INTEGER NOT NULL, summary BLOB NOT NULL,
            UNIQUE (tenant, run_id))""",
        "CREATE INDEX runs_newest ON runs (tenant, created_at, run_id)",
        "CREATE INDEX runs_open ON runs (tenant, created_at, run_id) WHERE is_open = 1",
        """CREATE INDEX runs_due ON runs (created_at, tenant, run_id, due_at)
            WHERE due_at IS NOT NULL""",
        """CREATE INDEX runs_published ON runs (published, created_at, tenant, run_id)
            WHERE is_open = 0""",
        "CREATE INDEX runs_parent ON runs (tenant, parent, created_at) WHERE parent IS NOT NULL",
        """CREATE TABLE journal (
            tenant TEXT NOT NULL, run_id TEXT NOT NULL, version INTEGER NOT NULL,
            hash TEXT NOT NULL, body BLOB NOT NULL,
            UNIQUE (tenant, run_id, version))""",
        """CREATE TABLE effects (
            tenant TEXT NOT NULL, key TEXT NOT NULL, run_id TEXT NOT NULL, state TEXT NOT NULL,
            updated_at REAL NOT NULL, doc BLOB NOT NULL,
            UNIQUE (tenant, key))""",
        "CREATE INDEX effects_run ON effects (tenant, run_id)",
        "CREATE INDEX effects_newest ON effects (tenant, updated_at, key)",
        "CREATE INDEX effects_unknown ON effects (tenant, updated_at, key) WHERE state = 'unknown'",
        """CREATE TABLE approvals (
            tenant TEXT NOT NULL, id TEXT NOT NULL, run_id TEXT NOT NULL, state TEXT NOT NULL,
            requested_at REAL NOT NULL, doc BLOB NOT NULL,
            UNIQUE (tenant, id))""",
        "CREATE INDEX approvals_run ON approvals (tenant, run_id, requested_at, id)",
        "CREATE INDEX approvals_oldest ON approvals (tenant, requested_at, id)",
        """CREATE INDEX approvals_pending ON approvals (tenant, requested_at, id)
            WHERE state = 'pending'""",
        """CREATE TABLE questions (
            tenant TEXT NOT NULL, id TEXT NOT NULL, run_id TEXT NOT NULL, state TEXT NOT NULL,
            doc BLOB NOT NULL,
            UNIQUE (tenant, id))""",
        "CREATE INDEX questions_run ON questions (tenant, run_id)",
        """CREATE TABLE signals (
            tenant TEXT NOT NULL, run_id TEXT NOT NULL, id INTEGER NOT NULL, doc BLOB NOT NULL,
            PRIMARY KEY (tenant, run_id, id)) WITHOUT ROWID""",
        """CREATE TABLE holds (
            tenant TEXT NOT NULL, agent TEXT NOT NULL, doc BLOB NOT NULL,
            PRIMARY KEY (tenant, agent)) WITHOUT ROWID""",
        """CREATE TABLE processes (
            process TEXT PRIMARY KEY, lease_s REAL NOT NULL, expires_at REAL NOT NULL
            ) WITHOUT ROWID""",
        """CREATE TABLE artifacts (
            tenant TEXT NOT NULL, sha256 TEXT NOT NULL, part INTEGER NOT NULL,
            parts INTEGER NOT NULL, is_whole INTEGER NOT NULL, data BLOB NOT NULL,
            UNIQUE (tenant, sha256, part))""",
        # What is given out once and never again: signal ids, the ledger's time.
        "CREATE TABLE marks (name TEXT PRIMARY KEY, value REAL NOT NULL) WITHOUT ROWID",
        "INSERT INTO marks VALUES ('signal', 0), ('clock', 0)",
    ),
}
"""Numbered, forward only: a released one is never edited, the next number changes what it made."""

SCHEMA_VERSION = max(MIGRATIONS)


def head_of(row: Row) -> RunHead:
    """The struct of a row of ``RUN_COLUMNS``."""
    tenant, run_id, status, is_clean, *rest = row
    return RunHead(tenant, run_id, Status(status), bool(is_clean), *rest)
