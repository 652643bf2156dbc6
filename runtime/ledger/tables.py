"""What the rules see of a database: rows inside one open transaction.

Synchronous on purpose. A back end runs a whole group of operations in one place (SQLite: one hop
to its thread; memory: in line), and the rules read and write rows without knowing which. SQLite,
memory, the simulator and later PostgreSQL implement this.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from messages.ledger import (
    ApprovalRow,
    EffectRow,
    HoldRow,
    QuestionRow,
    RunRow,
    Signal,
    Summary,
)
from messages.status import Status


class RunHead(msgspec.Struct, frozen=True):
    """The columns of a run that the rules decide by; the summary is stored apart from them.

    Field order is column order. An append reads and writes these without touching the JSON of the
    summary it replaces.
    """

    tenant: str
    run_id: str
    status: Status
    is_clean: bool
    version: int
    head_hash: str
    append_id: str
    """Of the head entry: repeating it is answered again."""
    agent: str
    principal: str
    until: float | None
    owner: str | None
    take_id: str | None
    deaths: int
    created_at: float
    updated_at: float
    published: str
    parent: str | None
    continues: str | None
    origin: str
    due_at: float | None
    """From when on a drive may be wanted (0: always; None: never): what Due has to look at."""


class StoredEntry(msgspec.Struct, frozen=True):
    """One journal row as it lies there."""

    version: int
    hash: str
    body: bytes


class ProcessRow(msgspec.Struct, frozen=True):
    """One orchestrator process and how long it is taken to be alive."""

    process: str
    lease_s: float
    expires_at: float


class ArtifactHead(msgspec.Struct, frozen=True):
    """How much of an artifact is there."""

    parts: int
    kept: int
    is_whole: bool
    """All parts are there and hash to its name."""


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a listing of runs can leave to the database."""

    is_open_only: bool = False
    statuses: tuple[Status, ...] = ()
    """As stored, so never QUEUED; empty: any."""
    agent: str | None = None
    since: float = 0.0
    """Created then or later."""
    until: float | None = None
    """Created before then."""
    after: tuple[float, str] | None = None
    """Creation time and run id of the last run of the page before."""


class Tables(Protocol):
    """Rows of one transaction. Nothing here decides anything."""

    # ---- runs and journal
    def run(self, tenant: str, run_id: str) -> RunHead | None:
        """The columns of a run."""
        ...

    def summary(self, tenant: str, run_id: str) -> Summary:
        """The summary of a run that exists."""
        ...

    def insert_run(self, head: RunHead, summary: Summary) -> None:
        """A new run."""
        ...

    def update_run(self, old: RunHead, new: RunHead, summary: Summary | None = None) -> None:
        """Replace ``old``, as read in this transaction; None leaves the summary as it is."""
        ...

    def insert_entry(self, tenant: str, run_id: str, entry: StoredEntry) -> None:
        """A new journal row."""
        ...

    def entries(self, tenant: str, run_id: str, after: int, upto: int) -> Iterable[StoredEntry]:
        """Versions above ``after`` up to and including ``upto``, in order."""
        ...

    def children(self, tenant: str, run_id: str) -> Sequence[RunHead]:
        """Runs whose parent this is, oldest first."""
        ...

    def newest_runs(self, tenant: str, like: RunFilter) -> Iterable[RunRow]:
        """Runs of a tenant that match, newest first."""
        ...

    def due_runs(self, now: float, process: str) -> Iterable[RunHead]:
        """Runs whose ``due_at`` has come, owned by nobody alive but ``process``, oldest first."""
        ...

    def unpublished_runs(self, stream: str, limit: int) -> Sequence[RunHead]:
        """Terminal runs whose ``published`` is not ``stream``, oldest of each stream first."""
        ...

    # ---- effects
    def effect(self, tenant: str, key: str) -> EffectRow | None:
        """One key."""
        ...

    def put_effect(self, row: EffectRow) -> None:
        """Insert or replace one key."""
        ...

    def effects_of(self, tenant: str, run_id: str) -> Sequence[EffectRow]:
        """The keys a run holds or held last."""
        ...

    def newest_effects(self, tenant: str, *, is_unresolved_only: bool) -> Iterable[EffectRow]:
        """Keys of a tenant, last changed first."""
        ...

    # ---- people
    def approval(self, tenant: str, approval_id: str) -> ApprovalRow | None:
        """One approval."""
        ...

    def put_approval(self, row: ApprovalRow) -> None:
        """Insert or replace one approval."""
        ...

    def oldest_approvals(
        self, tenant: str, *, run_id: str | None, is_pending_only: bool
    ) -> Iterable[ApprovalRow]:
        """Approvals of a tenant, oldest first."""
        ...

    def question(self, tenant: str, question_id: str) -> QuestionRow | None:
        """One question."""
        ...

    def put_question(self, row: QuestionRow) -> None:
        """Insert or replace one question."""
        ...

    def questions_of(self, tenant: str, run_id: str) -> Sequence[QuestionRow]:
        """The questions of a run."""
        ...

    def signals(self, tenant: str, run_id: str) -> Sequence[Signal]:
        """Pending signals of a run, by id."""
        ...

    def add_signal(self, tenant: str, run_id: str, signal: Signal) -> Signal:
        """Store a signal under a new id, larger than every id given before."""
        ...

    def drop_signals(self, tenant: str, run_id: str, ids: Iterable[int]) -> None:
        """Forget these signals of the run."""
        ...

    def holds(self) -> Sequence[HoldRow]:
        """Every hold there is: they are few."""
        ...

    def put_hold(self, row: HoldRow) -> None:
        """Insert or replace a hold."""
        ...

    def drop_hold(self, tenant: str, agent: str) -> None:
        """Forget a hold."""
        ...

    # ---- processes
    def process(self, process: str) -> ProcessRow | None:
        """One orchestrator process."""
        ...

    def put_process(self, row: ProcessRow) -> None:
        """Insert or replace a process."""
        ...

    def drop_process(self, process: str) -> None:
        """Forget a process."""
        ...

    def drop_processes_before(self, expired: float) -> None:
        """Forget those that expired before then."""
        ...

    # ---- artifacts
    def artifact(self, tenant: str, sha256: str) -> ArtifactHead | None:
        """How much of it is there."""
        ...

    def put_part(self, tenant: str, sha256: str, part: int, parts: int, data: bytes) -> None:
        """Insert or replace one part of an artifact that is not whole yet."""
        ...

    def part(self, tenant: str, sha256: str, part: int) -> bytes | None:
        """The bytes of one part."""
        ...

    def mark_whole(self, tenant: str, sha256: str) -> None:
        """Its hash has been checked."""
        ...

    def drop_artifact(self, tenant: str, sha256: str) -> None:
        """Forget its parts."""
        ...
