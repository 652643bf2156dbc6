"""Where a command gets its answers: the daemon, or the data directory when none runs.

The one seam of the command line: unit tests replace ``connect`` and ``read_offline``.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import anyio

from messages.errors import Unreachable
from treadle.cli.format import note
from treadle.cli.options import Options

Reply = Mapping[str, Any]
ResultT = TypeVar("ResultT")

SUBMITTER: Final = "submitter"
APPROVER: Final = "approver"
OPERATOR: Final = "operator"


class Reader(Protocol):
    """What can be asked of a daemon and of a data directory alike."""

    async def show(self, run_id: str, *, at: int | None = None) -> Reply:
        """One run."""
        ...

    async def list(
        self,
        *,
        status: str | None = None,
        agent: str | None = None,
        labels: Mapping[str, str] | None = None,
        since: float | None = None,
        limit: int = 50,
    ) -> Reply:
        """``{"runs": [...]}``."""
        ...

    async def events(self, run_id: str, *, after: int = -1) -> Reply:
        """``{"events": [...], "version", "terminal"}``."""
        ...

    async def approvals(self, ids: Sequence[str] = ()) -> Reply:
        """``{"approvals": [...]}``."""
        ...

    async def effects(
        self,
        *,
        key: str | None = None,
        run_id: str | None = None,
        unresolved: bool = False,
        limit: int = 100,
    ) -> Reply:
        """``{"effects": [...]}``."""
        ...


class Api(Reader, Protocol):
    """What only a daemon can do."""

    async def submit(
        self,
        agent: str,
        goal: str,
        *,
        inputs: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        limits: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Reply:
        """``{"run_id", "existing"}``, once the run is durable."""
        ...

    async def approve(self, approval_id: str, *, action: str = "", reason: str = "") -> Reply:
        """``{"approval"}``."""
        ...

    async def deny(self, approval_id: str, *, action: str = "", reason: str = "") -> Reply:
        """``{"approval"}``."""
        ...

    async def cancel(self, run_id: str, *, reason: str = "") -> Reply:
        """``{"run_id"}``."""
        ...


def run_async(main: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Run a command's coroutine function on asyncio, which nats-py needs."""
    return anyio.run(main, backend="asyncio")


def connect(options: Options, user: str) -> AbstractAsyncContextManager[Api]:
    """A client of the daemon as one of connection.json's users; ``--as`` overrides which."""
    from treadle.client import Client  # noqa: PLC0415 -- nats is imported by who needs it

    return Client.connect(options.directory, user=options.user or user, url=options.nats)


def read_offline(options: Options) -> AbstractAsyncContextManager[Reader]:
    """A reader of the ledger file; no daemon is involved."""
    from treadle.offline import open_data  # noqa: PLC0415 -- so is SQLite

    return open_data(options.directory)


class Source(NamedTuple):
    """Who answers a reading command; ``is_live`` says that there may be more to come."""

    reader: Reader
    is_live: bool


@asynccontextmanager
async def reading(options: Options) -> AsyncGenerator[Source]:
    """The daemon; where none runs, the data directory, and stderr says so.

    Raises:
        Unreachable: neither is there.
    """
    try:
        client = connect(options, OPERATOR)
        api = await client.__aenter__()
    except Unreachable:
        if options.nats is not None or not has_data(options):
            raise
    else:
        try:
            yield Source(api, is_live=True)
        finally:
            await client.__aexit__(None, None, None)
        return
    note(options, f"no daemon runs on {options.directory}: reading what it recorded there")
    async with read_offline(options) as reader:
        yield Source(reader, is_live=False)


def has_data(options: Options) -> bool:
    """Whether the data directory holds a ledger."""
    return any(options.directory.glob("*.db"))
