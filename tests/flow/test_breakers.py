"""A provider that is down: nobody hammers it, no run ends for it, and all go on once it is back."""

from collections.abc import Iterable

import pytest

from messages import events as e
from messages.errors import ModelError
from messages.parts import Amount
from messages.state import LoopState
from messages.status import Reason, Status
from runtime import breaker
from runtime.breaker import TRIPS_AT
from runtime.model.port import ModelRequest
from tests.flow.desk import agent
from tests.flow.stage import Stage
from treadle.testing import finish

RUNS = tuple(f"run-{number}" for number in range(1, 9))
DOWN = ModelError("overloaded", "the provider answered 529", is_free=True)


class Provider:
    """Down until it is mended."""

    def __init__(self) -> None:
        self.is_down = True
        self.failed = 0

    async def gate(self, _request: ModelRequest) -> None:
        if self.is_down:
            self.failed += 1
            raise DOWN


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaker, "FIRST_PAUSE_S", 0.3)
    monkeypatch.setattr(breaker, "SOON_S", 0.1)


def ended(states: Iterable[LoopState]) -> set[tuple[Status, str]]:
    return {(state.status, str(state.reason)) for state in states}


async def test_runs_wait_for_a_provider_that_is_down_and_pay_nothing_for_it() -> None:
    provider = Provider()
    on = Stage(agent(), script=[finish("ok")])
    on.model.gate = provider.gate
    for run_id in RUNS:
        await on.create(run_id)
    async with on.life() as life:
        for run_id in RUNS:  # one of them may have had its four attempts
            await life.rest(run_id=run_id, until=is_parked)
        assert TRIPS_AT <= provider.failed <= TRIPS_AT + len(RUNS)
        provider.is_down = False
        states = [await life.rest(run_id=run_id) for run_id in RUNS]
    known = [state for state in states if state is not None]
    assert len(known) == len(RUNS)
    assert ended(known) <= {
        (Status.SUCCEEDED, Reason.UNVERIFIED),
        (Status.FAILED, Reason.MODEL_UNAVAILABLE),
    }
    good = [state for state in known if state.status is Status.SUCCEEDED]
    assert len(good) >= len(RUNS) - 1
    assert {state.step_count for state in good} == {1}
    assert {state.spent.tokens for state in good} == {120}, "no attempt was charged for"


def is_parked(state: LoopState) -> bool:
    is_waiting = state.status is Status.WAITING and state.reason == Reason.RETRY_AFTER
    return is_waiting or state.status.is_terminal


async def test_what_was_never_inferred_is_an_attempt_without_a_price() -> None:
    provider = Provider()
    on = Stage(agent(), script=[finish("ok")])
    on.model.gate = provider.gate
    await on.create()
    state = await on.play()
    assert (state.status, state.reason) == (Status.FAILED, Reason.MODEL_UNAVAILABLE)
    assert provider.failed == 4
    events = await on.events()
    charged = [event.charged for event in events if isinstance(event, e.AttemptFailed | e.StepLost)]
    assert charged == [Amount()] * 4
    assert state.spent == Amount()
