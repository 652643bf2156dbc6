"""The bus while its NATS server dies, comes back, comes back empty, or throws it out."""

import os
import shutil
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest

from messages import subjects
from messages.base import Message, Request
from messages.errors import RemoteFailure, Silent, TreadleError, Unreachable
from messages.ledger import Done, Renew
from runtime.bus import client
from runtime.bus.bus import WireBus
from runtime.bus.port import Work
from runtime.bus.server import EmbeddedServer
from tests.nats_fixtures import QUICK

pytestmark = pytest.mark.anyio

RENEW = Renew(process="p", lease_s=5.0)
TASK = subjects.task("default", "submitter", "refund")


async def done(_request: Request[object], _work: Work) -> Message:
    return Done(now=1.0)


@pytest.fixture
async def server(data_dir: Path) -> AsyncGenerator[EmbeddedServer]:
    async with EmbeddedServer(data_dir) as running:
        yield running


@pytest.fixture
async def bus(server: EmbeddedServer) -> AsyncGenerator[WireBus]:
    async with client.connect(server.url, server.users["daemon"], pace=QUICK) as connected:
        yield connected


@pytest.fixture
async def submitter(server: EmbeddedServer) -> AsyncGenerator[WireBus]:
    async with client.connect(server.url, server.users["submitter"], pace=QUICK) as connected:
        yield connected


async def kill(server: EmbeddedServer, *buses: WireBus) -> None:
    """End the server and return when everybody has noticed."""
    os.kill(server.pid, signal.SIGKILL)
    with anyio.fail_after(5):
        while any(bus.wire.is_connected for bus in buses):  # noqa: ASYNC110 -- no event for it
            await anyio.sleep(0.005)


async def ask_until_answered(bus: WireBus) -> None:
    with anyio.fail_after(10):
        while True:
            try:
                await bus.ask(RENEW, deadline_s=1.0)
            except TreadleError:
                await anyio.sleep(0.01)
            else:
                return


async def test_a_client_comes_back_and_asks_and_serves_again(
    server: EmbeddedServer, bus: WireBus
) -> None:
    async with bus.serve("checkpointer", done):
        assert await bus.ask(RENEW) == Done(now=1.0)
        await kill(server, bus)
        await server.restart()
        await ask_until_answered(bus)
    assert bus.open_asks == 0


async def test_an_ask_while_there_is_no_server_waits_and_then_says_so(
    server: EmbeddedServer, bus: WireBus
) -> None:
    await kill(server, bus)
    with anyio.fail_after(3), pytest.raises(Unreachable):
        await bus.ask(RENEW, silence_s=0.1)
    answered = anyio.Event()

    async def ask_early() -> None:
        await ask_until_answered(bus)
        answered.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask_early)
        await server.restart()
        async with bus.serve("checkpointer", done):
            with anyio.fail_after(10):
                await answered.wait()


async def test_an_ask_in_flight_when_the_server_dies_ends_as_silent(
    server: EmbeddedServer, bus: WireBus, submitter: WireBus
) -> None:
    entered = anyio.Event()

    async def hang(_request: Request[object], _work: Work) -> Message:
        entered.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with (
        client.connect(server.url, server.users["daemon"], pace=QUICK) as peer,
        peer.serve("checkpointer", hang),
        anyio.create_task_group() as tasks,
    ):

        async def one() -> None:
            with pytest.raises(Silent):
                await bus.ask(RENEW)

        tasks.start_soon(one)
        await entered.wait()
        await kill(server, bus, peer, submitter)


async def test_a_worker_next_door_is_heard_while_the_server_is_away(
    server: EmbeddedServer, bus: WireBus, submitter: WireBus
) -> None:
    entered, go_on = anyio.Event(), anyio.Event()

    async def work(_request: Request[object], _work: Work) -> Message:
        entered.set()
        await go_on.wait()
        return Done(now=1.0)

    async with bus.serve("checkpointer", work), anyio.create_task_group() as tasks:

        async def one() -> None:
            assert await bus.ask(RENEW) == Done(now=1.0)

        tasks.start_soon(one)
        await entered.wait()
        await kill(server, bus, submitter)
        await anyio.sleep(2 * QUICK.silence_s)
        go_on.set()


async def test_a_consumer_goes_on_after_a_restart(
    server: EmbeddedServer, bus: WireBus, submitter: WireBus
) -> None:
    await bus.prepare_streams(["refund"])
    async with bus.consume(subjects.TASKS_STREAM, "gateway") as tasks:
        await submitter.publish_durable(TASK, b"before", message_id="1")
        with anyio.fail_after(5):
            await (await tasks.receive()).ack()
        await kill(server, bus, submitter)
        await server.restart()
        await submitter.publish_durable(TASK, b"after", message_id="2")
        with anyio.fail_after(5):
            task = await tasks.receive()
        assert task.data == b"after"
        await task.ack()


async def test_what_was_acknowledged_survives_the_death_of_the_server(
    server: EmbeddedServer, bus: WireBus, submitter: WireBus
) -> None:
    await bus.prepare_streams(["refund"])
    for number in range(20):
        await submitter.publish_durable(TASK, str(number).encode(), message_id=str(number))
    await kill(server, bus, submitter)
    await server.restart()
    seen: list[int] = []
    async with bus.consume(subjects.TASKS_STREAM, "gateway") as tasks:
        with anyio.fail_after(10):
            while len(seen) < 20:
                task = await tasks.receive()
                await task.ack()
                seen.append(int(task.data))
    assert seen == list(range(20))


@pytest.mark.blocking("wipes the server's store")
async def test_streams_are_made_again_when_the_server_comes_back_empty(
    server: EmbeddedServer, bus: WireBus, submitter: WireBus, data_dir: Path
) -> None:
    await bus.prepare_streams(["refund"])
    created = await bus.stream_created(subjects.RESULTS_STREAM)
    async with bus.consume(subjects.TASKS_STREAM, "gateway") as tasks:
        await kill(server, bus, submitter)
        shutil.rmtree(data_dir / "nats" / "store")
        await server.restart()
        await submitter.publish_durable(TASK, b"after", message_id="1")
        with anyio.fail_after(10):
            assert (await tasks.receive()).data == b"after"
    assert await bus.stream_created(subjects.RESULTS_STREAM) != created


async def test_a_connection_that_is_closed_for_good_ends_its_body(server: EmbeddedServer) -> None:
    async def be_thrown_out() -> None:
        async with client.connect(server.url, server.users["daemon"], pace=QUICK) as bus:
            wire = bus.wire
            assert isinstance(wire, client.NatsWire)
            # Past our own check: the server answers this with an error that ends the connection.
            too_much = {"x": "y" * 2048}
            await wire._client.publish("treadle.wakes.t.r", b"x" * 1024 * 1024, "", too_much)
            await anyio.sleep_forever()

    with anyio.fail_after(5), pytest.raises(Unreachable):
        await be_thrown_out()


async def test_a_cancelled_flush_leaves_the_connection_alive(bus: WireBus) -> None:
    async with bus.serve("checkpointer", done):
        for _ in range(20):
            with anyio.move_on_after(0):
                await bus.wire.flush()
        await bus.wire.flush()
        assert await bus.ask(RENEW) == Done(now=1.0)


def is_frozen(pid: int) -> bool:
    """Whether each thread has stopped; the signal alone leaves some a moment to answer."""
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return all(t.read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T" for t in threads)


@pytest.mark.blocking("looks at /proc")
async def test_a_frozen_server_is_noticed(server: EmbeddedServer, bus: WireBus) -> None:
    async with bus.serve("checkpointer", done):
        os.kill(server.pid, signal.SIGSTOP)
        try:
            with anyio.fail_after(5):
                while not is_frozen(server.pid):  # noqa: ASYNC110 -- no event for it
                    await anyio.sleep(0.002)
            with anyio.fail_after(3), pytest.raises(Silent):
                await bus.ask(RENEW)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        await ask_until_answered(bus)


async def test_when_a_peer_has_left_the_next_one_serves(
    server: EmbeddedServer, bus: WireBus
) -> None:
    async def fail(_request: Request[object], _work: Work) -> Message:
        message = "this one is alive"
        raise ValueError(message)

    peer = server.users["checkpointer"]
    async with (
        client.connect(server.url, peer, pace=QUICK) as other,
        other.serve("checkpointer", fail),
    ):
        with pytest.raises(RemoteFailure):
            await bus.ask(RENEW)
    async with bus.serve("checkpointer", done):
        assert await bus.ask(RENEW) == Done(now=1.0)
