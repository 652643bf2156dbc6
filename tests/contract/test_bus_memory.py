"""What only the bus in memory can be asked: time that a test moves, and a connection cut off."""

import anyio
import anyio.lowlevel
import pytest

from messages import subjects
from messages.base import Message, Request
from messages.errors import DeadlineExceeded, NoResponders, Unreachable
from messages.ledger import Done, Renew
from runtime.bus import memory, memory_streams
from runtime.bus.port import Work
from runtime.bus.streams import ACK_WAIT_S
from runtime.clock import FakeClock

pytestmark = pytest.mark.anyio

RENEW = Renew(process="p", lease_s=5.0)
TASK = subjects.task("default", "submitter", "refund")


async def turns() -> None:
    """Let everything that can run do so."""
    for _ in range(50):
        await anyio.lowlevel.checkpoint()


async def hang(_request: Request[object], _work: Work) -> Message:
    await anyio.sleep_forever()
    raise AssertionError


@pytest.mark.parametrize(
    ("pattern", "subject", "is_match"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.b.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("a.*.c", "a.b.c", True),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
    ],
)
def test_wildcards_match_as_in_nats(pattern: str, subject: str, *, is_match: bool) -> None:
    assert memory_streams.matches(pattern.split("."), subject.split(".")) is is_match


async def test_limits_are_kept_by_the_clock_that_was_given() -> None:
    clock = FakeClock()
    async with memory.connect(memory.Hub(clock)) as bus, bus.serve("checkpointer", hang):
        ended = anyio.Event()

        async def one() -> None:
            with pytest.raises(DeadlineExceeded):
                await bus.ask(RENEW, deadline_s=60.0)
            ended.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one)
            for _ in range(230):  # heartbeats keep it for as long as time goes on in steps
                await turns()
                clock.advance(0.25)
            await turns()
            assert not ended.is_set()
            clock.advance(5.0)
            with anyio.fail_after(5):
                await ended.wait()


async def test_a_task_that_nobody_acknowledged_comes_again() -> None:
    clock = FakeClock()
    async with memory.connect(memory.Hub(clock)) as bus:
        await bus.prepare_streams(["refund"])
        await bus.publish_durable(TASK, b"x", message_id="1")
        async with bus.consume(subjects.TASKS_STREAM, "gateway") as tasks:
            assert (await tasks.receive()).deliveries == 1
            clock.advance(ACK_WAIT_S - 0.5)
            await turns()
            with pytest.raises(anyio.WouldBlock):
                tasks.receive_nowait()
            clock.advance(1.0)
            with anyio.fail_after(5):
                assert (await tasks.receive()).deliveries == 2


async def test_a_connection_that_is_cut_fails_its_own_asks_and_serves_nobody() -> None:
    async def done(_request: Request[object], _work: Work) -> Message:
        return Done(now=1.0)

    hub = memory.Hub()
    async with (
        memory.connect(hub) as bus,
        memory.connect(hub) as peer,
        peer.serve("checkpointer", done),
    ):
        assert await bus.ask(RENEW) == Done(now=1.0)
        wire = peer.wire
        assert isinstance(wire, memory.MemoryWire)
        wire.cut()
        with pytest.raises(NoResponders):
            await bus.ask(RENEW)
        with pytest.raises(Unreachable):
            await peer.ask(RENEW)
