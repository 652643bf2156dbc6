"""Wait-and-recheck: a wait is as asked for, or it is turned down with words that say what fits."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messages import events as e
from messages.agent import AgentSpec
from messages.parts import Limits, Problem
from messages.state import LoopState
from messages.status import Reason, Status
from runtime.agent import Agent
from runtime.loop import directives as d
from runtime.loop import waiting
from runtime.model.results import left_of
from tests.unit.runtime.loop.loop_world import T0, use
from tests.unit.runtime.loop.tales import (
    allowed,
    assessed,
    born,
    decided,
    next_of,
    observed,
    reserved,
    told,
)

HOUR = Limits(max_wait_s=3600.0)
TIMER = e.Suspended(status=Status.WAITING, reason=Reason.TIMER, until=T0 + 60)


def asking(state: LoopState | None = None, step: int = 1, **arguments: Any) -> LoopState:
    """The model asks to wait."""
    return told(state or born(limits=HOUR), decided(use(0, "wait", **arguments), step=step))


def turned_down(state: LoopState) -> Problem:
    directive = next_of(state)
    assert isinstance(directive, d.Record), directive
    [event] = directive.events
    assert isinstance(event, e.ProposalRejected)
    assert event.ordinal is None, "as a whole"
    assert told(state, event).waited_s == state.waited_s
    return event.problem


def waited(seconds: float, limits: Limits = HOUR) -> LoopState:
    """A run that has waited so long, and is about to hear the model again."""
    state = told(asking(born(limits=limits), seconds=seconds, why="pending"), TIMER)
    return reserved(told(state, e.Resumed(why="timer")), step=2)


# ------------------------------------------------------------------ what is asked for
@pytest.mark.parametrize("seconds", [1, 1.0, 2.5, 59, 3600, 3600.0])
def test_a_wait_is_as_long_as_asked_for(seconds: float) -> None:
    until = T0 + 1 + seconds
    assert next_of(asking(seconds=seconds, why="w")) == d.Suspend(
        status=Status.WAITING, reason=Reason.TIMER, until=until
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"seconds": 0.99, "why": "w"}, "seconds is 0.99, less than 1"),
        ({"seconds": 0, "why": "w"}, "seconds is 0, less than 1"),
        ({"seconds": -5, "why": "w"}, "seconds is -5, less than 1"),
        ({"seconds": "60", "why": "w"}, "seconds is not a number: '60'"),
        ({"seconds": True, "why": "w"}, "seconds is not a number: True"),
        ({"seconds": None, "why": "w"}, "seconds is not a number: there is none"),
        ({"seconds": [60], "why": "w"}, "seconds is not a number: [60]"),
        ({"why": "w"}, "seconds is not a number: there is none"),
        ({"seconds": float("nan"), "why": "w"}, "seconds is not a finite number"),
        ({"seconds": float("inf"), "why": "w"}, "seconds is not a finite number"),
        ({"seconds": float("-inf"), "why": "w"}, "seconds is not a finite number"),
        ({"seconds": 10**400, "why": "w"}, "seconds is not a finite number"),
        ({"seconds": 60}, "why is missing or blank"),
        ({"seconds": 60, "why": " \n"}, "why is missing or blank"),
        ({"seconds": 60, "why": 5}, "why is missing or blank"),
        ({"seconds": 60, "why": "w", "until": "noon"}, "it takes seconds and why, not 'until'"),
    ],
)
def test_what_is_no_wait_is_turned_down_with_words(arguments: Any, words: str) -> None:
    problem = turned_down(asking(**arguments))
    assert problem.code == "BAD_ARGUMENTS"
    assert words in problem.message
    assert "call wait with seconds" in problem.hint


# ------------------------------------------------------------------ its budget
def test_a_wait_that_does_not_fit_is_turned_down_as_a_whole() -> None:
    problem = turned_down(asking(seconds=3601, why="w"))
    assert problem.code == "WAIT_BUDGET"
    assert "3601 s are more than the 3600 s that are left of 3600 s in all" in problem.message
    assert problem.hint == "wait 3600 s or less, or go on without waiting"


def test_waits_add_up() -> None:
    state = waited(3000)
    assert (state.waited_s, waiting.left_s(state)) == (3000, 600)
    assert isinstance(next_of(asking(state, 2, seconds=600, why="w")), d.Suspend)
    problem = turned_down(asking(state, 2, seconds=601, why="w"))
    assert "601 s are more than the 600 s that are left of 3600 s" in problem.message


def test_a_run_that_has_waited_enough_is_told_to_go_another_way() -> None:
    problem = turned_down(asking(waited(3599.5), 2, seconds=1, why="w"))
    assert "more than the 0 s that are left" in problem.message
    assert problem.hint == "look again now, go another way, finish, or give up"


def test_the_default_is_a_day() -> None:
    assert isinstance(next_of(asking(born(), seconds=86_400, why="w")), d.Suspend)
    assert turned_down(asking(born(), seconds=86_401, why="w")).code == "WAIT_BUDGET"


def test_an_agent_says_how_long_its_runs_may_wait() -> None:
    def limits(**options: Any) -> Limits:
        return Agent("a", model="m", instructions="i", **options).spec().limits

    assert limits(max_wait=timedelta(minutes=5)).max_wait_s == 300.0
    assert limits().max_wait_s == 86_400.0


def test_a_signal_that_changes_nothing_uses_no_more_of_it() -> None:
    state = told(asking(seconds=60, why="w"), TIMER, TIMER)
    assert state.waited_s == 60


def test_a_pause_does_not_shorten_a_wait_and_uses_no_more_of_it() -> None:
    state = told(asking(seconds=60, why="w"), TIMER)
    paused = e.Suspended(status=Status.PAUSED, reason=Reason.BY_PERSON)
    state = told(state, paused, e.Resumed(why="resumed"))
    again = next_of(state, at=T0 + 59)
    assert again == d.Suspend(status=Status.WAITING, reason=Reason.TIMER, until=T0 + 60)
    assert isinstance(next_of(state, at=T0 + 60), d.Decide)
    assert told(state, TIMER).waited_s == 60


def test_a_wait_of_the_provider_uses_nothing_of_it() -> None:
    later = e.Suspended(status=Status.WAITING, reason=Reason.RETRY_AFTER, until=T0 + 60)
    assert told(born(), later).waited_s == 0


@given(st.lists(st.floats(1.0, 3600.0), max_size=30))
def test_no_run_waits_longer_than_it_may(asked: list[float]) -> None:
    state, granted = born(limits=HOUR), 0.0
    for step, seconds in enumerate(asked, start=1):
        state = asking(state, step, seconds=seconds, why="w")
        directive = next_of(state)
        if isinstance(directive, d.Suspend):
            granted += seconds
            state = told(state, TIMER, e.Resumed(why="timer"))
        else:
            assert turned_down(state).code == "WAIT_BUDGET"
        state = reserved(state, step=step + 1)
    assert granted <= 3600.0
    assert state.waited_s == pytest.approx(granted)


# ------------------------------------------------------------------ what else it does
def test_the_model_hears_what_is_left_once_it_has_waited() -> None:
    assert "wait_seconds" not in left_of(born(limits=HOUR))
    assert left_of(waited(3000.5))["wait_seconds"] == 599


def test_a_step_that_only_waited_is_no_stall() -> None:
    state = assessed(observed(allowed("look")))
    before = state.seen
    for step in range(2, 9):
        state = asking(reserved(state, step=step), step, seconds=60, why="w")
        state = told(state, TIMER, e.Resumed(why="timer"))
        directive = next_of(state, at=T0 + 60)
        assert isinstance(directive, d.Decide), "it is not even assessed"
    assert state.seen == before
    assert before.stalled == 0


def test_turned_down_again_and_again_is_the_end() -> None:
    state = born(limits=HOUR)
    for step in range(1, 4):
        state = asking(state, step, seconds=9999, why="w")
        directive = next_of(state)
        assert isinstance(directive, d.Record)
        state = told(state, *directive.events)
        if step < 3:
            state = reserved(state, step=step + 1)
    assert next_of(state, AgentSpec(name="a", code="c", model="m", instructions="i")) == d.Finish(
        status=Status.FAILED,
        reason=Reason.BAD_OUTPUT,
        why="the model could not correct its proposals",
    )
