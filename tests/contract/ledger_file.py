"""A ledger in a file, and ways to it that are not the ledger's own."""

import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from anyio import to_thread

from messages.canon import sha256_hex
from messages.ledger import Keep, Load
from runtime.clock import FakeClock
from runtime.ledger.sqlite import SqliteLedger
from tests.contract.ledger_kit import TENANT, Desk, is_a

ROOT = Path(__file__).parents[2]
LOAD = Load(tenant=TENANT, run_id="r1")


@pytest.fixture
async def desk(data_dir: Path) -> AsyncIterator[Desk]:
    clock, path = FakeClock(), data_dir / "ledger.db"
    ledger = await SqliteLedger.open(path, clock.now)
    try:
        yield Desk(ledger, clock, "sqlite", path)
    finally:
        await ledger.close()


async def sql(path: Path, statement: str, *values: object) -> list[tuple[object, ...]]:
    """Straight at the file, behind the ledger's back."""

    def run() -> list[tuple[object, ...]]:
        db = sqlite3.connect(path, isolation_level=None)
        try:
            return db.execute(statement, values).fetchall()
        finally:
            db.close()

    return await to_thread.run_sync(run)


async def inside(desk: Desk, statement: str) -> list[tuple[object, ...]]:
    """Through the ledger's own connection, in its thread."""
    ledger = is_a(desk.ledger, SqliteLedger)
    return await ledger._in_thread(lambda: ledger._store.connection.execute(statement).fetchall())


def blob(size: int) -> Keep:
    data = os.urandom(size)
    return Keep(tenant=TENANT, sha256=sha256_hex(data), data=data)
