"""The refund task over the public surface: a plain NATS client, a person, and kill -9."""

import json
from typing import Any

import anyio
import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.errors import NotFoundError

from tests.system.daemon import Daemon, ask, listen, stream

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

GOAL = "Order 8472 was charged twice, and my refund has not arrived."
HOPS = {
    "treadle.rpc.checkpointer.take": "1 observe",
    "treadle.rpc.planner.decide": "2 build the input, 3 decide",
    "treadle.rpc.validator.validate": "4 validate",
    "treadle.rpc.authoriser.authorise": "5 authorise",
    "treadle.rpc.executor.lookup_order.execute": "6 execute a read",
    "treadle.rpc.executor.issue_refund.recheck": "6 recheck a write",
    "treadle.rpc.executor.issue_refund.execute": "6 execute a write",
    "treadle.rpc.checkpointer.claim": "6 claim it",
    "treadle.rpc.checkpointer.settle": "6 settle it",
    "treadle.rpc.checkpointer.append": "7 record",
    "treadle.rpc.monitor.assess": "8 progress",
    "treadle.rpc.monitor.judge": "8 completion",
}


async def publish(client: Client, run_id: str, agent: str = "refund", **more: object) -> None:
    task = {"goal": GOAL, "run_id": run_id, **more}
    ack = await stream(client).publish(
        f"treadle.tasks.default.submitter.{agent}", json.dumps(task).encode(), timeout=5
    )
    assert ack.stream == "TREADLE_TASKS"


async def result_of(client: Client, run_id: str, *, within_s: float = 30.0) -> dict[str, Any]:
    """The terminal result, by direct get, as any client would read it."""
    with anyio.fail_after(within_s):
        while True:
            try:
                message = await stream(client).get_last_msg(
                    "TREADLE_RESULTS", f"treadle.results.default.{run_id}", direct=True
                )
            except NotFoundError:
                await anyio.sleep(0.05)
                continue
            assert message.data is not None
            return json.loads(message.data)


async def approve_all(daemon: Daemon, run_id: str, *, within_s: float = 30.0) -> None:
    """Approve what the run asks for, with the approver's own credentials."""
    async with daemon.client("approver") as person, daemon.client("operator") as operator:
        with anyio.fail_after(within_s):
            while True:
                shown = await ask(operator, "show", {"run_id": run_id}, "operator")
                status = shown.get("status")  # None: the task is still in the stream
                if status not in {None, "QUEUED", "RUNNING", "WAITING", "AWAITING_APPROVAL"}:
                    return
                listed = await ask(operator, "approvals", {}, "operator")
                for approval in listed["approvals"]:
                    body = {"approval_id": approval["id"], "action": approval["action_hash"]}
                    await ask(person, "approve", body, "approver")
                await anyio.sleep(0.02)


async def test_a_plain_client_submits_and_reads_the_result(daemon: Daemon) -> None:
    await daemon.up()
    async with daemon.client("submitter") as client:
        await publish(client, "x1")
        await approve_all(daemon, "x1")
        result = await result_of(client, "x1")
    assert (result["status"], result["reason"]) == ("SUCCEEDED", "verified")
    assert result["output"]["refund_id"] == "rf_9001"
    kinds = sorted(effect["kind"] for effect in await daemon.effects())
    assert kinds == ["notification", "refund"]
    assert await daemon.stop() == 0
    assert not await anyio.Path(daemon.data_dir / "connection.json").exists()


async def test_every_hop_of_the_eight_steps_is_seen_on_the_bus(daemon: Daemon) -> None:
    await daemon.up()
    seen: list[str] = []

    async def note(message: Msg) -> None:
        seen.append(message.subject)

    async with daemon.observer() as observer, daemon.client("submitter") as client:
        await listen(observer, "treadle.rpc.>", note)
        await publish(client, "x1")
        await approve_all(daemon, "x1")
        await result_of(client, "x1")
        await observer.flush()
    missing = {hop: step for hop, step in HOPS.items() if hop not in seen}
    assert not missing
    order = [seen.index(hop) for hop in list(HOPS)[:5]]
    assert order == sorted(order), "the first iteration's steps came in another order"


MOMENTS = [
    ("treadle.rpc.checkpointer.create", 1),
    ("treadle.rpc.checkpointer.take", 1),
    ("treadle.rpc.planner.decide", 1),
    ("treadle.rpc.validator.validate", 2),
    ("treadle.rpc.authoriser.authorise", 3),
    ("treadle.rpc.executor.search_policy.execute", 1),
    ("treadle.rpc.planner.decide", 4),
    ("treadle.rpc.executor.issue_refund.recheck", 1),
    ("treadle.rpc.checkpointer.decide-approval", 1),
    ("treadle.rpc.executor.issue_refund.execute", 1),
    ("treadle.rpc.checkpointer.claim", 1),
    ("treadle.rpc.checkpointer.settle", 1),
    ("treadle.rpc.planner.decide", 6),
    ("treadle.rpc.executor.notify_customer.execute", 1),
    ("treadle.rpc.checkpointer.settle", 2),
    ("treadle.rpc.monitor.judge", 1),
    ("treadle.rpc.checkpointer.published", 1),
]
"""(subject, count): the daemon is killed as soon as that many of them were seen on the bus."""


@pytest.mark.parametrize(("subject", "count"), MOMENTS)
async def test_kill_9_at_any_moment_refunds_once(daemon: Daemon, subject: str, count: int) -> None:
    await daemon.up()
    killed = anyio.Event()
    seen = 0

    async def kill_at_the_moment(message: Msg) -> None:
        nonlocal seen
        seen += message.subject == subject
        if seen == count and daemon.is_running:
            daemon.process.kill()
            killed.set()

    async with daemon.observer() as observer, daemon.client("submitter") as client:
        await listen(observer, "treadle.rpc.>", kill_at_the_moment)
        await publish(client, "x1")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_approve_until_killed, daemon)
            with anyio.fail_after(30):
                await killed.wait()
            await daemon.process.wait()
            tasks.cancel_scope.cancel()
    await daemon.up()
    async with daemon.client("submitter") as client:
        await approve_all(daemon, "x1")
        result = await result_of(client, "x1")
    assert (result["status"], result["reason"]) == ("SUCCEEDED", "verified"), await daemon.log()
    effects = await daemon.effects()
    assert sorted(effect["kind"] for effect in effects) == ["notification", "refund"]
    assert await daemon.stop() == 0


async def _approve_until_killed(daemon: Daemon) -> None:
    try:
        await approve_all(daemon, "x1")
    except (nats.errors.Error, OSError):
        await daemon.process.wait()  # the server went away under it
