"""What only a file can do: settings, locks, crashes, full disks, readers, tampering."""

import asyncio
import os
import sqlite3
import sys
import threading
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from anyio import to_thread

from messages.base import Failure
from messages.errors import AlreadyRunning, StorageError
from messages.ledger import (
    AnyLedgerAnswer,
    AnyLedgerRequest,
    Committed,
    Created,
    Done,
    ListRuns,
    Loaded,
    Renew,
)
from runtime.clock import FakeClock
from runtime.ledger import rows, rules, sqlite_store
from runtime.ledger.sqlite import SqliteLedger
from runtime.ledger.tables import Tables
from tests.contract import ledger_file
from tests.contract.ledger_file import LOAD, ROOT, blob, inside, sql
from tests.contract.ledger_kit import TENANT, Desk, born, is_a, opened

desk = ledger_file.desk


# ------------------------------------------------------------------ settings
async def test_the_log_is_written_ahead_and_synced_at_every_commit(desk: Desk) -> None:
    assert await inside(desk, "PRAGMA journal_mode") == [("wal",)]
    assert await inside(desk, "PRAGMA synchronous") == [(2,)]
    assert (await anyio.Path(desk.path).stat()).st_mode & 0o077 == 0


async def test_a_file_that_cannot_have_a_write_ahead_log_is_refused(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_memory(_name: str) -> sqlite3.Connection:
        return sqlite3.connect(":memory:", isolation_level=None)

    monkeypatch.setattr(sqlite_store, "_connection", in_memory)
    with pytest.raises(StorageError, match="journal_mode"):
        await SqliteLedger.open(data_dir / "ledger.db", FakeClock().now)


async def test_a_ledger_of_a_newer_version_is_refused_and_left_alone(desk: Desk) -> None:
    await desk.ledger.close()
    await sql(desk.path, f"PRAGMA user_version = {rows.SCHEMA_VERSION + 1}")
    with pytest.raises(StorageError, match="schema"):
        await SqliteLedger.open(desk.path, desk.clock.now)
    with pytest.raises(StorageError, match="schema"):
        await SqliteLedger.open_readonly(desk.path, desk.clock.now)


async def test_a_step_of_the_schema_that_fails_leaves_the_version_before_it(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = data_dir / "ledger.db"
    next_step = {rows.SCHEMA_VERSION + 1: ("CREATE TABLE extra (a)", "SELECT no_such_function()")}
    monkeypatch.setattr(sqlite_store, "MIGRATIONS", rows.MIGRATIONS | next_step)
    monkeypatch.setattr(sqlite_store, "SCHEMA_VERSION", rows.SCHEMA_VERSION + 1)
    with pytest.raises(StorageError, match="no_such_function"):
        await SqliteLedger.open(path, FakeClock().now)
    monkeypatch.undo()
    async with opened(path, FakeClock()):
        pass
    assert await sql(path, "PRAGMA user_version") == [(rows.SCHEMA_VERSION,)]


async def test_garbage_is_no_ledger(data_dir: Path) -> None:
    path = anyio.Path(data_dir / "ledger.db")
    await path.write_bytes(b"this is not a database" * 100)
    with pytest.raises(StorageError, match="cannot open"):
        await SqliteLedger.open(Path(path), FakeClock().now)
    with pytest.raises(StorageError, match="cannot open"):
        await SqliteLedger.open_readonly(Path(path), FakeClock().now)


# ------------------------------------------------------------------ one writer, many readers
async def test_a_second_writer_is_refused_and_told_who_writes(desk: Desk) -> None:
    with pytest.raises(AlreadyRunning, match=rf"pid {os.getpid()}.*ledger"):
        await SqliteLedger.open(desk.path, desk.clock.now)
    await desk.ask(born())
    await desk.ledger.close()
    async with opened(desk.path, desk.clock):
        pass


async def test_a_writer_knows_who_wrote_before(data_dir: Path) -> None:
    path, told = data_dir / "ledger.db", list[str]()
    for name in ("proc-1", "proc-2", "proc-3"):
        ledger = await SqliteLedger.open(path, FakeClock().now, process=name)
        told.append(ledger.predecessor)
        await ledger.close()
    reader = await SqliteLedger.open_readonly(path, FakeClock().now)
    told.append(reader.predecessor)
    await reader.close()
    assert told == ["", "proc-1", "proc-2", ""]


async def test_a_reader_beside_the_writer_sees_what_was_committed(desk: Desk) -> None:
    hand = await desk.hand()
    async with opened(desk.path, desk.clock, is_readonly=True) as reader:
        for _ in range(3):
            committed = await hand.append()
            (loaded,) = await reader.apply([LOAD])
            assert is_a(loaded, Loaded).row.version == committed.version
        (refused,) = await reader.apply([Renew(process="p", lease_s=5.0)])
        assert is_a(refused, Failure).code == "STORAGE"
        await hand.append()


async def test_a_reader_needs_no_writer(desk: Desk) -> None:
    await desk.ask(born())
    await desk.ledger.close()
    async with opened(desk.path, desk.clock, is_readonly=True) as reader:
        (loaded,) = await reader.apply([LOAD])
        is_a(loaded, Loaded)
    async with opened(desk.path, desk.clock):
        pass


async def test_a_reader_makes_no_ledger(data_dir: Path) -> None:
    with pytest.raises(StorageError, match="cannot open"):
        await SqliteLedger.open_readonly(data_dir / "ledger.db", FakeClock().now)
    assert [path async for path in anyio.Path(data_dir).iterdir()] == []


async def test_a_closed_ledger_says_so(desk: Desk) -> None:
    await desk.ledger.close()
    await desk.ledger.close()
    with pytest.raises(StorageError, match="closed"):
        await desk.group(born())


# ------------------------------------------------------------------ time
async def test_time_does_not_go_back_over_a_restart(desk: Desk) -> None:
    desk.clock.jump(3600.0)
    created = is_a(await desk.ask(born()), Created)
    await desk.ledger.close()
    desk.clock.jump(-3600.0)
    async with opened(desk.path, desk.clock) as again:
        (done,) = await again.apply([Renew(process="p", lease_s=5.0)])
    assert is_a(done, Done).now >= created.now


# ------------------------------------------------------------------ failures
async def test_a_full_disk_refuses_the_group_and_heals_unaided(desk: Desk) -> None:
    hand = await desk.hand()
    await inside(desk, "PRAGMA max_page_count = 1")
    op = hand.entry()
    with pytest.raises(StorageError):
        await desk.group(blob(200_000), blob(200_000))
    await inside(desk, "PRAGMA max_page_count = 1000000")
    assert is_a(await desk.ask(op), Committed).version == 1
    assert (await desk.loaded()).row.version == 1


async def test_an_operation_too_large_for_the_disk_fails_alone(desk: Desk) -> None:
    hand = await desk.hand()
    ((pages,),) = await inside(desk, "PRAGMA page_count")
    await inside(desk, f"PRAGMA max_page_count = {int(str(pages)) + 10}")
    appended, kept, created = await desk.group(hand.entry(), blob(900_000), born("r2"))
    is_a(appended, Committed)
    is_a(created, Created)
    failure = is_a(kept, Failure)
    assert failure.code == "STORAGE"
    assert (await desk.row("r2")).version == 0


IO_ERROR = """
import resource, sys
from pathlib import Path
from messages.errors import StorageError
from runtime.ledger.sqlite_store import SqliteStore
from tests.contract import ledger_file
from tests.contract.ledger_file import LOAD, ROOT, blob, inside, sql
from tests.contract.ledger_kit import born

store = SqliteStore.open(Path(sys.argv[1]), lambda: 1000.0)
store.commit([born("before")])
limit = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limit[1]))
for number in range(2):
    try:
        store.commit([born(f"during{number}")])
    except StorageError as error:
        print("refused", flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, limit)
print(type(store.commit([born("after")])[0]).__name__, flush=True)
store.close()
"""


async def test_an_io_error_refuses_the_group_and_heals_unaided(data_dir: Path) -> None:
    path = data_dir / "ledger.db"
    result = await anyio.run_process([sys.executable, "-c", IO_ERROR, str(path)], cwd=ROOT)
    assert result.stdout.split() == [b"refused", b"refused", b"Created"]
    runs = await sql(path, "SELECT run_id FROM runs ORDER BY run_id")
    assert runs == [("after",), ("before",)]


@pytest.mark.parametrize("is_half_done", [False, True])
async def test_an_operation_that_crashes_fails_alone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, is_half_done: bool
) -> None:
    real = rules.apply

    def buggy(t: Tables, op: AnyLedgerRequest, now: float) -> AnyLedgerAnswer:
        if getattr(op, "run_id", "") != "bad":
            return real(t, op, now)
        if is_half_done:
            real(t, op, now)
        raise KeyError("secret payload")

    monkeypatch.setattr(sqlite_store, "apply", buggy)
    first, bad, last = await desk.group(born("a"), born("bad"), born("b"))
    is_a(first, Created)
    is_a(last, Created)
    assert "secret" not in is_a(bad, Failure).message
    monkeypatch.undo()
    assert await sql(desk.path, "SELECT run_id FROM runs ORDER BY run_id") == [("a",), ("b",)]


async def test_a_connection_that_cannot_even_roll_back_is_replaced(desk: Desk) -> None:
    ledger = is_a(desk.ledger, SqliteLedger)
    await desk.ask(born("a"))
    await ledger._in_thread(ledger._store.connection.close)
    with pytest.raises(StorageError):
        await desk.group(born("b"))
    is_a(await desk.ask(born("b")), Created)
    assert len((await desk.ask(ListRuns(tenant=TENANT))).rows) == 2


# ------------------------------------------------------------------ cancellation
class SlowCommit:
    """Holds the commit in the ledger's thread until it is let go."""

    def __init__(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        store = is_a(desk.ledger, SqliteLedger)._store
        real = store.commit

        def commit(operations: list[AnyLedgerRequest]) -> object:
            self.begun.set()
            assert self.go_on.wait(10)
            return real(operations)

        monkeypatch.setattr(store, "commit", commit)

    async def wait(self) -> None:
        await to_thread.run_sync(self.begun.wait)


async def test_a_commit_that_has_begun_outlives_the_cancelled_scope(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowCommit(desk, monkeypatch)
    ends: list[str] = []

    async def asker() -> None:
        try:
            await desk.group(born())
        except BaseException as error:
            ends.append(type(error).__name__)
            raise

    async with anyio.create_task_group() as group:
        group.start_soon(asker)
        await slow.wait()
        group.cancel_scope.cancel()
        slow.go_on.set()
    assert ends == ["CancelledError"]
    monkeypatch.undo()
    assert (await desk.row()).version == 0


async def test_a_commit_that_has_begun_outlives_a_cancelled_task(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowCommit(desk, monkeypatch)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(desk.group(born()))
        await slow.wait()
        task.cancel()
        await anyio.lowlevel.checkpoint()
        task.cancel()
        await anyio.lowlevel.checkpoint()
        assert not task.done()
        slow.go_on.set()
    assert task.cancelled()
    monkeypatch.undo()
    assert (await desk.row()).version == 0
