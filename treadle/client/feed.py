"""Events of one run: a page when awaited, all there are and will be when iterated."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from messages.api import Reply
from runtime.bus.port import Delivery

POLL_S = 2.0
"""Hints of new events may be lost; the journal is asked so often even without one."""
SETTLE_S = 0.02
"""Events of one entry come as several hints; the next page waits for the last of them."""

Page = Callable[[int], Awaitable[Reply]]
"""Reads the events after a version."""
Hints = Callable[[], AbstractAsyncContextManager[MemoryObjectReceiveStream[Delivery]]]
"""Subscribes to the live events of the run."""


class EventFeed:
    """``await feed`` is one page; ``async for event in feed`` follows the run until it ends.

    The journal is what is read, live messages only say when: so no event is missed or seen twice,
    whatever the bus loses.
    """

    def __init__(self, after: int, page: Page, hints: Hints) -> None:
        """Args: after: the last version that is not wanted."""
        self._after = after
        self._page = page
        self._hints = hints

    def __await__(self) -> Generator[Any, None, Reply]:
        """``{v, events, version, terminal}`` from the first version wanted."""
        return self._page(self._after).__await__()

    def __aiter__(self) -> AsyncIterator[Reply]:
        """Every event, live, until the run has ended."""
        return self.follow()

    async def follow(self) -> AsyncGenerator[Reply]:
        """What iterating does; a generator, so that a caller can close it early."""
        after = self._after
        async with self._hints() as hints:
            while True:
                page = await self._page(after)
                for event in page["events"]:
                    yield event
                    after = max(after, event["version"])
                if page["terminal"]:
                    return
                if after >= page["version"]:
                    await _next_hint(hints)


async def _next_hint(hints: MemoryObjectReceiveStream[Delivery]) -> None:
    """Wait until something may have happened."""
    with anyio.move_on_after(POLL_S):
        await hints.receive()
        await anyio.sleep(SETTLE_S)
    while hints.statistics().current_buffer_used:
        hints.receive_nowait()
