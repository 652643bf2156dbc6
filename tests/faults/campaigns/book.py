"""The ledger's file, read without the daemon: rows, and journals checked entry by entry."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, cast

import anyio

from messages.base import Failure, ReplyT, Request
from messages.errors import StorageError
from messages.ledger import AnyLedgerRequest, Entry, ListRuns, Load, Loaded, RunRow
from runtime.clock import MachineClock
from runtime.ledger.sqlite import SqliteLedger

TENANT: Final = "default"
_LOOK_S: Final = 0.1


class Book:
    """An open ledger file."""

    def __init__(self, ledger: SqliteLedger) -> None:
        self._ledger = ledger

    async def _ask(self, request: Request[ReplyT]) -> ReplyT:
        [answer] = await self._ledger.apply([cast("AnyLedgerRequest", request)])
        if isinstance(answer, Failure):
            raise StorageError(answer.message)
        return cast("ReplyT", answer)

    async def rows(self) -> dict[str, RunRow]:
        """Every run, by id; there are fewer than a listing holds."""
        listed = await self._ask(ListRuns(tenant=TENANT, is_open_only=False, limit=500))
        return {row.run_id: row for row in listed.rows}

    async def open_rows(self) -> dict[str, RunRow]:
        """Those that have not ended."""
        rows = await self.rows()
        return {run_id: row for run_id, row in rows.items() if not row.summary.status.is_terminal}

    async def entries(self, run_id: str) -> list[Entry]:
        """A journal as it is, checked by nobody but the reader of stored bytes."""
        entries: list[Entry] = []
        while True:
            after = entries[-1].version if entries else -1
            page = await self._ask(Load(tenant=TENANT, run_id=run_id, after=after))
            if not isinstance(page, Loaded):
                return entries
            entries += page.entries
            if not page.is_partial:
                return entries

    async def until_ended(self, runs: Iterable[str]) -> None:
        """Wait until each of them exists and has ended."""
        wanted = set(runs)
        while True:
            rows = await self.rows()
            if all(r in rows and rows[r].summary.status.is_terminal for r in wanted):
                return
            await anyio.sleep(_LOOK_S)


@asynccontextmanager
async def opened_book(data_dir: Path) -> AsyncGenerator[Book]:
    """The ledger of a data directory while entered."""
    ledger = await SqliteLedger.open_readonly(data_dir / "ledger.db", MachineClock().now)
    try:
        yield Book(ledger)
    finally:
        await ledger.close()
