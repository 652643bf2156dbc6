"""The machine under the simulator: time, death and frost are what they say."""

from collections.abc import Iterator

import anyio
import anyio.lowlevel
import pytest

from tests.simulation.machine import Machine, Process


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine = Machine()
    yield machine
    machine.close()


def test_time_passes_only_where_everybody_waits(machine: Machine) -> None:
    async def sleep() -> float:
        await anyio.sleep(3600)
        return machine.time()

    assert machine.run_until_complete(sleep()) == 3600


def test_a_killed_process_does_nothing_more_not_even_in_finally(machine: Machine) -> None:
    process, done = Process("p"), list[str]()

    async def work() -> None:
        try:
            done.append("began")
            await anyio.sleep(1)
            done.append("went on")
        finally:
            done.append("cleaned up")

    machine.start(process, work())
    machine.outside(0.5, machine.kill, process)
    machine.run_until_complete(anyio.sleep(5))
    assert done == ["began"]


def test_a_frozen_process_goes_on_where_it_was_in_the_same_order(machine: Machine) -> None:
    process, done = Process("p"), list[tuple[str, float]]()

    async def work(name: str, after_s: float) -> None:
        await anyio.sleep(after_s)
        done.append((name, machine.time()))

    machine.start(process, work("first", 1))
    machine.start(process, work("second", 2))
    machine.outside(0.5, machine.freeze, process)
    machine.outside(10, machine.thaw, process)
    machine.run_until_complete(anyio.sleep(20))
    assert done == [("first", 10), ("second", 10)]


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_fuse_burns_between_two_steps(steps: int, machine: Machine) -> None:
    process, done = Process("p"), list[int]()
    process.fuse, process.burnt = steps, lambda: machine.kill(process)

    async def work() -> None:
        for step in range(5):
            done.append(step)
            await anyio.lowlevel.checkpoint()

    machine.start(process, work())
    machine.run_until_complete(anyio.sleep(1))
    assert done == list(range(steps - 1))


def test_what_a_process_starts_dies_with_it_and_others_live(machine: Machine) -> None:
    dead, alive, done = Process("dead"), Process("alive"), list[str]()

    async def child(name: str) -> None:
        await anyio.sleep(1)
        done.append(name)

    async def parent(name: str) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(child, name)

    for process in (dead, alive):
        machine.start(process, parent(process.name))
    machine.outside(0.5, machine.kill, dead)
    machine.run_until_complete(anyio.sleep(5))
    assert done == ["alive"]


def test_whoever_comes_after_a_machine_can_run_a_loop_of_its_own() -> None:
    Machine().close()

    async def nothing() -> None:
        pass

    anyio.run(nothing)
