"""What lasts on a bus: tasks, results, dead letters, and who is there."""

import anyio
import anyio.abc
import msgspec
import pytest

from messages import subjects
from messages.errors import (
    NoResponders,
    NotFound,
)
from runtime.bus.bus import WireBus
from runtime.bus.port import MAX_TRIES, TaskDelivery
from runtime.bus.presence import Presence
from tests.contract.bus_network import receive

pytestmark = pytest.mark.anyio


# ---------------------------------------------------------------------------------- streams

TASK = subjects.task("default", "submitter", "refund")


async def next_task(tasks: "anyio.abc.ObjectReceiveStream[TaskDelivery]") -> TaskDelivery:
    with anyio.fail_after(5):
        return await tasks.receive()


async def test_a_task_is_kept_until_it_is_acknowledged(
    bus: WireBus, peer: WireBus, submitter: WireBus
) -> None:
    await bus.prepare_streams(["refund"])
    await submitter.publish_durable(TASK, b"one", message_id="1")
    await submitter.publish_durable(TASK, b"one", message_id="1")
    async with peer.consume(subjects.TASKS_STREAM, "gateway") as tasks:
        first = await next_task(tasks)
        assert (first.subject, first.data, first.deliveries) == (TASK, b"one", 1)
        await first.extend()
        await first.retry(0.0)
        again = await next_task(tasks)
        assert (again.sequence, again.deliveries) == (first.sequence, 2)
        await again.ack()
        await submitter.publish_durable(TASK, b"two", message_id="2")
        dropped = await next_task(tasks)
        assert dropped.data == b"two"
        await dropped.drop("malformed")
        await submitter.publish_durable(TASK, b"three", message_id="3")
        assert (await next_task(tasks)).data == b"three"


async def test_how_often_a_task_was_delivered_is_told_beyond_the_limit(
    bus: WireBus, submitter: WireBus
) -> None:
    await bus.prepare_streams(["refund"])
    await submitter.publish_durable(TASK, b"poison", message_id="1")
    async with bus.consume(subjects.TASKS_STREAM, "gateway") as tasks:
        for delivery in range(1, MAX_TRIES + 2):
            task = await next_task(tasks)
            assert task.deliveries == delivery
            await task.retry(0.0)


async def test_what_nobody_took_is_given_back_at_once(
    bus: WireBus, peer: WireBus, submitter: WireBus
) -> None:
    await bus.prepare_streams(["refund"])
    for number in range(5):
        await submitter.publish_durable(TASK, str(number).encode(), message_id=str(number))
    async with peer.consume(subjects.TASKS_STREAM, "gateway") as tasks:
        await (await next_task(tasks)).ack()
    seen: set[bytes] = set()
    async with bus.consume(subjects.TASKS_STREAM, "gateway") as tasks:
        while len(seen) < 4:
            task = await next_task(tasks)
            seen.add(task.data)
            await task.ack()
    assert seen == {b"1", b"2", b"3", b"4"}


async def test_an_unknown_agent_is_refused_at_the_publisher(
    bus: WireBus, submitter: WireBus
) -> None:
    await bus.prepare_streams(["refund"])
    with pytest.raises(NoResponders):
        await submitter.publish_durable(
            subjects.task("default", "submitter", "other"), b"", message_id="1"
        )
    await bus.prepare_streams(["refund", "other"])
    await submitter.publish_durable(
        subjects.task("default", "submitter", "other"), b"", message_id="1"
    )


async def test_the_newest_result_of_a_run_can_be_read(bus: WireBus, submitter: WireBus) -> None:
    await bus.prepare_streams(["refund"])
    result = subjects.result("default", "run-1")
    assert await bus.last(subjects.RESULTS_STREAM, result) is None
    async with submitter.subscribe("treadle.results.default.*") as heard:
        await bus.publish_durable(result, b"first", message_id="run-1.1")
        await bus.publish_durable(result, b"second", message_id="run-1.2")
        assert [(await receive(heard)).data for _ in range(2)] == [b"first", b"second"]
    assert await submitter.last(subjects.RESULTS_STREAM, result) == b"second"


async def test_a_stream_says_when_it_was_created(bus: WireBus, peer: WireBus) -> None:
    with pytest.raises(NotFound):
        await bus.stream_created(subjects.RESULTS_STREAM)
    await bus.prepare_streams(["refund"])
    created = await bus.stream_created(subjects.RESULTS_STREAM)
    await peer.prepare_streams(["refund", "other"])
    assert await bus.stream_created(subjects.RESULTS_STREAM) == created


async def test_dead_letters_are_kept(bus: WireBus, peer: WireBus) -> None:
    await bus.prepare_streams(["refund"])
    letter = subjects.dead("default", "tasks", "1")
    await bus.publish_durable(letter, b"why", message_id="1")
    assert await peer.last(subjects.DEAD_STREAM, letter) == b"why"


async def test_stored_messages_are_read_in_order_and_taken_out(bus: WireBus) -> None:
    await bus.prepare_streams(["refund"])
    for name in ("1", "2"):
        letter = subjects.dead("default", "tasks", name)
        await bus.publish_durable(letter, name.encode(), message_id=name)
    await bus.publish_durable(subjects.dead("acme", "tasks", "1"), b"no", message_id="other")
    ours = subjects.dead("default", "*", "*")
    first = await bus.stored(subjects.DEAD_STREAM, ours)
    assert first is not None
    assert (first.subject, first.data) == (subjects.dead("default", "tasks", "1"), b"1")
    second = await bus.stored(subjects.DEAD_STREAM, ours, after=first.sequence)
    assert second is not None
    assert second.data == b"2"
    assert await bus.stored(subjects.DEAD_STREAM, ours, after=second.sequence) is None
    await bus.discard(subjects.DEAD_STREAM, first.sequence)
    with pytest.raises(NotFound):
        await bus.discard(subjects.DEAD_STREAM, first.sequence)
    left = await bus.stored(subjects.DEAD_STREAM, ours)
    assert left == second


async def test_a_role_served_by_other_means_is_listed(bus: WireBus, peer: WireBus) -> None:
    presence = Presence(role="gateway", subject="treadle.api.>", served=3, running=1)
    async with peer.listed(presence):
        [stats] = await bus.survey("$SRV.STATS.treadle-gateway", within_s=0.2)
    (endpoint,) = msgspec.json.decode(stats)["endpoints"]
    counts = {"running": 1, "pending": 0, "served": 3, "refused": 0}
    assert endpoint["data"] == {**counts, "breakers": {}}


async def test_roles_that_come_at_once_answer_once(bus: WireBus, peer: WireBus) -> None:
    async def serve(role: str) -> None:
        async with peer.listed(Presence(role=role, subject=role)):
            await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        for role in ("planner", "monitor", "executor"):
            tasks.start_soon(serve, role)
        await anyio.wait_all_tasks_blocked()
        assert len(await bus.survey("$SRV.PING", within_s=0.3)) == 3
        assert peer.roles == {"planner", "monitor", "executor"}
        tasks.cancel_scope.cancel()
    assert peer.roles == frozenset()
