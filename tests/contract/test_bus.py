"""What every bus must do, asked of the one in memory and of a real NATS server."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import cast

import anyio
import anyio.lowlevel
import msgspec
import pytest

from messages import subjects
from messages.base import Beat, CancelAsk, Failure, Message, Request
from messages.checks import Validate, Validated
from messages.codec import decode, encode
from messages.errors import (
    BadGrant,
    Busy,
    Conflict,
    DeadlineExceeded,
    NoResponders,
    NotFound,
    RemoteFailure,
    Silent,
    StorageError,
    TooLarge,
    TreadleError,
)
from messages.execution import Finding
from messages.ledger import Done, Fetch, Fetched, Missing, Renew
from runtime.bus.bus import WireBus
from runtime.bus.port import Work
from tests.contract.bus_network import Network, receive, reconcile, settled, within

pytestmark = pytest.mark.anyio

RENEW = Renew(process="p", lease_s=5.0)
DONE = Done(now=1.0)
RPC = "treadle.rpc.checkpointer.renew"
CONTROL = "treadle.ctl.checkpointer"

Handler = Callable[[Request[object], Work], Awaitable[Message]]


class Nowhere(dict[str, object]):
    """Keeps nothing, so that nothing is answered in place."""

    def __setitem__(self, key: str, value: object) -> None:
        del key, value


def nobody(_reply: str, _data: bytes) -> bool:
    """Hears no reply."""
    return False


@pytest.fixture(params=["next door", "far"])
async def bus(
    network: Network, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[WireBus]:
    """A connection whose replies to itself take the short way, or travel like all others."""
    async with network.connect("daemon") as connected:
        if request.param == "far":
            monkeypatch.setattr(connected._desk, "_hear", nobody)
            monkeypatch.setattr(connected, "_near", Nowhere())
        yield connected


async def done(_request: Request[object], _work: Work) -> Message:
    return DONE


class Gate:
    """A handler that waits until it is let through, and says what happened to it."""

    def __init__(self, *, is_seen_through: bool = False) -> None:
        self.entered = anyio.Event()
        self.open = anyio.Event()
        self.cancelled = anyio.Event()
        self.calls = 0
        self._is_seen_through = is_seen_through

    async def __call__(self, _request: Request[object], work: Work) -> Message:
        if self._is_seen_through:
            work.see_through()
        self.calls += 1
        self.entered.set()
        try:
            await self.open.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.set()
            raise
        return DONE


def fetch(part: int = 0) -> Fetch:
    return Fetch(tenant="t", sha256="0" * 64, part=part)


# ---------------------------------------------------------------------------------- asking


async def test_a_request_gets_the_typed_reply_of_its_role(bus: WireBus, peer: WireBus) -> None:
    async with peer.serve("checkpointer", done):
        reply: Done = await bus.ask(RENEW)
    assert reply == DONE


async def test_an_inline_handler_answers_without_a_task(bus: WireBus) -> None:
    def validate(request: Request[object]) -> Message:
        assert isinstance(request, Validate)
        return Validated(output=request.agent)

    async with bus.serve("validator", validate, is_inline=True):
        reply = await bus.ask(Validate(tenant="t", run_id="r", agent="a", origin="r", step=1))
    assert reply.output == "a"


async def test_members_of_a_role_share_its_requests(
    bus: WireBus, peer: WireBus, network: Network
) -> None:
    served: list[str] = []

    def member(name: str) -> Handler:
        async def handle(_request: Request[object], _work: Work) -> Message:
            served.append(name)
            return DONE

        return handle

    async with network.connect("daemon") as third, AsyncExitStack() as stack:
        await stack.enter_async_context(peer.serve("checkpointer", member("one")))
        await stack.enter_async_context(third.serve("checkpointer", member("two")))
        for _ in range(60):
            await bus.ask(RENEW)
    assert len(served) == 60
    assert set(served) == {"one", "two"}


async def test_each_tool_of_the_executor_is_served_on_its_own(bus: WireBus, peer: WireBus) -> None:
    async def refund(_request: Request[object], _work: Work) -> Message:
        return Finding(kind="happened")

    async def lookup(_request: Request[object], _work: Work) -> Message:
        return Finding(kind="absent")

    async with peer.serve("executor", refund, tool="refund"):
        async with peer.serve("executor", lookup, tool="lookup"):
            assert (await bus.ask(reconcile("refund"))).kind == "happened"
            assert (await bus.ask(reconcile("lookup"))).kind == "absent"
        with pytest.raises(NoResponders):
            await bus.ask(reconcile("lookup"))
        assert (await bus.ask(reconcile("refund"))).kind == "happened"


async def test_nobody_there_is_said_at_once(bus: WireBus) -> None:
    with anyio.fail_after(1), pytest.raises(NoResponders):
        await bus.ask(RENEW, deadline_s=30.0)


async def test_a_thousand_asks_at_once_all_end(bus: WireBus, peer: WireBus) -> None:
    async def echo(request: Request[object], _work: Work) -> Message:
        return Fetched(part=cast("Fetch", request).part, parts=1, data=b"")

    parts: set[int] = set()

    async def one(part: int) -> None:
        reply = await bus.ask(fetch(part), deadline_s=30.0)
        assert isinstance(reply, Fetched)
        parts.add(reply.part)

    async with peer.serve("checkpointer", echo), anyio.create_task_group() as tasks:
        for part in range(1000):
            tasks.start_soon(one, part)
    assert parts == set(range(1000))
    assert bus.open_asks == 0


# ---------------------------------------------------------------------------------- patience


async def test_a_deadline_ends_the_ask_and_cancels_the_handler(bus: WireBus, peer: WireBus) -> None:
    gate = Gate()
    async with peer.serve("checkpointer", gate):
        with pytest.raises(DeadlineExceeded):
            await bus.ask(RENEW, deadline_s=0.2)
        await within(gate.cancelled)


async def test_a_worker_that_never_beats_is_given_up_and_told_so(
    bus: WireBus, peer: WireBus
) -> None:
    async with (
        peer.subscribe("treadle.rpc.checkpointer.*", queue="checkpointer") as requests,
        peer.subscribe(CONTROL) as cancels,
    ):
        with pytest.raises(Silent):
            await bus.ask(RENEW, silence_s=0.2)
        request = await receive(requests)
        cancel = decode((await receive(cancels)).data)
    assert cancel == CancelAsk(reply_to=request.reply)


async def test_heartbeats_keep_a_slow_handler(bus: WireBus, peer: WireBus) -> None:
    async def slow(_request: Request[object], work: Work) -> Message:
        work.beat("half way")
        await anyio.sleep(0.9)
        return DONE

    async with peer.serve("checkpointer", slow):
        assert await bus.ask(RENEW) == DONE


async def test_a_request_that_waits_for_a_slot_is_kept_too(bus: WireBus, peer: WireBus) -> None:
    gate = Gate()
    replies: list[Done] = []

    async def one() -> None:
        replies.append(await bus.ask(RENEW))

    async with peer.serve("checkpointer", gate, slots=1), anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        tasks.start_soon(one)
        await anyio.sleep(0.9)
        gate.open.set()
    assert replies == [DONE, DONE]


async def test_heartbeats_say_how_far_the_work_is(peer: WireBus, bus: WireBus) -> None:
    gate = Gate()

    async def slow(request: Request[object], work: Work) -> Message:
        assert 0.0 < work.seconds_left <= 30.0
        work.beat("2 of 3")
        return await gate(request, work)

    inbox = f"{bus.wire.inbox}.a.b.c"
    async with peer.serve("checkpointer", slow), bus.subscribe(inbox) as heard:
        await bus.publish(RPC, encode(RENEW), reply=inbox)
        assert decode((await receive(heard)).data) == Beat(progress="2 of 3")


async def test_words_that_json_cannot_carry_silence_nobody(peer: WireBus, bus: WireBus) -> None:
    async def slow(_request: Request[object], work: Work) -> Message:
        work.beat("half \ud800")
        await anyio.sleep(0.9)
        return DONE

    async with peer.serve("checkpointer", slow):
        assert await bus.ask(RENEW) == DONE
        assert await bus.ask(RENEW) == DONE, "the heartbeats of this connection go on"


async def test_a_quick_handler_sends_no_heartbeat(peer: WireBus, bus: WireBus) -> None:
    inbox = f"{bus.wire.inbox}.a.b.c"
    async with peer.serve("checkpointer", done), bus.subscribe(inbox) as heard:
        await bus.publish(RPC, encode(RENEW), reply=inbox)
        assert decode((await receive(heard)).data) == DONE


async def test_an_asker_that_is_cancelled_cancels_the_handler(bus: WireBus, peer: WireBus) -> None:
    gate = Gate()
    async with peer.serve("checkpointer", gate):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bus.ask, RENEW)
            await within(gate.entered)
            tasks.cancel_scope.cancel()
        await within(gate.cancelled)  # before the server leaves, which would cancel it anyway
    assert bus.open_asks == 0


async def test_work_that_is_seen_through_outlives_its_asker(bus: WireBus, peer: WireBus) -> None:
    gate = Gate(is_seen_through=True)
    async with peer.serve("checkpointer", gate, slots=1):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bus.ask, RENEW)
            await within(gate.entered)
            tasks.cancel_scope.cancel()
        await settled(bus, peer)
        assert not gate.cancelled.is_set()
        with pytest.raises(DeadlineExceeded):  # it keeps its slot
            await bus.ask(RENEW, deadline_s=0.1)
        gate.open.set()
        assert await bus.ask(RENEW) == DONE
    assert not gate.cancelled.is_set()


async def test_work_that_is_seen_through_ends_with_its_server(bus: WireBus, peer: WireBus) -> None:
    gate = Gate(is_seen_through=True)
    async with peer.serve("checkpointer", gate), anyio.create_task_group() as tasks:
        tasks.start_soon(bus.ask, RENEW)
        await within(gate.entered)
        tasks.cancel_scope.cancel()
    assert gate.cancelled.is_set()


async def test_a_cancelled_request_without_a_slot_is_never_started(
    bus: WireBus, peer: WireBus
) -> None:
    gate = Gate()
    async with peer.serve("checkpointer", gate, slots=1), anyio.create_task_group() as tasks:
        tasks.start_soon(bus.ask, RENEW)
        await within(gate.entered)
        with pytest.raises(DeadlineExceeded):
            await bus.ask(RENEW, deadline_s=0.1)
        await settled(bus, peer)
        gate.open.set()
        assert await bus.ask(RENEW) == DONE
    assert gate.calls == 2


async def test_a_late_reply_is_dropped(bus: WireBus, peer: WireBus) -> None:
    async with peer.subscribe("treadle.rpc.checkpointer.*", queue="checkpointer") as requests:
        with pytest.raises(DeadlineExceeded):
            await bus.ask(RENEW, deadline_s=0.1)
        first = await receive(requests)
        await peer.publish(first.reply, encode(Done(now=99.0)))

        async def answer() -> None:
            request = await receive(requests)
            await peer.publish(request.reply, encode(DONE))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            assert await bus.ask(RENEW) == DONE


async def test_a_request_past_its_deadline_is_dropped(bus: WireBus, peer: WireBus) -> None:
    gate = Gate()
    gate.open.set()
    async with peer.serve("checkpointer", gate):
        await bus.publish(RPC, encode(RENEW), reply=f"{bus.wire.inbox}.9.1000")
        assert await bus.ask(RENEW) == DONE
    assert gate.calls == 1


async def test_the_same_request_twice_is_worked_on_once(bus: WireBus, peer: WireBus) -> None:
    gate = Gate()
    async with peer.serve("checkpointer", gate):
        reply = f"{bus.wire.inbox}.9.99999999999999"
        await bus.publish(RPC, encode(RENEW), reply=reply)
        await within(gate.entered)
        await bus.publish(RPC, encode(RENEW), reply=reply)
        await settled(bus, peer)
        gate.open.set()
        assert await bus.ask(RENEW) == DONE
        await bus.publish(RPC, encode(RENEW), reply=reply)  # a copy of what was answered long ago
        assert await bus.ask(RENEW) == DONE
    assert gate.calls == 3


# ---------------------------------------------------------------------------------- overload


async def test_beyond_slots_and_pending_the_asker_hears_busy(bus: WireBus, peer: WireBus) -> None:
    gate = Gate()
    served: list[Done] = []

    async def one() -> None:
        served.append(await bus.ask(RENEW))

    async with peer.serve("checkpointer", gate, slots=2, pending=1):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(one)
            await within(gate.entered)
            with anyio.fail_after(1), pytest.raises(Busy):
                await bus.ask(RENEW)
            gate.open.set()
        assert await bus.ask(RENEW) == DONE
    assert served == [DONE] * 3


async def test_no_more_handlers_run_than_there_are_slots(bus: WireBus, peer: WireBus) -> None:
    running = most = 0

    async def count(_request: Request[object], _work: Work) -> Message:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(0.001)
        running -= 1
        return DONE

    async with peer.serve("checkpointer", count, slots=3), anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(bus.ask, RENEW)
    assert most == 3


# ---------------------------------------------------------------------------------- failures


@pytest.mark.parametrize(
    "error",
    [
        Conflict("decided already", why="ALREADY_DECIDED", hint="look"),
        NotFound("run", "r-1"),
        BadGrant("expired"),
        StorageError("disk full"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("is_inline", [True, False])
async def test_an_error_of_ours_arrives_as_itself(
    bus: WireBus, peer: WireBus, error: TreadleError, is_inline: bool
) -> None:
    async def fail(_request: Request[object], _work: Work) -> Message:
        raise error

    def fail_inline(_request: Request[object]) -> Message:
        raise error

    handler = fail_inline if is_inline else fail
    async with peer.serve("checkpointer", handler, is_inline=is_inline):
        with pytest.raises(type(error)) as caught:
            await bus.ask(RENEW)
    assert (caught.value.message, caught.value.hint) == (error.message, error.hint)


async def test_of_a_foreign_error_only_its_type_leaves(bus: WireBus, peer: WireBus) -> None:
    async def fail(_request: Request[object], _work: Work) -> Message:
        secret = "card 4111"
        raise ValueError(secret)

    async with peer.serve("checkpointer", fail):
        with pytest.raises(RemoteFailure) as caught:
            await bus.ask(RENEW)
    assert caught.value.remote_code == "INTERNAL"
    assert "ValueError" in caught.value.message
    assert "4111" not in caught.value.message


async def test_a_handlers_own_busy_is_not_taken_for_its_servers(
    bus: WireBus, peer: WireBus
) -> None:
    async def fail(_request: Request[object], _work: Work) -> Message:
        message = "the role it asked is full"
        raise Busy(message)

    async with peer.serve("checkpointer", fail):
        with pytest.raises(RemoteFailure) as caught:
            await bus.ask(RENEW)
    assert caught.value.remote_code == "HANDLER_BUSY"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"{nonsense", "WIRE"),
        (b"\xff\xfe", "WIRE"),
        (b'{"t":"renew/1","process":7}', "WIRE"),
        (b'{"t":"renew/9"}', "UNKNOWN_MESSAGE"),
        (b'{"t":"done/1","now":1}', "WIRE"),
        (b"[" * 100_000, "WIRE"),
        (encode(fetch()), "NOT_ALLOWED"),
    ],
    ids=["no json", "no utf-8", "wrong type", "newer", "no request", "deep", "other subject"],
)
async def test_what_is_no_request_gets_a_failure_and_harms_nobody(
    bus: WireBus, peer: WireBus, data: bytes, code: str
) -> None:
    async with peer.serve("checkpointer", done):
        answer = decode(await bus.request(RPC, data, timeout_s=5.0))
        assert isinstance(answer, Failure)
        assert answer.code == code
        assert await bus.ask(RENEW) == DONE


@pytest.mark.parametrize("data", [b"{nonsense", encode(Missing(kind="run", name="r"))])
async def test_a_reply_that_the_request_does_not_name_is_an_error(
    bus: WireBus, peer: WireBus, data: bytes
) -> None:
    async with (
        peer.subscribe("treadle.rpc.checkpointer.*", queue="checkpointer") as requests,
        anyio.create_task_group() as tasks,
    ):

        async def answer() -> None:
            await peer.publish((await receive(requests)).reply, data)

        tasks.start_soon(answer)
        with pytest.raises(RemoteFailure) as caught:
            await bus.ask(RENEW)
        assert caught.value.remote_code == "WIRE"


# ---------------------------------------------------------------------------------- size


async def test_what_is_too_large_is_refused_here_and_the_connection_lives(
    bus: WireBus, peer: WireBus
) -> None:
    megabyte = 1024 * 1024
    with pytest.raises(TooLarge):
        await bus.publish("treadle.events.t.r.x", b"x" * (megabyte + 1))
    with pytest.raises(TooLarge):
        await bus.publish(
            "treadle.events.t.r.x", b"x" * (megabyte - 8), headers={"traceparent": "0"}
        )
    async with peer.subscribe("treadle.signals.t.r") as heard:
        largest = b"x" * (megabyte - 64)
        await bus.publish("treadle.signals.t.r", largest, headers={"traceparent": "0" * 16})
        assert (await receive(heard)).data == largest
    async with peer.serve("checkpointer", done):
        assert await bus.ask(RENEW) == DONE


async def test_a_reply_that_is_too_large_becomes_the_failure_to_send_it(
    bus: WireBus, peer: WireBus
) -> None:
    async def huge(_request: Request[object], _work: Work) -> Message:
        return Fetched(part=0, parts=1, data=b"x" * 1024 * 1024)

    async with peer.serve("checkpointer", huge):
        with pytest.raises(TooLarge):
            await bus.ask(fetch())


# ---------------------------------------------------------------------------------- stopping


async def test_a_server_that_drains_takes_nothing_new_and_finishes(
    bus: WireBus, peer: WireBus
) -> None:
    gate = Gate()
    replies: list[Done] = []

    async def one() -> None:
        replies.append(await bus.ask(RENEW))

    async with peer.serve("checkpointer", gate) as serving, anyio.create_task_group() as tasks:
        tasks.start_soon(one)
        await within(gate.entered)
        await serving.stop()
        with pytest.raises(NoResponders):
            await bus.ask(RENEW)
        await serving.finish(0.05)
        assert not replies
        gate.open.set()
        await serving.finish(5.0)
    assert replies == [DONE]


async def test_a_server_that_leaves_answers_everybody_who_waits(
    bus: WireBus, peer: WireBus
) -> None:
    gate = Gate()
    codes: list[str] = []

    async def one() -> None:
        try:
            await bus.ask(RENEW)
        except RemoteFailure as error:
            codes.append(error.remote_code)
        except Busy as error:
            codes.append(error.code)

    async with anyio.create_task_group() as tasks, peer.serve("checkpointer", gate, slots=1):
        tasks.start_soon(one)
        await within(gate.entered)
        tasks.start_soon(one)
        while bus.open_asks < 2:
            await anyio.lowlevel.checkpoint()
        with pytest.raises(DeadlineExceeded):
            await bus.ask(RENEW, deadline_s=0.05)  # goes after the second: it has arrived
    assert sorted(codes) == ["BUSY", "STOPPED"]
    assert gate.cancelled.is_set()


async def test_an_error_in_the_body_leaves_bare(bus: WireBus) -> None:
    with pytest.raises(NotFound):
        async with bus.serve("checkpointer", done):
            raise NotFound("run", "r")


# ---------------------------------------------------------------------------------- plain messages


async def test_plain_messages_reach_every_subscriber_and_one_of_a_queue(
    bus: WireBus, peer: WireBus
) -> None:
    async with AsyncExitStack() as stack:
        everyone = await stack.enter_async_context(peer.subscribe("treadle.signals.t.*"))
        queue = [
            await stack.enter_async_context(b.subscribe("treadle.wakes.>", queue="orchestrator"))
            for b in (bus, peer)
        ]
        for number in range(20):
            await bus.publish("treadle.signals.t.r", str(number).encode())
            await bus.publish("treadle.wakes.t.r", b"w")
        heard = [int((await receive(everyone)).data) for _ in range(20)]
        await settled(bus, peer)
    assert heard == list(range(20))
    assert sum(stream.statistics().current_buffer_used for stream in queue) == 20


async def test_when_a_subscriber_is_slow_the_newest_is_dropped(bus: WireBus, peer: WireBus) -> None:
    async with (
        peer.subscribe("treadle.signals.t.r", pending=2) as heard,
        peer.subscribe("treadle.signals.t.last") as last,
    ):
        for number in range(5):
            await bus.publish("treadle.signals.t.r", str(number).encode())
        await bus.publish("treadle.signals.t.last", b"")
        await receive(last)
        await settled(bus, peer)
        assert [(await receive(heard)).data for _ in range(2)] == [b"0", b"1"]
        with pytest.raises(anyio.WouldBlock):
            heard.receive_nowait()


async def test_a_plain_request_gets_the_first_reply(submitter: WireBus, peer: WireBus) -> None:
    subject = subjects.api("default", "submitter", "show")
    async with (
        peer.subscribe("treadle.api.>", queue="gateway") as requests,
        anyio.create_task_group() as tasks,
    ):

        async def answer() -> None:
            await peer.publish((await receive(requests)).reply, b"shown")

        tasks.start_soon(answer)
        assert await submitter.request(subject, b"{}", timeout_s=5.0) == b"shown"
        with pytest.raises(DeadlineExceeded):
            await submitter.request(subject, b"{}", timeout_s=0.05)
    with pytest.raises(NoResponders):
        await submitter.request(subject, b"{}", timeout_s=5.0)


async def test_roles_answer_as_micro_services(bus: WireBus, peer: WireBus) -> None:
    async with peer.serve("checkpointer", done), peer.serve("planner", done):
        await bus.ask(RENEW)
        pings = [msgspec.json.decode(r) for r in await bus.survey("$SRV.PING", within_s=0.2)]
        stats = await bus.survey("$SRV.STATS.treadle-checkpointer", within_s=0.2)
    assert {ping["name"] for ping in pings} == {"treadle-checkpointer", "treadle-planner"}
    assert {ping["type"] for ping in pings} == {"io.nats.micro.v1.ping_response"}
    assert len(stats) == 1
    (endpoint,) = msgspec.json.decode(stats[0])["endpoints"]
    assert endpoint["num_requests"] == 1
    assert endpoint["queue_group"] == "checkpointer"
    counts = {"running": 0, "pending": 0, "served": 1, "refused": 0}
    assert endpoint["data"] == {**counts, "breakers": {}}
