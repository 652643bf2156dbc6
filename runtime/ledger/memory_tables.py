"""Tables in memory, with an undo log for the operation that is being carried out."""

# ruff: noqa: D102 -- Tables documents the methods
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from messages.ledger import (
    ApprovalRow,
    EffectRow,
    HoldRow,
    QuestionRow,
    RunRow,
    Signal,
    Summary,
)
from runtime.ledger.rules.queries import row_of
from runtime.ledger.tables import ArtifactHead, ProcessRow, RunFilter, RunHead, StoredEntry

K = TypeVar("K")
V = TypeVar("V")

RunKey = tuple[str, str]


class MemoryTables:
    """Implements ``Tables`` over dictionaries.

    Journal entries are kept as the bytes that were hashed, as on disk, so this fake neither shares
    mutable values with its callers nor forgives a broken chain.
    """

    def __init__(self) -> None:
        self.runs: dict[RunKey, RunHead] = {}
        self.summaries: dict[RunKey, Summary] = {}
        self.journal: dict[RunKey, tuple[StoredEntry, ...]] = {}
        self.keys: dict[tuple[str, str], EffectRow] = {}
        self.approvals: dict[tuple[str, str], ApprovalRow] = {}
        self.open_questions: dict[tuple[str, str], QuestionRow] = {}
        self.pending: dict[RunKey, tuple[Signal, ...]] = {}
        self.pauses: dict[tuple[str, str], HoldRow] = {}
        self.processes: dict[str, ProcessRow] = {}
        self.parts: dict[tuple[str, str, int], tuple[int, bytes]] = {}
        self.whole: dict[tuple[str, str], bool] = {}
        self.last_signal: dict[str, int] = {"id": 0}
        self._undo: list[Callable[[], object]] = []

    # ---- transactions
    def begin(self) -> None:
        """From here on ``undo`` goes back to this state."""
        self._undo.clear()

    def undo(self) -> None:
        """Take back everything since ``begin``, newest first."""
        while self._undo:
            self._undo.pop()()

    def _set(self, table: dict[K, V], key: K, value: V) -> None:
        if key in table:
            old = table[key]
            self._undo.append(lambda: table.__setitem__(key, old))
        else:
            self._undo.append(lambda: table.pop(key))
        table[key] = value

    def _drop(self, table: dict[K, V], key: K) -> None:
        if key in table:
            old = table.pop(key)
            self._undo.append(lambda: table.__setitem__(key, old))

    # ---- runs and journal
    def run(self, tenant: str, run_id: str) -> RunHead | None:
        return self.runs.get((tenant, run_id))

    def summary(self, tenant: str, run_id: str) -> Summary:
        return self.summaries[tenant, run_id]

    def insert_run(self, head: RunHead, summary: Summary) -> None:
        self._set(self.runs, (head.tenant, head.run_id), head)
        self._set(self.summaries, (head.tenant, head.run_id), summary)

    def update_run(self, old: RunHead, new: RunHead, summary: Summary | None = None) -> None:
        self._set(self.runs, (old.tenant, old.run_id), new)
        if summary is not None:
            self._set(self.summaries, (old.tenant, old.run_id), summary)

    def insert_entry(self, tenant: str, run_id: str, entry: StoredEntry) -> None:
        entries = self.journal.get((tenant, run_id), ())
        self._set(self.journal, (tenant, run_id), (*entries, entry))

    def entries(self, tenant: str, run_id: str, after: int, upto: int) -> Iterator[StoredEntry]:
        entries = self.journal.get((tenant, run_id), ())
        return (entry for entry in entries if after < entry.version <= upto)

    def children(self, tenant: str, run_id: str) -> Sequence[RunHead]:
        return [r for r in self._runs_of(tenant) if r.parent == run_id]

    def newest_runs(self, tenant: str, like: RunFilter) -> Iterable[RunRow]:
        for head in reversed(self._runs_of(tenant)):
            is_status = not like.statuses or head.status in like.statuses
            is_agent = like.agent in (None, head.agent)
            is_open = not (like.is_open_only and head.status.is_terminal)
            if is_status and is_agent and is_open and _is_within(head, like):
                yield row_of(head, self.summaries[tenant, head.run_id])

    def due_runs(self, now: float, process: str) -> Iterable[RunHead]:
        alive = {p.process for p in self.processes.values() if p.expires_at > now} - {process}
        due = [
            r
            for r in self.runs.values()
            if r.due_at is not None and r.due_at <= now and r.owner not in alive
        ]
        return sorted(due, key=lambda r: (r.created_at, r.tenant, r.run_id))

    def unpublished_runs(self, stream: str, limit: int) -> Sequence[RunHead]:
        missing = [r for r in self.runs.values() if r.status.is_terminal and r.published != stream]
        order = sorted(missing, key=lambda r: (r.published, r.created_at, r.tenant, r.run_id))
        return order[:limit]

    def _runs_of(self, tenant: str) -> list[RunHead]:
        mine = [r for r in self.runs.values() if r.tenant == tenant]
        return sorted(mine, key=lambda r: (r.created_at, r.run_id))

    # ---- effects
    def effect(self, tenant: str, key: str) -> EffectRow | None:
        return self.keys.get((tenant, key))

    def put_effect(self, row: EffectRow) -> None:
        self._set(self.keys, (row.tenant, row.key), row)

    def effects_of(self, tenant: str, run_id: str) -> Sequence[EffectRow]:
        mine = [r for r in self.keys.values() if (r.tenant, r.run_id) == (tenant, run_id)]
        return sorted(mine, key=lambda r: r.key)

    def newest_effects(self, tenant: str, *, is_unresolved_only: bool) -> Iterable[EffectRow]:
        mine = [r for r in self.keys.values() if r.tenant == tenant]
        if is_unresolved_only:
            mine = [r for r in mine if r.state == "unknown"]
        return sorted(mine, key=lambda r: (r.updated_at, r.key), reverse=True)

    # ---- people
    def approval(self, tenant: str, approval_id: str) -> ApprovalRow | None:
        return self.approvals.get((tenant, approval_id))

    def put_approval(self, row: ApprovalRow) -> None:
        self._set(self.approvals, (row.tenant, row.id), row)

    def oldest_approvals(
        self, tenant: str, *, run_id: str | None, is_pending_only: bool
    ) -> Iterable[ApprovalRow]:
        mine = [
            r
            for r in self.approvals.values()
            if r.tenant == tenant
            and run_id in (None, r.run_id)
            and not (is_pending_only and r.state != "pending")
        ]
        return sorted(mine, key=lambda r: (r.requested_at, r.id))

    def question(self, tenant: str, question_id: str) -> QuestionRow | None:
        return self.open_questions.get((tenant, question_id))

    def put_question(self, row: QuestionRow) -> None:
        self._set(self.open_questions, (row.tenant, row.id), row)

    def questions_of(self, tenant: str, run_id: str) -> Sequence[QuestionRow]:
        rows = self.open_questions.values()
        mine = [r for r in rows if (r.tenant, r.run_id) == (tenant, run_id)]
        return sorted(mine, key=lambda r: r.id)

    def signals(self, tenant: str, run_id: str) -> Sequence[Signal]:
        return self.pending.get((tenant, run_id), ())

    def add_signal(self, tenant: str, run_id: str, signal: Signal) -> Signal:
        self._set(self.last_signal, "id", self.last_signal["id"] + 1)
        stored = replace(signal, id=self.last_signal["id"])
        self._set(self.pending, (tenant, run_id), (*self.signals(tenant, run_id), stored))
        return stored

    def drop_signals(self, tenant: str, run_id: str, ids: Iterable[int]) -> None:
        gone = set(ids)
        left = tuple(s for s in self.signals(tenant, run_id) if s.id not in gone)
        self._set(self.pending, (tenant, run_id), left)

    def holds(self) -> Sequence[HoldRow]:
        return list(self.pauses.values())

    def put_hold(self, row: HoldRow) -> None:
        self._set(self.pauses, (row.tenant, row.agent), row)

    def drop_hold(self, tenant: str, agent: str) -> None:
        self._drop(self.pauses, (tenant, agent))

    # ---- processes
    def process(self, process: str) -> ProcessRow | None:
        return self.processes.get(process)

    def put_process(self, row: ProcessRow) -> None:
        self._set(self.processes, row.process, row)

    def drop_process(self, process: str) -> None:
        self._drop(self.processes, process)

    def drop_processes_before(self, expired: float) -> None:
        for row in list(self.processes.values()):
            if row.expires_at < expired:
                self._drop(self.processes, row.process)

    # ---- artifacts
    def artifact(self, tenant: str, sha256: str) -> ArtifactHead | None:
        kept = [
            parts
            for (t, name, _), (parts, _) in self.parts.items()
            if (t, name) == (tenant, sha256)
        ]
        if not kept:
            return None
        is_whole = self.whole.get((tenant, sha256), False)
        return ArtifactHead(kept[0], len(kept), is_whole)

    def put_part(self, tenant: str, sha256: str, part: int, parts: int, data: bytes) -> None:
        self._set(self.parts, (tenant, sha256, part), (parts, data))

    def part(self, tenant: str, sha256: str, part: int) -> bytes | None:
        found = self.parts.get((tenant, sha256, part))
        return found[1] if found else None

    def mark_whole(self, tenant: str, sha256: str) -> None:
        self._set(self.whole, (tenant, sha256), value=True)

    def drop_artifact(self, tenant: str, sha256: str) -> None:
        for key in [k for k in self.parts if k[:2] == (tenant, sha256)]:
            self._drop(self.parts, key)
        self._drop(self.whole, (tenant, sha256))


def _is_within(head: RunHead, like: RunFilter) -> bool:
    is_before = like.until is None or head.created_at < like.until
    is_further = like.after is None or (head.created_at, head.run_id) < like.after
    return head.created_at >= like.since and is_before and is_further
