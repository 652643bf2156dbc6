"""Where a command gets its answers: the daemon, or the data directory when none runs.

The one seam of the command line: unit tests replace ``connect`` and ``read_offline``.
"""

import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Final, NamedTuple, TypeVar

import anyio

from messages.errors import NotFound, Unreachable
from treadle.cli.format import note
from treadle.cli.options import Options
from treadle.cli.protocols import Api, Reader, Recorded, Reply

__all__ = [
    "APPROVER",
    "OPERATOR",
    "SUBMITTER",
    "Api",
    "Reader",
    "Recorded",
    "Reply",
    "Source",
    "connect",
    "read_offline",
    "reading",
    "run_async",
]

_INTERRUPTED: Final = 130
ResultT = TypeVar("ResultT")

SUBMITTER: Final = "submitter"
APPROVER: Final = "approver"
OPERATOR: Final = "operator"

DEFAULT_TENANT: Final = "default"


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


def read_offline(options: Options, tenant: str | None) -> AbstractAsyncContextManager[Recorded]:
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
