"""Laws under any interleaving: owners race, messages repeat, time passes, both ledgers agree."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from messages.base import Failure
from messages.ledger import (
    AnyLedgerRequest,
    ClaimRecord,
    Due,
    ListApprovals,
    ListEffects,
    ListRuns,
    Load,
    Loaded,
    TallyRuns,
)
from messages.status import Status  # noqa: TC001 -- one style of import in all tests
from runtime.clock import FakeClock
from runtime.ledger import chain
from runtime.ledger.memory import MemoryLedger
from runtime.ledger.sqlite_store import SqliteStore
from tests.contract.ledger_kit import (
    TENANT,
    born,
)
from tests.contract.ledger_schedule import RUNS, Schedule, Step, plans

LEGAL = {
    None: {"intended"},
    "free": {"free", "intended", "done"},
    "intended": {"intended", "started", "free", "done", "unknown"},
    "started": {"started", "intended", "free", "done", "unknown"},
    "unknown": {"unknown", "done", "free"},
    "done": {"done"},
}
"""Where a key may go from where it is; done is final."""


class Watch:
    """What must hold after every operation, whatever it was."""

    def __init__(self, memory: MemoryLedger) -> None:
        self.tables = memory.tables
        self.hashes: dict[tuple[str, int], str] = {}
        self.states: dict[tuple[str, str], str] = {}
        self.done: dict[tuple[str, str], object] = {}
        self.claims: dict[tuple[str, str], tuple[ClaimRecord, ...]] = {}
        self.ended: dict[tuple[str, str], tuple[int, Status]] = {}

    def look(self) -> None:
        self.history_is_single()
        self.terminal_is_final()
        self.keys_move_legally()

    def history_is_single(self) -> None:
        for (_, run_id), rows in self.tables.journal.items():
            assert [row.version for row in rows] == list(range(len(rows)))
            for row in rows:
                assert self.hashes.setdefault((run_id, row.version), row.hash) == row.hash
        for (tenant, run_id), head in self.tables.runs.items():
            assert head.version == len(self.tables.journal[tenant, run_id]) - 1
            assert head.head_hash == self.tables.journal[tenant, run_id][-1].hash

    def terminal_is_final(self) -> None:
        for place, head in self.tables.runs.items():
            if head.status.is_terminal:
                ended = (head.version, head.status)
                assert self.ended.setdefault(place, ended) == ended
                assert head.owner is None
                assert not self.tables.pending.get(place)
            else:
                assert place not in self.ended

    def keys_move_legally(self) -> None:
        assert self.states.keys() <= self.tables.keys.keys(), "no key is ever forgotten"
        for place, row in self.tables.keys.items():
            assert row.state in LEGAL[self.states.get(place)], (self.states.get(place), row)
            self.states[place] = row.state
            if row.state == "done":
                assert self.done.setdefault(place, row) == row
            before = self.claims.get(place, ())
            is_second = bool(before) and row.claims[: len(before)] == before != row.claims
            assert not (is_second and row.effect != "replay"), row
            self.claims[place] = row.claims
            is_over = place[0] == TENANT and (TENANT, row.run_id) in self.ended
            assert not (is_over and row.state in {"intended", "started"})


def image(memory: MemoryLedger) -> tuple[object, ...]:
    """Everything a duplicate must leave as it is; leases may be renewed."""
    t = memory.tables
    parts = (t.runs, t.summaries, t.journal, t.keys, t.approvals, t.open_questions, t.pauses)
    pending = {place: rows for place, rows in t.pending.items() if rows}
    return (*(dict(part) for part in parts), pending)


def listings() -> Iterator[AnyLedgerRequest]:
    yield ListRuns(tenant=TENANT, is_open_only=False)
    yield ListRuns(tenant=TENANT)
    yield TallyRuns(tenant=TENANT, by=("agent",), limit=2)
    yield ListEffects(tenant=TENANT)
    yield ListEffects(tenant=TENANT, is_unresolved_only=True)
    yield ListApprovals(tenant=TENANT, is_pending_only=False)
    yield Due(process="p1", limit=9, stream="s1")
    for run_id in (*RUNS, "child"):
        yield Load(tenant=TENANT, run_id=run_id)


def start(schedule: Schedule, memory: MemoryLedger) -> list[AnyLedgerRequest]:
    """Two runs, each known to every racer, so that a schedule need not begin with that."""
    ops: list[AnyLedgerRequest] = [born(run_id) for run_id in RUNS]
    memory.apply_now(ops)
    for (_, run_id), racer in schedule.racers.items():
        if run_id in RUNS:
            racer.head_hash = memory.tables.runs[TENANT, run_id].head_hash
    return ops


@settings(max_examples=300, deadline=None)
@given(plans)
def test_no_interleaving_forks_a_run_revives_it_or_moves_a_key_wrongly(plan: list[Step]) -> None:
    clock = FakeClock()
    memory = MemoryLedger(clock.now)
    schedule = Schedule(clock, memory)
    watch = Watch(memory)
    start(schedule, memory)
    for step in plan:
        op = schedule.operation(step)
        if op is None:
            continue
        (answer,) = memory.apply_now([op])
        assert not isinstance(answer, Failure)
        schedule.sent.append(op)
        schedule.told(op, answer)
        watch.look()
    for run_id in (*RUNS, "child"):
        (loaded,) = memory.apply_now([Load(tenant=TENANT, run_id=run_id)])
        if isinstance(loaded, Loaded):
            chain.verify(loaded.entries, head_hash=loaded.row.head_hash)


@settings(max_examples=200, deadline=None)
@given(plans)
def test_a_duplicate_of_any_operation_changes_nothing(plan: list[Step]) -> None:
    clock = FakeClock()
    memory = MemoryLedger(clock.now)
    schedule = Schedule(clock, memory)
    start(schedule, memory)
    for step in plan:
        op = schedule.operation(step)
        if op is None:
            continue
        (answer,) = memory.apply_now([op])
        schedule.told(op, answer)
        before = image(memory)
        memory.apply_now([op])
        assert image(memory) == before


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans, st.integers(1, 5))
def test_memory_and_sqlite_give_the_same_answers(plan: list[Step], size: int) -> None:
    clock = FakeClock()
    memory = MemoryLedger(clock.now)
    schedule = Schedule(clock, memory)
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore.open(Path(folder) / "ledger.db", clock.now)
        try:
            store.commit(start(schedule, memory))
            group: list[AnyLedgerRequest] = []
            for step in plan:
                op = schedule.operation(step)
                if op is not None:
                    group.append(op)
                if op is None or len(group) == size:
                    same_answers(schedule, memory, store, group)
                    group = []
            same_answers(schedule, memory, store, [*group, *listings()])
        finally:
            store.close()


def same_answers(
    schedule: Schedule, memory: MemoryLedger, store: SqliteStore, group: list[AnyLedgerRequest]
) -> None:
    answers = memory.apply_now(group)
    assert store.commit(group) == answers
    for op, answer in zip(group, answers, strict=True):
        assert not isinstance(answer, Failure)
        schedule.sent.append(op)
        schedule.told(op, answer)
