"""The tests' own raw client leaves nothing behind, however its block ends."""

import asyncio

import anyio
from nats.aio.msg import Msg

from tests.system.daemon import Daemon, listen


async def test_a_cancelled_block_leaves_no_task_behind(daemon: Daemon) -> None:
    await daemon.up()
    before = asyncio.all_tasks()

    async def hold() -> None:
        async with daemon.observer() as observer:
            await listen(observer, "treadle.rpc.>", _hear)
            tasks.cancel_scope.cancel()
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hold)
    assert [task.get_name() for task in asyncio.all_tasks() - before] == []


async def _hear(_message: Msg) -> None:
    """What is heard does not matter here."""
