"""What a file has to survive: kill -9 and tampering. And what no statement may cost."""

import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from messages.base import Failure
from messages.errors import BrokenChain
from messages.ledger import (
    Created,
    Due,
    DueRuns,
    Entry,
    ListApprovals,
    ListEffects,
    ListRuns,
    Load,
    Loaded,
    Refused,
    Renew,
    RunCursor,
    SendSignal,
    Signal,
    Take,
    TallyRuns,
)
from messages.status import Status
from runtime.clock import FakeClock
from runtime.ledger import chain
from runtime.ledger.port import Ledger
from runtime.ledger.sqlite import SqliteLedger
from runtime.ledger.sqlite_store import SqliteStore
from tests.contract import ledger_file
from tests.contract.ledger_file import LOAD, ROOT, sql
from tests.contract.ledger_kit import TENANT, Desk, born, is_a, opened

desk = ledger_file.desk


# ------------------------------------------------------------------ crashes
WRITER = """
import sys, time
from pathlib import Path
from messages.events import Resumed
from messages.ledger import Append, Summary, Take
from messages.status import Status
from runtime.ledger.sqlite_store import SqliteStore
from tests.contract import ledger_file
from tests.contract.ledger_file import LOAD, ROOT, blob, inside, sql
from tests.contract.ledger_kit import TENANT, born

store = SqliteStore.open(Path(sys.argv[1]), time.time)
runs = [f"r{n}" for n in range(4)]
heads = {}
store.commit([born(run) for run in runs])
for run in runs:
    take = Take(tenant=TENANT, run_id=run, process=sys.argv[2], take_id="t")
    (taken,) = store.commit([take])
    heads[run] = (taken.version, taken.head_hash)
while True:
    ops = [
        Append(tenant=TENANT, run_id=run, version=version + 1, append_id=f"{version}",
               prev_hash=head, process=sys.argv[2], take_id="t", active_s=0.0,
               events=(Resumed(why="x" * 2000),),
               summary=Summary(agent="a", status=Status.RUNNING))
        for run, (version, head) in heads.items()
    ]
    for op, answer in zip(ops, store.commit(ops)):
        heads[op.run_id] = (answer.version, answer.hash)
        print(op.run_id, answer.version, answer.hash, flush=True)
"""
ACKNOWLEDGED = re.compile(rb"^(r\d) (\d+) ([0-9a-f]{64})$", re.MULTILINE)


async def test_g5_every_acknowledged_version_survives_kill_9(data_dir: Path) -> None:
    path = data_dir / "ledger.db"
    for number in range(5):
        said = await killed_writer(path, f"p{number}", lines=40 + 37 * number)
        clock = FakeClock(4_000_000_000.0)
        async with opened(path, clock) as ledger:
            for run_id, (version, entry_hash) in said.items():
                (answer,) = await ledger.apply(
                    [Load(tenant=TENANT, run_id=run_id, after=version - 1)]
                )
                loaded = is_a(answer, Loaded)
                assert loaded.entries[0].hash == entry_hash
                await whole_journal(ledger, run_id)
            await ledger.apply([Renew(process=f"p{number}", lease_s=0.0)])


async def killed_writer(path: Path, process: str, lines: int) -> dict[str, tuple[int, str]]:
    """Run a writer until it has acknowledged so many appends, kill it, say what it had said."""
    command = [sys.executable, "-c", WRITER, str(path), process]
    async with await anyio.open_process(command, cwd=ROOT, stderr=None) as writer:
        assert writer.stdout is not None
        heard = b""
        while heard.count(b"\n") < lines:
            heard += await writer.stdout.receive()
        writer.send_signal(signal.SIGKILL)
        async for chunk in writer.stdout:
            heard += chunk
    return {
        run.decode(): (int(version), entry_hash.decode())
        for run, version, entry_hash in ACKNOWLEDGED.findall(heard)
    }


async def whole_journal(ledger: Ledger, run_id: str) -> None:
    entries: list[Entry] = []
    is_partial, head_hash = True, ""
    while is_partial:
        after = entries[-1].version if entries else -1
        (answer,) = await ledger.apply([Load(tenant=TENANT, run_id=run_id, after=after)])
        page = is_a(answer, Loaded)
        entries += page.entries
        is_partial, head_hash = page.is_partial, page.row.head_hash
    chain.verify(entries, head_hash=head_hash)


# ------------------------------------------------------------------ tampering
TAMPERINGS: dict[str, str] = {
    "a changed value": "UPDATE journal SET body = replace(body, 'test', 'best') WHERE version = 2",
    "a changed hash": "UPDATE journal SET hash = replace(hash, substr(hash, 1, 4), '0000') "
    "WHERE version = 2",
    "a missing entry": "DELETE FROM journal WHERE version = 2",
    "a missing end": "DELETE FROM journal WHERE version = 3",
    "swapped entries": "UPDATE journal SET version = CASE version WHEN 1 THEN -2 ELSE -1 END "
    "WHERE version IN (1, 2)",
    "bytes that are no entry": "UPDATE journal SET body = CAST('{}' AS BLOB) WHERE version = 0",
    "another head": "UPDATE runs SET head_hash = 'f' || substr(head_hash, 2)",
}


@pytest.mark.parametrize("statement", TAMPERINGS.values(), ids=TAMPERINGS.keys())
async def test_g23_a_tampered_journal_is_found_and_other_runs_go_on(
    desk: Desk, statement: str
) -> None:
    hand = await desk.hand()
    for _ in range(3):
        await hand.append()
    await desk.ledger.close()
    await sql(desk.path, statement)
    await sql(desk.path, "UPDATE journal SET version = -version WHERE version < 0")
    async with opened(desk.path, desk.clock) as ledger:
        take = Take(tenant=TENANT, run_id="r1", process="p2", take_id="t2")
        desk.clock.advance(10.0)
        loaded, taken, other = await ledger.apply([LOAD, take, born("r2")])
        assert is_a(loaded, Failure).code == BrokenChain.code
        assert is_a(taken, Refused).why == BrokenChain.code
        is_a(other, Created)
        (due,) = await ledger.apply([Due(process="p2", limit=9)])
        assert [run.run_id for run in is_a(due, DueRuns).runs] == ["r2"]
        signal_it = SendSignal(tenant=TENANT, run_id="r1", signal=Signal(kind="resume"))
        _, due = await ledger.apply([signal_it, Due(process="p2", limit=9)])
        assert [run.run_id for run in is_a(due, DueRuns).runs] == ["r1", "r2"]


# ------------------------------------------------------------------ cost
def hot_statements() -> dict[str, Callable[[SqliteStore], object]]:
    tenant, cursor = TENANT, RunCursor(created_at=9.0, run_id="r")
    return {
        "due": lambda s: s.commit([Due(process="p", limit=5, stream="s1")]),
        "runs": lambda s: s.commit([ListRuns(tenant=tenant)]),
        "all runs": lambda s: s.commit([ListRuns(tenant=tenant, statuses=(Status.FAILED,))]),
        "counts": lambda s: s.commit([TallyRuns(tenant=tenant, until=9.0, after=cursor)]),
        "keys": lambda s: s.commit([ListEffects(tenant=tenant)]),
        "unknown keys": lambda s: s.commit([ListEffects(tenant=tenant, is_unresolved_only=True)]),
        "approvals": lambda s: s.commit([ListApprovals(tenant=tenant)]),
        "approvals of a run": lambda s: s.commit([ListApprovals(tenant=tenant, run_id="r1")]),
        "load": lambda s: s.commit([LOAD]),
        "take": lambda s: s.commit([Take(tenant=tenant, run_id="r1", process="p", take_id="t")]),
    }


@pytest.mark.parametrize("name", hot_statements())
async def test_no_statement_walks_a_table_or_sorts(desk: Desk, name: str) -> None:
    await desk.ask(born())
    ledger = is_a(desk.ledger, SqliteLedger)
    seen: set[str] = set()

    def run() -> list[str]:
        db = ledger._store.connection
        db.set_trace_callback(seen.add)
        hot_statements()[name](ledger._store)
        db.set_trace_callback(None)
        selects = [statement for statement in seen if statement.startswith("SELECT")]
        assert selects
        return [str(row) for s in selects for row in db.execute(f"EXPLAIN QUERY PLAN {s}")]

    plans = await ledger._in_thread(run)
    for plan in plans:
        assert "TEMP B-TREE" not in plan, plan
        # Holds and processes are few; walking an index in order is what Due and listings want.
        is_walk = "SCAN" in plan and "USING" not in plan
        assert not is_walk or "holds" in plan or "processes" in plan, plan
