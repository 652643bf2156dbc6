"""The SQLite file and its transactions, seen from the one thread that may touch it.

Nothing here knows of an event loop. ``sqlite`` runs these methods in the connection's thread.

WAL with synchronous FULL: a commit has reached the disk before it is answered, and readers
(``treadle show`` on a data directory) never wait for the writer. Both settings are read back,
since a file system without shared memory, or an old file, makes SQLite ignore them silently.
"""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from messages.errors import BrokenChain, StorageError
from messages.ledger import AnyLedgerRequest
from runtime.ledger.clock import LedgerClock
from runtime.ledger.failures import as_failure
from runtime.ledger.file_lock import FileLock
from runtime.ledger.port import GroupAnswer
from runtime.ledger.rows import MIGRATIONS, SCHEMA_VERSION
from runtime.ledger.rules import READS, apply
from runtime.ledger.sqlite_tables import SqliteTables

BUSY_S = 5.0
"""How long a statement waits for another process's lock: a reader's checkpoint, a backup."""
STATEMENTS = 256
"""Prepared statements kept; there are about 60."""
WAL_LIMIT_BYTES = 64 * 1024 * 1024
"""To this size the log is cut after a burst; a checkpoint alone never shrinks it."""


class SqliteStore:
    """One open ledger file."""

    def __init__(self, path: Path, clock_now: Callable[[], float], lock: FileLock | None) -> None:
        """Use ``open`` or ``open_readonly``. Without a lock the file is only read."""
        self._path = path
        self._lock = lock
        self.predecessor = ""
        self.connection = self._connect()
        self._tables = SqliteTables(self.connection)
        self._is_suspect = False
        self._clock = LedgerClock(clock_now, self._last_time())

    # ---- opening
    @classmethod
    def open(cls, path: Path, clock_now: Callable[[], float], process: str = "") -> "SqliteStore":
        """Open for writing, and make the file where there is none.

        Raises:
            AlreadyRunning: another process has it open for writing.
            StorageError: it cannot be opened safely.
        """
        lock = FileLock(path.with_name(path.name + ".lock"))
        last = lock.acquire(process)
        try:
            path.touch(mode=0o600)
            store = cls(path, clock_now, lock)
        except BaseException:
            lock.release()
            raise
        store.predecessor = last
        return store

    @classmethod
    def open_readonly(cls, path: Path, clock_now: Callable[[], float]) -> "SqliteStore":
        """Open for reading, whether or not a daemon has it open for writing.

        Raises:
            StorageError: there is none, or it cannot be read by this version.
        """
        return cls(path, clock_now, None)

    @property
    def is_readonly(self) -> bool:
        """Nothing can be written through this one."""
        return self._lock is None

    def _connect(self) -> sqlite3.Connection:
        try:
            connection = self._connect_reading() if self.is_readonly else self._connect_writing()
        except sqlite3.Error as error:
            message = f"cannot open the ledger {self._path}: {error}"
            raise StorageError(message) from error
        return connection

    def _connect_writing(self) -> sqlite3.Connection:
        db = _connection(str(self._path))
        try:
            _set(db, "journal_mode", "wal")
            _set(db, "synchronous", 2)
            db.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
            _migrate(db)
        except BaseException:
            db.close()
            raise
        return db

    def _connect_reading(self) -> sqlite3.Connection:
        db = _connection(f"{self._path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            db.execute("PRAGMA query_only = 1")
            _check_schema(db)
        except BaseException:
            db.close()
            raise
        return db

    def _last_time(self) -> float:
        row = self.connection.execute("SELECT value FROM marks WHERE name = 'clock'").fetchone()
        return row[0] if row else 0.0

    # ---- groups
    def commit(self, operations: Sequence[AnyLedgerRequest]) -> list[GroupAnswer]:
        """Carry out a group in one transaction.

        If an operation fails in a way the rules do not know, the group is rolled back and each
        operation gets a transaction of its own, so that only the bad one is answered with a
        Failure.

        Raises:
            StorageError: nothing was committed.
        """
        self._recover()
        try:
            return self._transaction(operations)
        except _BadOperation as bad:
            if len(operations) == 1:
                return [bad.answer()]
        return self._singly(operations)

    def _singly(self, operations: Sequence[AnyLedgerRequest]) -> list[GroupAnswer]:
        answers: list[GroupAnswer] = []
        disk_errors = 0
        for op in operations:
            try:
                answers += self._transaction([op])
            except _BadOperation as bad:
                disk_errors += isinstance(bad.error, sqlite3.Error)
                answers.append(bad.answer())
        if disk_errors == len(operations):
            message = f"the ledger {self._path} could not be written"
            raise StorageError(message)
        return answers

    def _transaction(self, operations: Sequence[AnyLedgerRequest]) -> list[GroupAnswer]:
        db, tables = self.connection, self._tables
        try:
            db.execute("BEGIN" if self.is_readonly else "BEGIN IMMEDIATE")
            tables.begin()
            now = self._clock.now()
            answers = [self._one(op, now) for op in operations]
            if tables.writes:
                db.execute("UPDATE marks SET value = ? WHERE name = 'clock'", (now,))
            db.execute("COMMIT")
        except sqlite3.Error as error:
            self._rollback()
            message = f"the ledger {self._path} could not be written: {error}"
            raise StorageError(message) from error
        except BaseException:
            self._rollback()
            raise
        return answers

    def _one(self, op: AnyLedgerRequest, now: float) -> GroupAnswer:
        if self.is_readonly and not isinstance(op, READS):
            return as_failure(op, StorageError("the ledger was opened for reading only"))
        writes = self._tables.writes
        try:
            return apply(self._tables, op, now)
        except BrokenChain as error:
            if self._tables.writes != writes:
                raise _BadOperation(op, error) from error
            return as_failure(op, error)
        except Exception as error:
            raise _BadOperation(op, error) from error

    # ---- trouble
    def _rollback(self) -> None:
        try:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._is_suspect = True

    def _recover(self) -> None:
        """After an error that even a rollback did not survive, start with a fresh connection."""
        if not self._is_suspect:
            return
        fresh = self._connect()
        self.connection.close()
        self.connection = fresh
        self._tables = SqliteTables(fresh)
        self._is_suspect = False

    def close(self) -> None:
        """Close the file and let go of its lock."""
        try:
            self.connection.close()
        finally:
            if self._lock is not None:
                self._lock.release()


class _BadOperation(Exception):
    """One operation of a group cannot be carried out; the others should not suffer."""

    def __init__(self, op: AnyLedgerRequest, error: Exception) -> None:
        super().__init__()
        self.op = op
        self.error = error

    def answer(self) -> GroupAnswer:
        return as_failure(self.op, self.error)


def _connection(name: str, *, uri: bool = False) -> sqlite3.Connection:
    # Autocommit mode: transactions are begun and ended here, never by the driver's guess.
    return sqlite3.connect(
        name, timeout=BUSY_S, isolation_level=None, cached_statements=STATEMENTS, uri=uri
    )


def _set(db: sqlite3.Connection, name: str, wanted: str | int) -> None:
    db.execute(f"PRAGMA {name} = {wanted}")
    row = db.execute(f"PRAGMA {name}").fetchone()
    if row is None or row[0] != wanted:
        message = f"SQLite keeps {name} at {row and row[0]}, the ledger needs {wanted}"
        raise StorageError(message, hint="put the data directory on a local disk")


# ------------------------------------------------------------------ schema
def _schema_version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def _check_schema(db: sqlite3.Connection) -> None:
    version = _schema_version(db)
    if version != SCHEMA_VERSION:
        message = f"the ledger has schema {version}, this version reads {SCHEMA_VERSION}"
        raise StorageError(message, hint="start the daemon once to bring it up to date")


def _migrate(db: sqlite3.Connection) -> None:
    """Bring the schema up to date, each step in a transaction that also records it."""
    version = _schema_version(db)
    if version > SCHEMA_VERSION:
        message = f"the ledger has schema {version}, this version knows {SCHEMA_VERSION}"
        raise StorageError(message, hint="a newer Treadle wrote it; use that one")
    for step in range(version + 1, SCHEMA_VERSION + 1):
        db.execute("BEGIN IMMEDIATE")
        for statement in MIGRATIONS[step]:
            db.execute(statement)
        # The pragma is part of the transaction: the file's header page carries it.
        db.execute(f"PRAGMA user_version = {step}")
        db.execute("COMMIT")
