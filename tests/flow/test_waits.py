"""Wait-and-recheck in a whole run: no worker while it waits, a budget of its own, no stall."""

import json
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from messages import events as e
from messages.state import LoopState
from messages.status import Reason, Status
from runtime.model.scripted import Turn
from tests.flow.desk import Desk, agent, look, poll
from tests.flow.stage import Life, Stage
from treadle.testing import call, finish

READINGS = 10


def wait(seconds: Any = 60, why: str = "it is pending") -> Turn:
    return call("wait", seconds=seconds, why=why)


def stage(*turns: Turn, **options: Any) -> Stage:
    return Stage(agent(**options), script=list(turns), deps=Desk())


def told(on: Stage, request: int) -> dict[str, Any]:
    """What the model was told last in the newest message of a request."""
    block = on.model.requests[request].messages[-1]["content"][-1]
    return json.loads(block["content"])


async def pass_by(on: Stage, life: Life, seconds: float) -> LoopState:
    """The run waits, owned by nobody; then so much time is over."""
    state = await life.rest(until=lambda s: s.status is Status.WAITING)
    assert state is not None
    await on.owned(is_owned=False)
    on.late_s += seconds
    await life.rest(until=lambda s, version=state.version: s.version > version)
    return state


async def test_a_polling_story_of_ten_equal_answers_comes_to_its_end() -> None:
    polling = [call(poll, key="a"), wait()] * READINGS
    on = stage(*polling, call(poll, key="a"), finish("it never came"))
    await on.create()
    async with on.life() as life:
        for reading in range(READINGS):
            state = await pass_by(on, life, 61)
            assert state.until is not None
            assert state.waited_s == 60 * (reading + 1)
        ended = await life.rest()
    assert ended is not None
    assert (ended.status, ended.step_count) == (Status.SUCCEEDED, 2 * READINGS + 2)
    payloads = {str(item.payload) for item in ended.evidence}
    assert (len(ended.evidence), payloads) == (READINGS + 1, {"a is pending"})
    assert ended.seen.flagged == (), "polling is no lack of progress"
    assert ended.suspended_s > 60 * READINGS
    assert ended.active_s < 10


async def test_what_is_left_to_wait_is_told_after_the_first_wait() -> None:
    on = stage(call(look, key="a"), wait(), finish("ok"), max_wait=timedelta(minutes=2))
    await on.create()
    async with on.life() as life:
        await pass_by(on, life, 61)
        await life.rest()
    assert "wait_seconds" not in told(on, 1)["budget_left"]
    assert told(on, 2)["outcome"] == "done"
    assert told(on, 2)["budget_left"]["wait_seconds"] == 60


async def test_what_does_not_fit_is_told_and_waits_for_nothing() -> None:
    on = stage(wait(61), wait("soon"), finish("ok"), max_wait=timedelta(minutes=1))
    await on.create()
    state = await on.play()
    assert (state.status, state.suspended_s, state.waited_s) == (Status.SUCCEEDED, 0.0, 0.0)
    assert (told(on, 1)["error"], told(on, 2)["error"]) == ("WAIT_BUDGET", "BAD_ARGUMENTS")
    assert "wait 60 s or less" in told(on, 1)["hint"]
    assert on.model.requests[1].messages[-1]["content"][-1]["is_error"] is True


async def test_a_resume_of_what_is_not_paused_changes_nothing_of_a_wait() -> None:
    on = stage(wait(), finish("ok"))
    await on.create()
    async with on.life() as life:
        before = await life.rest(until=lambda s: s.status is Status.WAITING)
        assert before is not None
        await on.signal("resume")
        await life.nudge_wake()
        after = await life.rest(until=lambda s: s.version > before.version)
    assert after is not None
    assert (after.status, after.until) == (Status.WAITING, before.until)
    assert after.waited_s == before.waited_s == 60


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("place", range(1, 5))
async def test_the_process_may_die_at_any_write_of_a_wait(where: str, place: int) -> None:
    on = stage(call(poll, key="a"), wait(), finish("ok"))
    await on.create()
    writes = count(1)
    on.ledger.die = lambda _append: where if next(writes) == place else ""
    state = await on.play(until=lambda s: s.status is Status.WAITING)
    assert state.reason == Reason.TIMER
    on.late_s += 61
    state = await on.play()
    assert (state.status, state.waited_s) == (Status.SUCCEEDED, 60)
    assert on.deaths == 1
    waits = [x for x in await on.events() if isinstance(x, e.Suspended)]
    resumed = [x for x in await on.events() if isinstance(x, e.Resumed)]
    assert (len(waits), len(resumed)) == (1, 1)
