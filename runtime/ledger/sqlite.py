"""The SQLite ledger: the only import of aiosqlite.

aiosqlite owns the thread that owns the connection. A group of operations goes to that thread as
one closure: its public calls would cost a thread hop each (190 µs measured), four for a group.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import aiosqlite
import anyio
import anyio.lowlevel

from messages.errors import StorageError
from messages.ledger import AnyLedgerRequest
from runtime.ledger.port import GroupAnswer
from runtime.ledger.sqlite_store import SqliteStore

T = TypeVar("T")


class SqliteLedger:
    """Implements ``Ledger`` on one SQLite file.

    One process writes at a time (a lock beside the file says which); any number read.
    """

    def __init__(self, connection: aiosqlite.Connection, store: SqliteStore) -> None:
        """Use ``open`` or ``open_readonly``."""
        self._connection = connection
        self._store = store
        self._is_closed = False

    @classmethod
    async def open(
        cls, path: Path, clock_now: Callable[[], float], *, process: str = ""
    ) -> "SqliteLedger":
        """Open the ledger for writing, and make it where there is none.

        Args:
            path: The database file; ``<path>.lock`` is locked as long as it is open.
            clock_now: The machine's clock, epoch seconds.
            process: Name of this process as an owner of runs, for its successor.

        Raises:
            AlreadyRunning: another process has it open for writing.
            StorageError: WAL or synchronous FULL cannot be had, a newer schema, no access.
        """
        return await cls._open(lambda: SqliteStore.open(path, clock_now, process))

    @classmethod
    async def open_readonly(cls, path: Path, clock_now: Callable[[], float]) -> "SqliteLedger":
        """Open for reading a data directory, whether or not a daemon runs on it.

        Operations that would change something are answered with a Failure.

        Raises:
            StorageError: there is no ledger, or it is of another schema.
        """
        return await cls._open(lambda: SqliteStore.open_readonly(path, clock_now))

    @classmethod
    async def _open(cls, make: Callable[[], SqliteStore]) -> "SqliteLedger":
        made: list[SqliteStore] = []
        failed: list[BaseException] = []

        def connect() -> sqlite3.Connection:
            try:
                store = make()
            except BaseException as error:  # noqa: BLE001 -- raised again below
                # After a connector that raises, aiosqlite leaves its thread to end by itself, maybe
                # after the event loop. So it gets something to close in good order.
                failed.append(error)
                return sqlite3.connect(":memory:")
            made.append(store)
            return store.connection

        connection = aiosqlite.Connection(connect, iter_chunk_size=64)
        # Shielded, so that a file that was opened and locked is also closed again.
        with anyio.CancelScope(shield=True):
            await connection
            if failed:
                await connection.close()
        if failed:
            raise failed[0]
        ledger = cls(connection, made[0])
        try:
            await anyio.lowlevel.checkpoint_if_cancelled()
        except BaseException:
            await ledger.close()
            raise
        return ledger

    @property
    def predecessor(self) -> str:
        """Name of the process that wrote here before: we have its lock, so it drives nothing."""
        return self._store.predecessor

    async def apply(self, operations: Sequence[AnyLedgerRequest]) -> list[GroupAnswer]:
        """See ``Ledger``."""
        if self._is_closed:
            message = "the ledger is closed"
            raise StorageError(message)
        answers = await self._in_thread(lambda: self._store.commit(operations))
        await anyio.lowlevel.checkpoint_if_cancelled()
        return answers

    async def close(self) -> None:
        """See ``Ledger``. What was handed in before is committed first."""
        if self._is_closed:
            return
        self._is_closed = True
        with anyio.CancelScope(shield=True):
            try:
                await self._in_thread(self._store.close)
            finally:
                await self._connection.close()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Run ``work`` in the connection's thread and wait for its end, cancelled or not.

        anyio's shield keeps out cancellation by a scope; a bare ``task.cancel()`` passes through
        it, so the end is waited for once more, and the cancellation raised after it.
        """
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def run() -> T:
            try:
                return work()
            finally:
                loop.call_soon_threadsafe(ended.set)

        results: list[T] = []
        with anyio.CancelScope(shield=True):
            try:
                # Private, and the only way to send more than one statement in one hop; the
                # contract suite notices if a new aiosqlite changes it.
                results.append(await self._connection._execute(run))  # noqa: SLF001 # pyright: ignore[reportPrivateUsage, reportUnknownMemberType]
            except asyncio.CancelledError:
                await _until(ended)
                raise
        return results[0]


async def _until(ended: asyncio.Event) -> None:
    while not ended.is_set():
        try:
            await ended.wait()
        except asyncio.CancelledError:
            continue
