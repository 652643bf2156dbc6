"""Tasks from the stream: a durable run or a dead letter, an answer, then the acknowledgement."""

from typing import Any

import anyio
import msgspec
import pytest

from actors.gateway import runs as runs_module
from actors.gateway.runs import Runs
from messages import subjects
from messages.ledger import Create
from messages.task import Accepted
from runtime.bus.memory_streams import StoredTask
from runtime.supervisor import Phase
from tests.flow.gateway_world import PATIENCE_S, World, world

REPLY_TO = "treadle.replies.default.submitter.t1"


def task(**fields: Any) -> bytes:
    return msgspec.json.encode({"goal": "Order 8472 was charged twice.", **fields})


async def answered(here: World, payload: bytes, **how: Any) -> Any:
    """What arrives on ``reply_to`` for a task."""
    async with here.bus.subscribe(REPLY_TO) as replies:
        await here.publish_task(payload, **how)
        with anyio.fail_after(PATIENCE_S):
            return msgspec.json.decode((await replies.receive()).data)


async def test_a_task_becomes_a_run_and_is_then_acknowledged() -> None:
    async with world() as here, here.bus.subscribe("treadle.wakes.>") as wakes:
        reply = await answered(here, task(run_id="r-1", reply_to=REPLY_TO, labels={"a": "b"}))
        assert reply == {"v": 1, "run_id": "r-1", "existing": False}
        await here.settled()
        assert (await wakes.receive()).subject == "treadle.wakes.default.r-1"
        run = await here.api("submitter", "show", run_id="r-1")
        assert run["status"] == "QUEUED"
        assert run["principal"] == "submitter"
        assert run["scopes"] == ["orders:read", "refunds:write"]
        assert run["labels"] == {"a": "b"}
        assert run["trace_id"].startswith("trace-")


async def test_the_same_run_id_again_is_the_same_run() -> None:
    async with world() as here:
        await answered(here, task(run_id="r-1", reply_to=REPLY_TO))
        reply = await answered(here, task(run_id="r-1", reply_to=REPLY_TO))
        assert reply == {"v": 1, "run_id": "r-1", "existing": True}
        assert len((await here.api("operator", "list"))["runs"]) == 1


@pytest.mark.parametrize(
    ("payload", "code", "is_answered"),
    [
        (b"\xff\xfe", "BAD_TASK", False),
        (b"[" * 3000, "BAD_TASK", False),
        (task(reply_to=REPLY_TO, scopes=["all"]), "BAD_TASK", True),
        (task(reply_to=REPLY_TO, limits={"max_steps": 1000}), "NOT_ALLOWED", True),
        (task(reply_to=REPLY_TO, run_id="no.id"), "BAD_IDENTIFIER", True),
        (task(reply_to="treadle.replies.default.other.t1"), "NOT_ALLOWED", False),
    ],
)
async def test_what_cannot_be_a_run_is_answered_kept_and_gone(
    payload: bytes, code: str, *, is_answered: bool
) -> None:
    async with world() as here, here.bus.subscribe("treadle.replies.>") as replies:
        await here.publish_task(payload)
        subject, letter = await here.letter()
        await here.settled()
        assert subject == "treadle.dead.default.tasks.1"
        assert letter["code"] == code
        assert letter["subject"] == "treadle.tasks.default.submitter.refund"
        assert letter["payload_bytes"] == len(payload)
        assert letter["deliveries"] == 1
        assert replies.statistics().current_buffer_used == int(is_answered)
        if is_answered:
            refusal = msgspec.json.decode(replies.receive_nowait().data)
            assert (refusal["v"], refusal["code"]) == (1, code)
        assert (await here.api("operator", "list"))["runs"] == []


async def test_an_agent_of_the_stream_that_this_app_has_not() -> None:
    async with world() as here:
        reply = await answered(here, task(reply_to=REPLY_TO), agent="gone")
        assert reply["code"] == "NOT_FOUND"
        await here.letter()


async def test_a_handler_that_fails_gives_up_after_three_tries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*_: object) -> Accepted:
        raise ZeroDivisionError("secret 4711")

    monkeypatch.setattr(Runs, "create", fail)
    monkeypatch.setattr("actors.gateway.tasks.RETRY_S", 0.0)
    async with world() as here:
        reply = await answered(here, task(run_id="r-1", reply_to=REPLY_TO))
        assert reply["code"] == "POISON"
        assert "ZeroDivisionError" in reply["message"]
        assert "4711" not in reply["message"]
        _, letter = await here.letter()
        assert letter["deliveries"] == 3


async def test_a_task_that_nobody_survived_is_set_aside() -> None:
    async with world(has_ledger=False) as here:
        shelf = here.hub.shelf
        stored = StoredTask(shelf, 9, "treadle.tasks.default.submitter.refund", task(run_id="r-1"))
        stored.deliveries = 3
        shelf.tasks[9] = stored
        shelf.changed()
        subject, letter = await here.letter()
        assert subject == "treadle.dead.default.tasks.9"
        assert letter["code"] == "POISON"


async def test_tasks_wait_while_the_ledger_is_away_and_are_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actors.gateway.tasks.FIRST_PAUSE_S", 0.01)
    async with world(has_ledger=False) as here, here.bus.subscribe(REPLY_TO) as replies:
        await here.publish_task(task(run_id="r-1", reply_to=REPLY_TO))
        stored = here.hub.shelf.tasks[1]
        await anyio.sleep(0.1)
        await here.start_ledger()
        with anyio.fail_after(PATIENCE_S):
            reply = msgspec.json.decode((await replies.receive()).data)
        assert reply == {"v": 1, "run_id": "r-1", "existing": False}
        assert stored.deliveries == 1
        assert here.hub.shelf.dead == []


async def test_a_task_without_a_run_id_is_one_run_however_often_it_is_delivered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    acks = 0
    real = StoredTask.ack

    async def lose_the_first(self: StoredTask) -> None:
        nonlocal acks
        acks += 1
        if acks == 1:
            raise ConnectionError
        await real(self)

    monkeypatch.setattr(StoredTask, "ack", lose_the_first)
    monkeypatch.setattr("actors.gateway.tasks.RETRY_S", 0.0)
    async with world() as here:
        first = await answered(here, task(reply_to=REPLY_TO))
        await here.settled()
        assert acks == 2
        assert [run["run_id"] for run in (await here.api("operator", "list"))["runs"]] == [
            first["run_id"]
        ]
        second = await answered(here, task(reply_to=REPLY_TO))
        assert second["run_id"] != first["run_id"]


async def test_a_run_is_durable_before_its_submitter_hears_of_it() -> None:
    order: list[str] = []
    async with world() as here:
        apply = here.ledger.apply

        async def watched(operations: Any) -> Any:
            answers = await apply(operations)
            order.extend("durable" for op in operations if isinstance(op, Create))
            return answers

        here.ledger.apply = watched
        await answered(here, task(run_id="r-1", reply_to=REPLY_TO))
        order.append("answered")
    assert order == ["durable", "answered"]


async def test_a_drain_takes_nothing_new_and_lets_what_is_under_way_finish(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started, go = anyio.Event(), anyio.Event()
    real = Runs.create

    async def slow(self: Runs, *args: Any) -> Accepted:
        started.set()
        await go.wait()
        return await real(self, *args)

    monkeypatch.setattr(runs_module.Runs, "create", slow)
    async with world() as here, here.bus.subscribe(REPLY_TO) as replies:
        assert here.gateway is not None
        await here.publish_task(task(run_id="r-1", reply_to=REPLY_TO))
        await started.wait()
        await here.gateway.drain(Phase.STOP_TAKING)
        await here.publish_task(task(run_id="r-2"))
        go.set()
        with anyio.fail_after(PATIENCE_S):
            await here.gateway.drain(Phase.FINISH)
        assert msgspec.json.decode(replies.receive_nowait().data)["run_id"] == "r-1"
        assert [stored.data for stored in here.hub.shelf.tasks.values()] == [task(run_id="r-2")]
        assert subjects.dead("default", "tasks", "1") not in here.hub.shelf.latest
        with anyio.fail_after(PATIENCE_S):
            await here.gateway.run()  # a restart while the process stops takes nothing either
        assert len(here.hub.shelf.tasks) == 1


async def test_a_task_that_waits_for_the_ledger_is_given_back_when_the_process_stops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actors.gateway.tasks.FIRST_PAUSE_S", 0.01)
    async with world(has_ledger=False) as here:
        assert here.gateway is not None
        await here.publish_task(task(run_id="r-1"))
        stored = here.hub.shelf.tasks[1]
        while stored.deliveries == 0:
            await here.hub.shelf.change()
        await here.gateway.drain(Phase.STOP_TAKING)
        with anyio.fail_after(PATIENCE_S):
            await here.gateway.drain(Phase.FINISH)
        assert stored.deliveries == 1
        assert list(here.hub.shelf.tasks.values()) == [stored]
