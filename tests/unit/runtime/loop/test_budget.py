"""Reservation, what is kept back, which budget is in the way, widening, the final turn."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from messages.agent import AgentSpec, ModelUse
from messages.events import Child
from messages.parts import Amount, Limits, Price, Rates, Reservation, Usage
from messages.state import LoopState
from messages.status import Reason
from runtime.loop import budget
from tests.unit.runtime.loop.tales import SPEC, born, text, use

PRICE = Price(
    date="2026-11-01",
    input_microusd=3_000_000,
    output_microusd=15_000_000,
    cache_read_microusd=300_000,
    cache_write_microusd=3_750_000,
)
RATES = ("input_microusd", "output_microusd", "cache_read_microusd", "cache_write_microusd")
PRICED = replace(SPEC, price=PRICE)


def run(limits: Limits | None = None, **fields: Any) -> LoopState:
    """A run between two steps."""
    state = replace(born(), reservation=None, **fields)
    return replace(state, limits=limits or state.limits)


def reserve(state: LoopState, spec: AgentSpec = SPEC, **given: Any) -> Reservation:
    fit = budget.next_reservation(state, spec, **given)
    assert isinstance(fit, Reservation), fit
    return fit


def exhausted(state: LoopState, spec: AgentSpec = SPEC, **given: Any) -> Reason:
    fit = budget.next_reservation(state, spec, **given)
    assert isinstance(fit, budget.Exhausted), fit
    return fit.reason


# ------------------------------------------------------------------ kept back
@pytest.mark.parametrize(
    ("limits", "tokens", "seconds", "is_possible"),
    [
        (Limits(max_tokens=40_000, max_seconds=120), 4_000, 12.0, True),
        (Limits(max_tokens=5_000, max_seconds=60), 1_000, 10.0, True),
        (Limits(max_tokens=1_999, max_seconds=60), 0, 0.0, False),
        (Limits(max_tokens=40_000, max_seconds=19), 0, 0.0, False),
    ],
)
def test_a_tenth_is_kept_for_the_final_turn(
    limits: Limits, tokens: int, seconds: float, *, is_possible: bool
) -> None:
    kept = budget.kept_back(limits)
    assert (kept.most.tokens, kept.seconds, kept.is_possible) == (tokens, seconds, is_possible)


def test_a_tenth_of_the_money_is_kept_too() -> None:
    assert budget.kept_back(Limits(max_cost_microusd=500_000)).most.cost_microusd == 50_000


# ------------------------------------------------------------------ the next step
def test_a_reservation_covers_input_and_answer() -> None:
    state = run()
    fit = reserve(state, take_id="take-9")
    bound = SPEC.prompt_bytes + state.context_bytes + budget.STEP_OVERHEAD_BYTES
    assert fit == Reservation(
        step=1, most=Amount(tokens=bound + 1_000), output_tokens=1_000, take_id="take-9"
    )


def test_the_answer_is_cut_to_what_is_left() -> None:
    limits = Limits(max_steps=6, max_tokens=4_000, max_seconds=100)
    fit = reserve(run(limits))
    assert budget.MIN_OUTPUT_TOKENS <= fit.output_tokens < 1_000
    assert fit.most.tokens == 3_000, "everything but what is kept"


@pytest.mark.parametrize(
    ("state", "spec", "reason"),
    [
        (run(step_count=6), SPEC, Reason.MAX_STEPS),
        (run(active_s=90.0), SPEC, Reason.MAX_SECONDS),
        (run(spent=Amount(tokens=51_500)), SPEC, Reason.MAX_TOKENS),
        (run(context_bytes=55_000), SPEC, Reason.MAX_TOKENS),
        (
            run(Limits(max_cost_microusd=20_000), spent=Amount(cost_microusd=15_000)),
            PRICED,
            Reason.MAX_USD,
        ),
        (run(Limits(max_cost_microusd=20_000)), SPEC, Reason.UNPRICED_MODEL),
    ],
    ids=["steps", "seconds", "spent", "grown", "money", "unpriced"],
)
def test_each_budget_can_be_in_the_way(state: LoopState, spec: AgentSpec, reason: Reason) -> None:
    assert exhausted(state, spec) is reason


def test_the_stretch_since_the_last_entry_counts() -> None:
    state = run(active_s=80.0)
    assert reserve(state, stretch_s=9.9)
    assert exhausted(state, stretch_s=10.0) is Reason.MAX_SECONDS


def test_what_children_may_spend_is_not_this_runs() -> None:
    child = Child(run_id="c", agent="a", goal="g", carve=Limits(max_tokens=53_000))
    assert exhausted(run(children=(child,))) is Reason.MAX_TOKENS


def test_without_a_cost_limit_an_unpriced_model_may_run() -> None:
    assert reserve(run()).most.cost_microusd == 0


def test_a_cost_bound_takes_the_dearest_kind_of_input() -> None:
    bound = budget.cost_bound(PRICED.use(), 1_000, 100)
    assert bound == 3_750 + 1_500
    for usage in (
        Usage(input_tokens=1_000, output_tokens=100),
        Usage(cache_write_tokens=1_000, output_tokens=100),
        Usage(cache_read_tokens=1_000, output_tokens=100),
        Usage(input_tokens=400, cache_write_tokens=600, output_tokens=100),
    ):
        assert PRICE.cost(usage) <= bound


def test_a_price_is_rounded_up() -> None:
    assert PRICE.cost(Usage(cache_read_tokens=1)) == 1


def test_cached_tokens_cost_what_case_b20_says() -> None:
    usage = Usage(
        input_tokens=20, output_tokens=50, cache_read_tokens=9_000, cache_write_tokens=1_000
    )
    assert (usage.tokens, PRICE.cost(usage)) == (10_070, 7_260)


# ------------------------------------------------------------------ wider
def test_a_wider_reservation_keeps_its_step_and_take() -> None:
    state = born()
    open_ = state.reservation
    assert open_ is not None
    wider = budget.widened(state, open_, Amount(tokens=open_.most.tokens + 500), 700)
    assert wider == replace(open_, most=Amount(tokens=open_.most.tokens + 500), output_tokens=700)


@pytest.mark.parametrize(("extra", "fits"), [(50_000, True), (51_000, False)])
def test_a_wider_reservation_leaves_the_final_turn_alone(extra: int, *, fits: bool) -> None:
    state = born()
    open_ = state.reservation
    assert open_ is not None
    room = 60_000 - 6_000 - open_.most.tokens
    assert (extra <= room) is fits, "the example is what it says"
    wider = budget.widened(state, open_, Amount(tokens=open_.most.tokens + extra), 700)
    assert isinstance(wider, Reservation) is fits
    if not fits:
        assert wider == budget.Exhausted(reason=Reason.MAX_TOKENS)


def test_a_wider_reservation_may_be_too_dear() -> None:
    limits = Limits(max_cost_microusd=100_000)
    state = replace(born(), limits=limits)
    assert state.reservation is not None
    most = replace(state.reservation.most, cost_microusd=95_000)
    wider = budget.widened(state, state.reservation, most, 700)
    assert wider == budget.Exhausted(reason=Reason.MAX_USD)


# ------------------------------------------------------------------ the final turn
def test_the_final_turn_is_paid_from_what_was_kept() -> None:
    state = run(spent=Amount(tokens=54_000), step_count=6)
    final = budget.final_reservation(state, SPEC, "take-9")
    assert final is not None
    assert final.is_final
    assert (final.step, final.most.tokens, final.output_tokens) == (6, 6_000, 1_000)


@pytest.mark.parametrize(
    "state",
    [
        run(has_had_final_turn=True),
        run(Limits(max_tokens=1_500)),
        run(spent=Amount(tokens=59_600)),
        run(spent=Amount(tokens=61_000)),
        run(Limits(max_cost_microusd=10**6)),
    ],
    ids=["once", "too small a budget", "too little left", "overspent", "unpriced"],
)
def test_there_may_be_no_final_turn(state: LoopState) -> None:
    assert budget.final_reservation(state, SPEC, "take") is None


def test_a_final_turn_is_as_large_as_the_money_left_buys() -> None:
    limits = Limits(max_tokens=200_000, max_cost_microusd=300_000)
    state = run(limits, spent=Amount(tokens=20_000, cost_microusd=280_000))
    final = budget.final_reservation(state, PRICED, "take")
    assert final is not None
    assert 0 < final.most.cost_microusd <= 20_000
    broke = replace(state, spent=Amount(tokens=20_000, cost_microusd=299_000))
    assert budget.final_reservation(broke, PRICED, "take") is None


def test_the_final_turn_costs_what_its_own_model_costs() -> None:
    limits = Limits(max_tokens=200_000, max_cost_microusd=300_000)
    state = run(limits, spent=Amount(tokens=20_000, cost_microusd=299_000))
    cheap = ModelUse(model="tiny", price=replace(PRICE, **dict.fromkeys(RATES, 10_000)))
    final = budget.final_reservation(state, replace(PRICED, roles={"final": cheap}), "take")
    assert final is not None
    assert final.most.cost_microusd <= 1_000
    unpriced = replace(PRICED, roles={"final": ModelUse(model="tiny")})
    assert budget.final_reservation(state, unpriced, "take") is None
    assert exhausted(state, unpriced) is Reason.UNPRICED_MODEL


# ------------------------------------------------------------------ laws
LIMITS = st.builds(
    Limits,
    max_steps=st.integers(1, 30),
    max_tokens=st.integers(1, 300_000),
    max_cost_microusd=st.none() | st.integers(0, 2_000_000),
    max_seconds=st.floats(1, 1_000),
)


@given(LIMITS, st.data())
def test_whatever_is_decided_nothing_exceeds_its_limit(limits: Limits, data: st.DataObject) -> None:
    """Reservations that are used, lost, widened or refused, until there is no next one."""
    spec = replace(PRICED, prompt_bytes=data.draw(st.integers(0, 20_000)))
    state = run(limits)
    for _ in range(60):
        fit = budget.next_reservation(state, spec)
        if isinstance(fit, budget.Exhausted):
            final = budget.final_reservation(state, spec, "t")
            if final is None:
                break
            fit = final
        state = replace(
            state,
            reservation=fit,
            has_had_final_turn=state.has_had_final_turn or fit.is_final,
        )
        _check(state)
        grown = Amount(
            tokens=fit.most.tokens + data.draw(st.integers(1, 50_000)),
            cost_microusd=fit.most.cost_microusd + data.draw(st.integers(0, 200_000)),
        )
        wider = budget.widened(state, fit, grown, fit.output_tokens)
        if isinstance(wider, Reservation) and data.draw(st.booleans()):
            fit = wider
            state = replace(state, reservation=fit)
            _check(state)
        share = data.draw(st.floats(0, 1))
        state = replace(
            state,
            reservation=None,
            step_count=state.step_count + (0 if fit.is_final else 1),
            spent=Amount(
                tokens=state.spent.tokens + int(fit.most.tokens * share),
                cost_microusd=state.spent.cost_microusd + int(fit.most.cost_microusd * share),
            ),
            context_bytes=state.context_bytes + data.draw(st.integers(0, 5_000)),
        )
        _check(state)
    else:
        raise AssertionError("there is always one more step")
    assert state.step_count <= limits.max_steps


def _check(state: LoopState) -> None:
    rest = budget.left(state)
    assert rest.tokens >= 0
    if state.limits.max_cost_microusd is not None:
        assert rest.cost_microusd >= 0
    open_step = 1 if state.reservation and not state.reservation.is_final else 0
    assert state.step_count + open_step <= state.limits.max_steps


@given(st.integers(0, 10**6), st.integers(0, 10**5), st.integers(0, 10**6))
def test_no_mix_of_input_tokens_costs_more_than_the_bound(
    tokens: int, output: int, cached: int
) -> None:
    """Nor where long prompts are dearer, or cheaper, than short ones."""
    cached = min(cached, tokens)
    usage = Usage(input_tokens=tokens - cached, cache_write_tokens=cached, output_tokens=output)
    dear, cheap = (Rates(**dict.fromkeys(RATES, rate)) for rate in (9 * 10**7, 10))
    for price in (PRICE, *(replace(PRICE, long_above_tokens=9**5, long=r) for r in (dear, cheap))):
        one = ModelUse(model="m", price=price)
        assert price.cost(usage) <= budget.cost_bound(one, tokens, output)


@given(st.text(), st.text())
def test_bytes_bound_what_a_turn_says(words: str, argument: str) -> None:
    """No tokeniser makes more tokens than its input has bytes."""
    said = words + argument
    assert budget.talk_bytes((text(words), use(0, "look", x=argument))) >= len(said.encode())
    assert budget.result_bytes({"data": said}) >= len(said.encode())
