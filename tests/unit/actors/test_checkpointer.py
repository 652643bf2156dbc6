"""How operations come together in a commit."""

from collections.abc import Sequence
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from actors.checkpointer import MAX_GROUP, Checkpointer
from messages.ledger import AnyLedgerRequest, Done, Renew
from runtime.ledger.port import GroupAnswer

pytestmark = pytest.mark.anyio

RENEW = Renew(process="p", lease_s=5.0)


class Groups:
    """A ledger that notes how many operations each commit has."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def apply(self, operations: Sequence[AnyLedgerRequest]) -> list[GroupAnswer]:
        self.sizes.append(len(operations))
        await anyio.lowlevel.checkpoint()
        return [Done(now=1.0) for _ in operations]


async def sizes(runs: int, each: int) -> list[int]:
    """Groups when so many runs ask one after the other, a turn apart from each other."""
    ledger = Groups()
    actor = Checkpointer(cast("Any", None), cast("Any", ledger))

    async def run(place: int) -> None:
        for _ in range(place):
            await anyio.lowlevel.checkpoint()
        for _ in range(each):
            assert await actor.handle(RENEW, cast("Any", None)) == Done(now=1.0)

    async with actor.prepared():
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                for place in range(runs):
                    tasks.start_soon(run, place)
    return ledger.sizes


async def test_a_lone_run_commits_each_operation() -> None:
    assert await sizes(1, 5) == [1] * 5


async def test_a_crowd_that_comes_in_drops_shares_its_commits() -> None:
    found = await sizes(32, 5)
    assert sum(found) == 32 * 5
    assert len(found) < 16, "each commit waits for those who are on their way"


async def test_a_commit_has_a_limit() -> None:
    found = await sizes(3 * MAX_GROUP, 1)
    assert sum(found) == 3 * MAX_GROUP
    assert max(found) <= MAX_GROUP
