"""What does not travel: replies to an asker on the same connection, and answers given in place."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from messages.base import Message, Request
from messages.checks import Validate, Validated
from messages.codec import decode
from messages.errors import NoResponders, NotFound, RemoteFailure, TooLarge, TreadleError, WireError
from messages.execution import Finding
from messages.ledger import Done, Fetch, Fetched, Missing, Renew
from messages.parts import Action, Problem
from runtime.bus.bus import WireBus
from runtime.bus.port import Delivery, Work
from tests.contract.bus_network import Network, reconcile, settled

pytestmark = pytest.mark.anyio

RENEW = Renew(process="p", lease_s=5.0)
DONE = Done(now=1.0)
MISSING = Missing(kind="run", name="r")
RPC = "treadle.rpc.checkpointer.renew"


class Desk:
    """A role that can answer at once, or has to be waited for."""

    def __init__(self, *, can: bool = True) -> None:
        self.can = can
        self.in_place = 0
        self.waited = 0

    def at_once(self, request: Request[object]) -> Message | None:
        if isinstance(request, Fetch):
            raise NotFound("artifact", request.sha256)
        if not self.can:
            return None
        self.in_place += 1
        return DONE

    async def handle(self, _request: Request[object], _work: Work) -> Message:
        self.waited += 1
        await anyio.lowlevel.checkpoint()
        return DONE


@asynccontextmanager
async def listening(bus: WireBus, subject: str) -> AsyncGenerator[list[Delivery]]:
    """What arrives on a subject until the block has ended and everything sent was read."""
    heard: list[Delivery] = []

    async def hear(delivery: Delivery) -> None:
        heard.append(delivery)

    subscription = await bus.wire.subscribe(subject, hear)
    try:
        yield heard
    finally:
        await subscription.close()


# ------------------------------------------------------------------ replies
async def test_a_reply_next_door_does_not_travel(bus: WireBus, peer: WireBus) -> None:
    desk = Desk()
    async with (
        bus.serve("checkpointer", desk.handle),
        listening(peer, f"{bus.wire.inbox}.>") as replies,
        listening(peer, RPC) as requests,
    ):
        assert await bus.ask(RENEW) == DONE
        await settled(bus, peer)
        assert [r.reply != "" for r in requests] == [True], "the request itself went over the bus"
        assert replies == []


async def test_a_reply_to_another_connection_travels(bus: WireBus, peer: WireBus) -> None:
    desk = Desk()
    async with (
        bus.serve("checkpointer", desk.handle),
        listening(bus, f"{peer.wire.inbox}.>") as replies,
    ):
        assert await peer.ask(RENEW) == DONE
        await settled(peer, bus)
        assert [decode(reply.data) for reply in replies] == [DONE]


async def test_what_is_too_large_to_travel_is_too_large_next_door(bus: WireBus) -> None:
    async def handle(_request: Request[object], _work: Work) -> Message:
        return Fetched(part=0, parts=1, data=b"x" * bus.wire.max_payload)

    async with bus.serve("checkpointer", handle):
        with pytest.raises(TooLarge):
            await bus.ask(Fetch(tenant="t", sha256="0" * 64))


# ------------------------------------------------------------------ in place
async def test_what_can_be_answered_in_place_is_answered_once_and_shown(
    bus: WireBus, peer: WireBus
) -> None:
    desk = Desk()
    async with (
        bus.serve("checkpointer", desk.handle, at_once=desk.at_once) as serving,
        listening(peer, RPC) as shown,
    ):
        assert await bus.ask(RENEW) == DONE
        await settled(bus, peer)
        assert [(decode(s.data), s.reply) for s in shown] == [(RENEW, "")]
        assert (desk.in_place, desk.waited) == (1, 0), "the shown request was not answered again"
        del serving


async def test_what_cannot_is_asked_over_the_bus(bus: WireBus, peer: WireBus) -> None:
    desk = Desk(can=False)
    async with (
        bus.serve("checkpointer", desk.handle, at_once=desk.at_once),
        listening(peer, RPC) as shown,
    ):
        assert await bus.ask(RENEW) == DONE
        await settled(bus, peer)
        assert [s.reply != "" for s in shown] == [True]
        assert (desk.in_place, desk.waited) == (0, 1)


async def test_another_connection_is_answered_over_the_bus(bus: WireBus, peer: WireBus) -> None:
    desk = Desk()
    async with (
        bus.serve("checkpointer", desk.handle, at_once=desk.at_once),
        listening(bus, f"{peer.wire.inbox}.>") as replies,
    ):
        assert await peer.ask(RENEW) == DONE
        await settled(peer, bus)
        assert len(replies) == 1
        assert (desk.in_place, desk.waited) == (1, 0)


async def test_a_failure_in_place_is_the_failure_of_the_bus(bus: WireBus, peer: WireBus) -> None:
    desk = Desk()
    fetch = Fetch(tenant="t", sha256="0" * 64)
    async with bus.serve("checkpointer", desk.handle, at_once=desk.at_once):
        with pytest.raises(TreadleError) as near:
            await bus.ask(fetch)
        with pytest.raises(TreadleError) as far:
            await peer.ask(fetch)
    assert type(near.value) is type(far.value)
    assert (near.value.code, near.value.message) == (far.value.code, far.value.message)


async def test_a_reply_of_another_kind_is_refused_in_place(bus: WireBus) -> None:
    async def handle(_request: Request[object], _work: Work) -> Message:
        raise AssertionError("it was answered at once")

    async with bus.serve(
        "checkpointer", handle, at_once=lambda _request: Missing(kind="run", name="r")
    ):
        with pytest.raises(RemoteFailure) as caught:
            await bus.ask(RENEW)
    assert caught.value.remote_code == "WIRE"


async def test_who_stops_serving_answers_nothing_in_place(network: Network) -> None:
    async with network.connect("daemon") as leaving, network.connect("daemon") as staying:
        there, here = Desk(), Desk()
        async with (
            leaving.serve("checkpointer", there.handle, at_once=there.at_once) as serving,
            staying.serve("checkpointer", here.handle, at_once=here.at_once),
        ):
            await serving.stop()
            await settled(leaving, staying)
            assert await leaving.ask(RENEW) == DONE
        assert (there.in_place, here.in_place) == (0, 1)


async def test_a_service_that_has_ended_is_forgotten(network: Network) -> None:
    async with network.connect("daemon") as one, network.connect("daemon") as other:
        first, second = Desk(), Desk()
        async with other.serve("checkpointer", second.handle, at_once=second.at_once):
            async with one.serve("checkpointer", first.handle, at_once=first.at_once):
                assert await one.ask(RENEW) == DONE
            assert await one.ask(RENEW) == DONE
        assert (first.in_place, second.in_place) == (1, 1)


async def test_what_json_cannot_carry_is_refused_in_place_too(bus: WireBus) -> None:
    desk = Desk()
    async with bus.serve("checkpointer", desk.handle, at_once=desk.at_once):
        with pytest.raises(WireError, match="cannot carry"):
            await bus.ask(Renew(process="\ud800", lease_s=5.0))


async def test_in_place_nothing_is_larger_than_what_travels(bus: WireBus, peer: WireBus) -> None:
    """A run must not depend on where its roles are."""
    desk, size = Desk(), bus.wire.max_payload
    huge = Fetched(part=0, parts=1, data=b"x" * size)

    async def handle(_request: Request[object], _work: Work) -> Message:
        raise AssertionError("it was answered at once")

    async with bus.serve("checkpointer", desk.handle, at_once=desk.at_once):
        with pytest.raises(TooLarge):
            await bus.ask(Renew(process="x" * size, lease_s=5.0))
        assert (desk.in_place, desk.waited) == (0, 0)
    async with bus.serve("checkpointer", handle, at_once=lambda _: huge):
        for asker in (bus, peer):
            with pytest.raises(TooLarge):
                await asker.ask(Fetch(tenant="t", sha256="0" * 64))


async def test_in_place_an_answer_is_what_its_bytes_say(bus: WireBus, peer: WireBus) -> None:
    action = Action(ordinal=0, tool="t", arguments={"pair": (1, 2)}, action_hash="h")
    answer = Validated(actions=(action,))
    request = Validate(tenant="t", run_id="r", agent="a", origin="r", step=1, calls=())
    async with bus.serve("validator", lambda _: answer, is_inline=True):
        replies = [await asker.ask(request) for asker in (bus, peer)]
    assert [r.actions[0].arguments for r in replies] == [{"pair": [1, 2]}] * 2


async def test_in_place_a_deadline_is_kept_and_others_get_their_turn(bus: WireBus) -> None:
    desk, turns = Desk(), 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with (
        bus.serve("checkpointer", desk.handle, at_once=desk.at_once),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(other)
        with anyio.move_on_after(0.05) as scope:
            while desk.in_place < 1_000_000:
                await bus.ask(RENEW)
        assert scope.cancelled_caught
        assert turns > 1
        tasks.cancel_scope.cancel()


async def test_in_place_only_the_tool_that_is_meant_answers(network: Network) -> None:
    async with network.connect("daemon") as bus:

        def answers(kind: str) -> Callable[[Request[object]], Message]:
            return lambda _: Finding(kind="absent", problem=Problem(code=kind, message=kind))

        async with (
            bus.serve("executor", answers("a"), tool="a", is_inline=True),
            bus.serve("executor", answers("b"), tool="b", is_inline=True),
        ):
            found = [await bus.ask(reconcile(tool)) for tool in ("a", "b")]
            assert [f.problem.code for f in found if f.problem] == ["a", "b"]
            with pytest.raises(NoResponders):
                await bus.ask(reconcile("c"))
