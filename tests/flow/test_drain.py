"""What a role does with the calls it has accepted when its process is told to stop (G19)."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest

from messages.base import Message, Request
from messages.errors import NoResponders
from messages.ledger import Done, Renew
from runtime.actor import Actor
from runtime.bus import memory
from runtime.bus.port import Bus, Work
from runtime.supervisor import Phase

RENEW = Renew(process="p", lease_s=1.0)
DONE = Done(now=1.0)


class Slow(Actor):
    """Answers when it is told to."""

    role = "checkpointer"
    is_slow = True

    def __init__(self, bus: Bus, *, is_apart: bool) -> None:
        super().__init__(bus)
        self.is_apart = is_apart
        self.entered = anyio.Event()
        self.go_on = anyio.Event()

    async def handle(self, request: Request[object], work: Work) -> Message:
        del request, work
        self.entered.set()
        await self.go_on.wait()
        return DONE


@asynccontextmanager
async def at_work(*, is_apart: bool) -> AsyncGenerator[tuple[Slow, Bus, list[Message]]]:
    """An actor in the middle of a call, and where its answer will be."""
    hub = memory.Hub()
    answers: list[Message] = []
    async with memory.connect(hub) as bus, memory.connect(hub) as peer:
        actor = Slow(bus, is_apart=is_apart)

        async def ask() -> None:
            answers.append(await peer.ask(RENEW))

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(actor.run)
                await actor.is_serving.wait()
                tasks.start_soon(ask)
                await actor.entered.wait()
                yield actor, peer, answers
                tasks.cancel_scope.cancel()


@pytest.mark.parametrize("is_apart", [True, False])
async def test_a_drain_waits_for_the_call_that_is_under_way(*, is_apart: bool) -> None:
    async with at_work(is_apart=is_apart) as (actor, _, answers):
        finished = anyio.Event()

        async def drain() -> None:
            await actor.drain(Phase.STOP_TAKING)
            await actor.drain(Phase.FINISH)
            finished.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drain)
            await anyio.wait_all_tasks_blocked()
            assert not finished.is_set()
            actor.go_on.set()
        await anyio.wait_all_tasks_blocked()
        assert answers == [DONE]


async def test_where_no_run_is_driven_a_slow_role_takes_nothing_new() -> None:
    async with at_work(is_apart=True) as (actor, peer, _):
        await actor.drain(Phase.STOP_TAKING)
        with pytest.raises(NoResponders):
            await peer.ask(RENEW)


async def test_beside_its_own_runs_it_serves_on_until_they_are_given_back() -> None:
    async with at_work(is_apart=False) as (actor, peer, answers):
        actor.go_on.set()
        await actor.drain(Phase.STOP_TAKING)
        await actor.drain(Phase.FINISH)
        await actor.drain(Phase.RELEASE)
        assert await peer.ask(RENEW) == DONE
        await actor.drain(Phase.CLOSE)
        with pytest.raises(NoResponders):
            await peer.ask(RENEW)
        assert answers == [DONE]
