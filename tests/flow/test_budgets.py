"""Budgets in whole runs: which one ends it, the final turn, lost reservations, drains."""

from typing import Any

import anyio
import pytest

from messages import events as e
from messages.parts import Limits, Usage
from messages.state import LoopState
from messages.status import Reason, Status
from runtime.bus.wire import Pace
from runtime.model.port import ModelRequest
from runtime.model.scripted import Turn
from tests.flow.desk import Desk, agent, far, look, pay, slow
from tests.flow.stage import Stage, priced
from treadle.testing import call, finish, say, turn


def stage(*turns: Turn, desk: Desk | None = None, **options: Any) -> Stage:
    return Stage(agent(), script=list(turns), deps=desk or Desk(), **options)


def looks(count: int) -> list[Turn]:
    return [call(look, key=f"k{n}") for n in range(count)]


async def check_spend(on: Stage) -> LoopState:
    """At every entry: spent and reserved together stay within the budget."""
    from runtime.loop.evolve import fold_entry  # noqa: PLC0415 - one use

    state: LoopState | None = None
    for entry in await on.entries():
        state = fold_entry(state, entry)
        open_ = state.reservation.most.tokens if state.reservation else 0
        assert state.spent.tokens + open_ <= state.limits.max_tokens
        assert state.step_count <= state.limits.max_steps
    assert state is not None
    return state


# ------------------------------------------------------------------ which budget
async def test_the_last_step_is_done_and_followed_by_a_final_turn() -> None:
    """Case B19."""
    on = stage(*looks(3), say("k0 to k2 are known, k3 is missing"))
    await on.create(limits=Limits(max_steps=3))
    state = await on.play()
    assert (state.status, state.reason, state.step_count) == (
        Status.BUDGET_EXHAUSTED,
        Reason.MAX_STEPS,
        3,
    )
    assert len(state.evidence) == 3
    assert state.output == "k0 to k2 are known, k3 is missing"
    final = on.model.requests[-1]
    assert (final.is_final, final.tools) == (True, ())
    assert "ev-3" in final.messages[0]["content"][0]["text"]
    await check_spend(on)


async def test_finishing_in_the_last_step_is_a_success() -> None:
    on = stage(*looks(2), finish("ok"))
    await on.create(limits=Limits(max_steps=3))
    assert (await on.play()).status is Status.SUCCEEDED
    on = stage(finish("ok"))
    await on.create(limits=Limits(max_steps=1))
    assert (await on.play()).status is Status.SUCCEEDED


async def test_tokens_run_out_before_a_step_that_might_not_fit() -> None:
    on = stage(*[call(look, key=f"k{n}", usage=(900, 100)) for n in range(40)], say("so far"))
    await on.create(limits=Limits(max_tokens=20_000))
    state = await on.play()
    assert (state.status, state.reason) == (Status.BUDGET_EXHAUSTED, Reason.MAX_TOKENS)
    assert on.model.requests[-1].is_final
    assert state.step_count > 5
    await check_spend(on)


async def test_a_final_turn_fits_what_was_kept_for_it() -> None:
    """By bytes, whatever the instructions, the goal and the evidence."""
    desk = Desk(answers={"look": [f"{n}" + "é" * 2_000 for n in range(30)]})
    on = stage(*[call(look, key=f"k{n}", usage=(900, 100)) for n in range(30)], desk=desk)
    await on.create(goal="ü" * 3_000, limits=Limits(max_tokens=60_000))
    await on.play()
    final = on.model.requests[-1]
    assert final.is_final
    [reserved] = [
        event.reservation
        for event in await on.events()
        if isinstance(event, e.StepReserved) and event.reservation.is_final
    ]
    size = len(final.system.encode()) + sum(
        len(block["text"].encode()) for m in final.messages for block in m["content"]
    )
    assert size + reserved.output_tokens <= reserved.most.tokens
    assert final.max_output_tokens == reserved.output_tokens


async def test_money_runs_out_and_pays_for_its_final_turn() -> None:
    on = stage(
        *[call(look, key=f"k{n}", usage=(3_000, 200)) for n in range(30)],
        say("so far"),
        settings=priced(FAST),
    )
    await on.create(limits=Limits(max_cost_microusd=250_000))
    state = await on.play()
    assert (state.status, state.reason) == (Status.BUDGET_EXHAUSTED, Reason.MAX_USD)
    assert on.model.requests[-1].is_final
    assert state.spent.cost_microusd <= 250_000
    assert state.step_count > 5


FAST = Stage(agent(), script=[]).settings


async def test_seconds_run_out_while_a_tool_works_but_not_while_a_person_thinks() -> None:
    on = stage(call(pay, key="a", amount=2000), call(slow, key="b"), say("late"), finish("no"))
    await on.create(limits=Limits(max_seconds=20))
    async with on.life() as life:
        waits = await life.rest(until=lambda s: s.status is Status.AWAITING_APPROVAL)
        assert waits is not None
        on.late_s += 30
        state = await life.rest()
    assert state is not None
    assert state.status is Status.SUCCEEDED
    assert state.suspended_s > 29
    assert state.active_s < 20


async def test_active_seconds_end_a_run_after_an_observation() -> None:
    patient = agent(max_consecutive_errors=50, max_tool_errors=50)
    turns = [call(slow, key=f"k{n}") for n in range(20)]
    on = Stage(patient, script=turns, deps=Desk(faults={"slow": ["hang"] * 20}))
    await on.create(limits=Limits(max_seconds=0.2))
    state = await on.play()
    assert (state.status, state.reason) == (Status.BUDGET_EXHAUSTED, Reason.MAX_SECONDS)
    assert 2 <= state.step_count <= 4
    assert state.active_s >= 0.2
    assert not state.has_had_final_turn, "too small a budget for one"


# ------------------------------------------------------------------ what the provider reports
async def test_what_is_not_reported_is_charged_at_the_reservation() -> None:
    on = stage(Turn(blocks=call(look, key="a").blocks, usage=None), finish("ok"))
    await on.create()
    first = (await on.state()).reservation
    state = await on.play()
    assert first is not None
    assert state.spent.tokens == first.most.tokens + 120
    assert state.usage.tokens == 120


@pytest.mark.parametrize(
    "usage", [Usage(input_tokens=-5, output_tokens=1), Usage(cache_read_tokens=-9_000)]
)
async def test_an_absurd_report_is_no_report(usage: Usage) -> None:
    on = stage(Turn(blocks=call(look, key="a").blocks, usage=usage), finish("ok"))
    await on.create()
    first = (await on.state()).reservation
    state = await on.play()
    assert first is not None
    assert state.spent.tokens == first.most.tokens + 120


async def test_more_than_was_reserved_is_charged_in_full_and_ends_the_run() -> None:
    """Case B20: the turn's call is still done; a final turn, and no third request."""
    cached = Usage(
        input_tokens=20, output_tokens=50, cache_read_tokens=9_000, cache_write_tokens=1_000
    )
    turns = [Turn(blocks=call(look, key=key).blocks, usage=cached) for key in "ab"]
    on = stage(*turns, say("never reached"))
    await on.create(limits=Limits(max_tokens=15_000))
    state = await on.play()
    assert (state.status, state.reason) == (Status.BUDGET_EXHAUSTED, Reason.MAX_TOKENS)
    assert (state.spent.tokens, state.usage.tokens) == (20_140, 20_140)
    assert [request.is_final for request in on.model.requests] == [False, True]
    assert len(state.evidence) == 1


# ------------------------------------------------------------------ lost and widened
async def test_a_silent_planner_loses_its_step_and_the_run_goes_on() -> None:
    on = stage(*looks(1), finish("ok"), pace=Pace(heartbeat_s=10.0, silence_s=0.2))
    seen: list[int] = []

    async def hang_once(request: ModelRequest) -> None:
        seen.append(request.turn)
        if len(seen) == 1:
            await anyio.sleep_forever()

    on.model.gate = hang_once
    await on.create()
    state = await on.play()
    lost = [event for event in await on.events() if isinstance(event, e.StepLost)]
    assert (state.status, state.step_count, len(lost)) == (Status.SUCCEEDED, 3, 1)
    assert state.spent.tokens == lost[0].charged.tokens + 240


async def test_a_reservation_is_hardly_ever_widened() -> None:
    """The loop's bound covers what the planner renders, results of every kind included."""
    desk = Desk(faults={"look": [ValueError("é" * 500)]})
    on = stage(
        turn(*looks(4), call("nope"), call(pay, key="forbidden")),
        turn(call(pay, key="a b"), call(look, key="z")),
        finish("ok"),
        desk=desk,
    )
    on.agent.options["on_policy_deny"] = "tell"
    await on.create()
    assert (await on.play()).status is Status.SUCCEEDED
    reserved = [
        event.reservation.step for event in await on.events() if isinstance(event, e.StepReserved)
    ]
    assert reserved == [1, 2, 3]


async def widened(limits: Limits) -> tuple[Stage, LoopState]:
    on = stage(call(far, key="a"), finish("ok"))
    await on.create(limits=limits)
    return on, await on.play()


async def test_what_is_longer_than_expected_widens_the_reservation_before_the_model_is_asked() -> (
    None
):
    on, state = await widened(Limits(max_tokens=40_000))
    assert (state.status, state.step_count) == (Status.SUCCEEDED, 2)
    reserved = [
        event.reservation for event in await on.events() if isinstance(event, e.StepReserved)
    ]
    assert [reservation.step for reservation in reserved] == [1, 2, 2]
    assert reserved[2].most.tokens > reserved[1].most.tokens
    assert len(on.model.requests) == 2
    await check_spend(on)


async def test_what_cannot_be_widened_ends_with_the_final_turn() -> None:
    """The model was not asked, so nothing is charged for the reservation that was too small."""
    on, state = await widened(Limits(max_tokens=10_000))
    assert (state.status, state.reason) == (Status.BUDGET_EXHAUSTED, Reason.MAX_TOKENS)
    assert on.model.requests[-1].is_final
    assert (state.step_count, state.spent.tokens) == (1, 240)
    await check_spend(on)


async def test_what_cannot_be_widened_costs_nothing_where_there_is_no_final_turn() -> None:
    _, state = await widened(Limits(max_tokens=9_500, max_seconds=19))
    assert (state.status, state.reason) == (Status.BUDGET_EXHAUSTED, Reason.MAX_TOKENS)
    assert (state.has_had_final_turn, state.spent.tokens) == (False, 120)


async def test_a_failing_model_ends_the_run_with_its_reason() -> None:
    on = stage(*looks(1))
    await on.create()
    state = await on.play()
    assert (state.status, state.reason) == (Status.FAILED, Reason.MODEL_UNAVAILABLE)
    assert state.step_count == 2


# ------------------------------------------------------------------ length
async def test_a_step_costs_the_same_late_as_early() -> None:
    """What the ledger is sent for a step does not grow with the run."""
    on = stage(*looks(60), finish("ok"))
    await on.create(limits=Limits(max_steps=100, max_tokens=10_000_000))
    state = await on.play()
    assert (state.status, state.version) == (Status.SUCCEEDED, 61)
    sizes = [len(str(op.events)) for op in on.ledger.appends]
    assert max(sizes[1:60]) < 1.1 * min(sizes[1:60])


# ------------------------------------------------------------------ drain
async def test_a_drain_gives_the_run_back_and_no_step_is_lost() -> None:
    on = stage(*looks(3), finish("ok"))
    thinking = anyio.Event()
    go_on = anyio.Event()

    async def think(request: ModelRequest) -> None:
        if request.turn == 1:
            thinking.set()
            await go_on.wait()

    on.model.gate = think
    await on.create()
    async with on.life() as life:
        await thinking.wait()
        life.supervisor.stop()
        go_on.set()
        await on.owned(is_owned=False)
    row = on.ledger.inner.tables.runs[("default", "run-1")]
    assert row.deaths == 0
    state = await on.play()
    assert (state.status, state.step_count) == (Status.SUCCEEDED, 4)
    assert not [event for event in await on.events() if isinstance(event, e.StepLost)]
