"""``@read(cache_s=…)`` in whole runs: the tool is asked once, and everything else is as ever."""

import json
from typing import Any

import pytest

from messages import events as e
from messages.status import Reason, Status
from runtime.model.scripted import Turn
from tests.flow.desk import Desk, pay
from tests.flow.stage import Stage
from treadle import Agent, Ctx, read
from treadle.testing import call, finish, turn

TOLD = "fetched 0 s ago; not read again"


@read(source="shelf", cache_s=60)
async def glance(ctx: Ctx[Desk], key: str) -> str:
    """Look at one thing, which does not change much."""
    ctx.deps.requests.append(f"glance:{key}")
    await ctx.deps.fault("glance")
    return f"{key} is {len(ctx.deps.requests)}"


@read(source="shelf", cache_s=60)
async def heap(ctx: Ctx[Desk]) -> list[int]:
    """Look at more than an entry takes."""
    ctx.deps.requests.append("heap")
    return list(range(30_000))


def stage(*turns: Turn, **options: Any) -> tuple[Stage, Desk]:
    desk = Desk()
    agent = Agent("desk", model="m", instructions="Do it.", tools=[glance, heap, pay], **options)
    return Stage(agent, script=list(turns), deps=desk), desk


def told(on: Stage, request: int, place: int = 0) -> dict[str, Any]:
    return json.loads(on.model.requests[request].messages[-1]["content"][place]["content"])


async def test_a_young_answer_is_given_again_and_the_model_sees_it() -> None:
    on, desk = stage(call(glance, key="a"), call(glance, key="a"), finish("ok"))
    await on.create()
    state = await on.play()
    assert (state.status, desk.requests) == (Status.SUCCEEDED, ["glance:a"])
    first, again = state.evidence
    assert (again.id, again.reused, again.duration_s) == ("ev-2", "ev-1", 0.0)
    assert (again.payload, again.request_id) == (first.payload, first.request_id)
    assert again.fetched_at == first.fetched_at
    assert told(on, 2)["notes"] == [f"from ev-1, {TOLD}"]
    assert told(on, 2)["data"] == "a is 1"
    assert "notes" not in told(on, 1)
    assert (state.tool_calls, state.tool_s) == (1, first.duration_s)
    allowed = [x for x in await on.events() if isinstance(x, e.Authorised)]
    assert len(allowed) == 2, "authority is asked for each time"


async def test_other_arguments_are_another_question() -> None:
    on, desk = stage(call(glance, key="a"), call(glance, key="b"), finish("ok"))
    await on.create()
    await on.play()
    assert desk.requests == ["glance:a", "glance:b"]


async def test_an_old_answer_is_fetched_again() -> None:
    waiting = call("wait", seconds=60, why="it may change")
    on, desk = stage(call(glance, key="a"), waiting, call(glance, key="a"), finish("ok"))
    await on.create()
    async with on.life() as life:
        await life.rest(until=lambda s: s.status is Status.WAITING)
        on.late_s += 61
        await life.rest()
    assert desk.requests == ["glance:a", "glance:a"]


async def test_an_answer_from_before_a_write_is_fetched_again() -> None:
    turns = [call(glance, key="a"), call(pay, key="p"), call(glance, key="a")]
    on, desk = stage(*turns, call(glance, key="a"), finish("ok"))
    await on.create()
    state = await on.play()
    assert desk.requests == ["glance:a", "pay:p:v1", "glance:a"]
    assert [item.reused for item in state.evidence] == ["", "", "", "ev-3"]


async def test_a_read_beside_a_write_is_made() -> None:
    both = turn(call(glance, key="a"), call(pay, key="p"))
    on, desk = stage(call(glance, key="a"), both, call(glance, key="a"), finish("ok"))
    await on.create()
    await on.play()
    assert sorted(desk.requests) == ["glance:a", "glance:a", "glance:a", "pay:p:v1"]


async def test_an_error_is_no_answer_to_keep() -> None:
    on, desk = stage(call(glance, key="a"), call(glance, key="a"), finish("ok"))
    desk.faults["glance"] = [ValueError("no")]
    await on.create()
    state = await on.play()
    assert desk.requests == ["glance:a", "glance:a"]
    assert [record.outcome for record in state.tool_history] == ["error", "ok"]


async def test_equal_calls_of_one_turn_both_run() -> None:
    on, desk = stage(turn(call(glance, key="a"), call(glance, key="a")), finish("ok"))
    await on.create()
    await on.play()
    assert desk.requests == ["glance:a", "glance:a"]


@pytest.mark.parametrize("where", ["before", "after"])
async def test_what_is_durable_is_used_after_a_restart(where: str) -> None:
    """The entry with the answer is the second: nothing of it is known if it was never written."""
    on, desk = stage(call(glance, key="a"), call(glance, key="a"), finish("ok"))
    await on.create()
    doomed = iter([where])

    def die(append: Any) -> str:
        is_read = any(isinstance(event, e.Observed) for event in append.events)
        return next(doomed, "") if is_read else ""

    on.ledger.die = die
    state = await on.play()
    assert (on.deaths, state.status) == (1, Status.SUCCEEDED)
    reused = [item.reused for item in state.evidence]
    assert reused == ["", "ev-1"]
    assert desk.requests == ["glance:a"] * (1 if where == "after" else 2)


async def test_what_lies_in_the_artifacts_stays_there() -> None:
    on, desk = stage(call(heap), call(heap), finish("ok"))
    await on.create()
    first, again = (await on.play()).evidence
    assert desk.requests == ["heap"]
    assert first.ref is not None
    assert (again.ref, again.payload, again.reused) == (first.ref, first.payload, "ev-1")


async def test_reading_the_same_again_and_again_is_no_progress() -> None:
    on, desk = stage(*[call(glance, key="a")] * 6)
    await on.create()
    state = await on.play()
    assert (state.status, state.reason) == (Status.NO_PROGRESS, Reason.REPEATED_ACTION)
    assert (desk.requests, state.step_count) == (["glance:a"], 4)
