import anyio
import anyio.lowlevel
import pytest

from actors.orchestrator.interrupt import Interrupt

pytestmark = pytest.mark.anyio


async def test_what_is_in_flight_is_cut() -> None:
    interrupt = Interrupt()
    ended: list[str] = []

    async def wait(name: str) -> None:
        with interrupt.cutting():
            await anyio.sleep_forever()
        ended.append(name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, "a")
        tasks.start_soon(wait, "b")
        await anyio.lowlevel.checkpoint()
        interrupt.fire()
    assert (sorted(ended), interrupt.is_heard) == (["a", "b"], True)


async def test_what_begins_after_the_word_is_cut_at_its_first_wait() -> None:
    interrupt = Interrupt()
    interrupt.fire()
    with interrupt.cutting():
        await anyio.sleep_forever()


async def test_what_has_time_to_settle_keeps_it_and_no_more() -> None:
    interrupt = Interrupt()
    steps: list[str] = []
    with interrupt.cutting(grace_s=0.05):
        interrupt.fire()
        await anyio.lowlevel.checkpoint()
        steps.append("settled")
        await anyio.sleep_forever()
    assert steps == ["settled"]


async def test_what_is_over_is_cut_no_more() -> None:
    interrupt = Interrupt()
    with interrupt.cutting():
        pass
    interrupt.fire()
    await anyio.lowlevel.checkpoint()
