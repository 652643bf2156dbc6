"""Reading a data directory without a daemon: the same views, straight from the ledger file."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import anyio

from messages import api
from messages.api import Reply
from messages.base import Failure, ReplyT, Request
from messages.errors import NotFound
from messages.ledger import GroupBy
from runtime.bus.failures import to_error
from runtime.clock import MachineClock
from runtime.ledger.sqlite import SqliteLedger
from runtime.views.checkup import check_ledger
from runtime.views.reading import Reader
from runtime.views.values import View

if TYPE_CHECKING:
    from messages.ledger import AnyLedgerRequest

LEDGER_GLOB = "*.db"


class Offline:
    """The reading methods of ``Client`` on a data directory; nothing can be changed through it."""

    def __init__(self, reader: Reader, check: Callable[[], Awaitable[View]]) -> None:
        """Use ``open_data``."""
        self._reader = reader
        self._check = check

    async def check_ledger(self) -> Reply:
        """``{name, ok, detail, hint}``: can it be read, do the newest journals hold together."""
        return await self._check()

    async def show(self, run_id: str, *, at: int | None = None) -> Reply:
        """One run, now or as it was at a version."""
        return await self._reader.show(api.Show(run_id=run_id, at=at))

    async def trace(self, run_id: str) -> Reply:
        """What each step took and did, as ``Client.trace``."""
        return await self._reader.trace(api.Trace(run_id=run_id))

    async def list(
        self,
        *,
        status: str | None = None,
        agent: str | None = None,
        labels: Mapping[str, str] | None = None,
        since: float | None = None,
        limit: int = 50,
        ended: bool = False,
    ) -> Reply:
        """``{v, runs}``, as ``Client.list``."""
        body = api.ListRuns(
            status=status,
            agent=agent,
            labels=dict(labels or {}),
            since=since,
            limit=limit,
            ended=ended,
        )
        return await self._reader.list_runs(body)

    async def metrics(
        self,
        *,
        since: float | None = None,
        month: str | None = None,
        by: Sequence[GroupBy] = (),
        labels: Mapping[str, str] | None = None,
    ) -> Reply:
        """Figures about many runs, as ``Client.metrics``."""
        body = api.Metrics(since=since, month=month, by=[*by], labels=dict(labels or {}))
        return await self._reader.metrics(body)

    async def events(self, run_id: str, *, after: int = -1) -> Reply:
        """One page of events: ``{v, events, version, terminal}``."""
        return await self._reader.events(api.Events(run_id=run_id, after=after))

    async def approvals(self, ids: Sequence[str] = ()) -> Reply:
        """``{v, approvals}``, as ``Client.approvals``."""
        return await self._reader.approvals(api.Approvals(ids=[*ids]))

    async def effects(
        self,
        *,
        key: str | None = None,
        run_id: str | None = None,
        unresolved: bool = False,
        limit: int = 100,
    ) -> Reply:
        """``{v, effects}``, as ``Client.effects``."""
        body = api.Effects(key=key, run_id=run_id, unresolved=unresolved, limit=limit)
        return await self._reader.effects(body)


@asynccontextmanager
async def open_data(
    path: str | os.PathLike[str] = ".treadle", *, tenant: str = "default"
) -> AsyncGenerator[Offline]:
    """The runs of a data directory while entered, whether or not a daemon runs on it.

    Args:
        path: The data directory, or the ledger file itself.
        tenant: Whose.

    Raises:
        NotFound: There is no ledger.
        StorageError: It is of another schema, or cannot be read.
    """
    file = await _ledger_file(anyio.Path(path))
    clock = MachineClock()
    ledger = await SqliteLedger.open_readonly(file, clock.now)

    async def ask(request: Request[ReplyT], /) -> ReplyT:
        [answer] = await ledger.apply([cast("AnyLedgerRequest", request)])
        if isinstance(answer, Failure):
            raise to_error(answer, "the ledger")
        return cast("ReplyT", answer)

    try:
        reader = Reader(ask, tenant, clock.now)
        yield Offline(reader, lambda: check_ledger(ask, reader, tenant))
    finally:
        await ledger.close()


async def _ledger_file(path: anyio.Path) -> Path:
    if not await path.is_dir():
        return Path(path)
    files = sorted([str(file) async for file in path.glob(LEDGER_GLOB)])
    if not files:
        raise NotFound("ledger", str(path), hint="is this the --data-dir of a daemon?")
    return Path(files[0])
