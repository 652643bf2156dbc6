"""Where a command gets its answers: the daemon, or the data directory when none runs.

The one seam of the command line: unit tests replace ``connect`` and ``read_offline``.
"""

import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import anyio

from messages.errors import NotFound, Unreachable
from treadle.cli.format import note
from treadle.cli.options import Options

Reply = Mapping[str, Any]
_INTERRUPTED: Final = 130
ResultT = TypeVar("ResultT")

SUBMITTER: Final = "submitter"
APPROVER: Final = "approver"
OPERATOR: Final = "operator"

DEFAULT_TENANT: Final = "default"


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

    def events(self, run_id: str, *, after: int = -1) -> Awaitable[Reply]:
        """A page: ``{"events": [...], "version", "terminal"}``."""
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


class Feed(Protocol):
    """Events of a run: a page when awaited, all there are and will be when followed."""

    def __await__(self) -> Generator[Any, None, Reply]:
        """A page."""
        ...

    def follow(self) -> AsyncGenerator[Reply]:
        """Each event, until the run has ended."""
        ...


class Api(Reader, Protocol):
    """What only a daemon can do."""

    def events(self, run_id: str, *, after: int = -1) -> Feed:
        """See ``Reader``, and live."""
        ...

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
    """Run a command's asynchronous part to its end.

    Ctrl-C cancels everything until it has let go; a cancellation that asyncio sends only once can
    be lost in a library that turns it into a timeout. A second Ctrl-C leaves at once.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    return anyio.run(_interruptible, main)


async def _interruptible(main: Callable[[], Awaitable[ResultT]]) -> ResultT:
    result: list[ResultT] = []
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as scope:
            tasks.start_soon(_cancel_on_interrupt, scope)
            try:
                result.append(await main())
            except Exception as error:  # noqa: BLE001 -- raised again outside the group, as it is
                failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if not result:
        raise KeyboardInterrupt
    return result[0]


async def _cancel_on_interrupt(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGINT) as received:
        async for _ in received:
            if scope.cancel_called:
                os._exit(_INTERRUPTED)
            scope.cancel()


def connect(options: Options, user: str) -> AbstractAsyncContextManager[Api]:
    """A client of the daemon as one of connection.json's users; ``--as`` overrides which."""
    from treadle.client import Client  # noqa: PLC0415 -- nats is imported by who needs it

    return Client.connect(options.directory, user=options.user or user, url=options.nats)


def read_offline(options: Options, tenant: str | None) -> AbstractAsyncContextManager[Reader]:
    """A reader of the ledger file; no daemon is involved."""
    from treadle.offline import open_data  # noqa: PLC0415 -- so is SQLite

    return open_data(options.directory, tenant=tenant or DEFAULT_TENANT)


class Source(NamedTuple):
    """Who answers a reading command; ``live`` is the daemon, where one runs."""

    reader: Reader
    live: Api | None


@asynccontextmanager
async def reading(options: Options, tenant: str | None = None) -> AsyncGenerator[Source]:
    """The daemon; where none runs, the data directory, and stderr says so.

    Args:
        options: which daemon, which directory.
        tenant: whose records, where there is no daemon to say whose we may see.

    Raises:
        Unreachable: neither is there.
    """
    async with AsyncExitStack() as stack:
        try:
            api = await stack.enter_async_context(connect(options, OPERATOR))
            source = Source(api, api)
        except Unreachable as error:
            if options.nats is not None:
                raise
            source = Source(await _recorded(stack, options, tenant, error), None)
        yield source


async def _recorded(
    stack: AsyncExitStack, options: Options, tenant: str | None, why: Unreachable
) -> Reader:
    if not await anyio.Path(options.directory).exists():
        raise why
    try:
        reader = await stack.enter_async_context(read_offline(options, tenant))
    except NotFound:
        raise why from None
    note(options, f"{why.message}; reading what was recorded in {options.directory}")
    return reader
