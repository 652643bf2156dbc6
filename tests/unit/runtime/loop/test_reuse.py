"""When a read is answered from the run's own record instead of being made."""

from typing import Any

import pytest
from msgspec.structs import replace

from messages import events as e
from messages.parts import Evidence
from messages.state import LoopState
from runtime.loop import reuse
from runtime.loop.reuse import answered_before
from tests.unit.runtime.loop.loop_world import T0, tool, use
from tests.unit.runtime.loop.tales import (
    NO,
    accepted,
    authorised,
    born,
    decided,
    evidence,
    intended,
    observed,
    reserved,
    told,
)

LOOK = tool("look", cache_s=60.0)
FETCHED = T0 + 2
"""When every answer of these tales was there."""


def turn(state: LoopState, *calls: tuple[str, str]) -> LoopState:
    """The model makes these calls, and each is allowed."""
    step = state.step_count + 1
    if state.reservation is None:
        state = reserved(state, step=step)
    blocks = [use(place, name, x=x) for place, (name, x) in enumerate(calls)]
    return authorised(accepted(told(state, decided(*blocks, step=step))), *["allow"] * len(calls))


def seen(payload: object = "data") -> LoopState:
    """``look`` was called with ``a`` and answered; it is about to be called so again."""
    return turn(observed(turn(born(), ("look", "a")), payload=payload), ("look", "a"))


def answer(state: LoopState, *, at: float = FETCHED + 12, **spec: Any) -> Evidence | None:
    assert state.turn is not None
    return answered_before(state, replace(LOOK, **spec), state.turn.calls[0], at)


def test_a_young_answer_is_given_again() -> None:
    state = seen()
    first = state.evidence[0]
    assert answer(state) == replace(
        first,
        id="ev-2",
        duration_s=0.0,
        notes=("from ev-1, fetched 12 s ago; not read again",),
        reused="ev-1",
    )


def test_what_was_changed_in_it_is_still_said() -> None:
    state = seen()
    state = replace(state, evidence=(replace(state.evidence[0], notes=("cut",)),))
    again = answer(state)
    assert again is not None
    assert again.notes == ("cut", "from ev-1, fetched 12 s ago; not read again")


@pytest.mark.parametrize(
    ("at", "is_young"),
    [
        (FETCHED, True),
        (FETCHED + 59.9, True),
        (FETCHED + 60, False),
        (FETCHED - 0.1, False),  # a clock is wrong: nobody knows how old it is
    ],
)
def test_it_is_young_for_so_long(at: float, *, is_young: bool) -> None:
    assert (answer(seen(), at=at) is not None) == is_young


def test_without_a_word_of_the_tool_nothing_is_even_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state = seen()
    monkeypatch.setattr(reuse, "arguments_hash", None)
    monkeypatch.setattr(reuse, "_backwards", None)
    assert answer(state, cache_s=0.0) is None


def test_other_arguments_or_another_tool_are_another_question() -> None:
    assert answer(turn(observed(turn(born(), ("look", "a"))), ("look", "b"))) is None
    assert answer(turn(observed(turn(born(), ("scan", "a"))), ("look", "a"))) is None


def test_an_error_is_no_answer() -> None:
    state = observed(turn(born(), ("look", "a")), kind="error")
    assert answer(turn(state, ("look", "a"))) is None


def test_what_is_given_again_gets_no_younger() -> None:
    state = seen()
    again = answer(state, at=FETCHED + 40)
    assert again is not None
    state = told(state, e.Observed(step=2, ordinal=0, kind="ok", evidence=again))
    state = turn(state, ("look", "a"))
    third = answer(state, at=FETCHED + 59)
    assert third is not None
    assert (third.id, third.reused, third.fetched_at) == ("ev-3", "ev-1", FETCHED)
    assert third.notes == ("from ev-1, fetched 59 s ago; not read again",)
    assert answer(state, at=FETCHED + 60) is None


# ------------------------------------------------------------------ writes
@pytest.mark.parametrize("kind", ["ok", "error", "unknown"])
def test_a_write_that_may_have_happened_makes_it_stale(kind: str) -> None:
    state = intended(turn(observed(turn(born(), ("look", "a"))), ("mail", "m")))
    if kind == "unknown":
        state = told(state, e.Observed(step=2, ordinal=0, kind="unknown"))
        happened = e.Reconciled(step=2, ordinal=0, key="mail:m", how="lookup", finding="happened")
        state = told(state, happened)
    else:
        state = observed(state, kind=kind)
    assert answer(turn(state, ("look", "a"))) is None


@pytest.mark.parametrize("kind", ["denied", "refused", "unmet", "not_started", "expired"])
def test_a_write_that_never_started_changes_nothing(kind: str) -> None:
    state = turn(observed(turn(born(), ("look", "a"))), ("mail", "m"))
    state = told(
        state,
        e.Observed(step=2, ordinal=0, kind=kind, problem=NO),  # pyright: ignore[reportArgumentType]
    )
    assert answer(turn(state, ("look", "a"))) is not None


def test_what_was_read_after_the_write_is_good_again() -> None:
    state = observed(intended(turn(observed(turn(born(), ("look", "a"))), ("mail", "m"))))
    state = observed(turn(state, ("look", "a")), payload="new")
    again = answer(turn(state, ("look", "a")))
    assert again is not None
    assert (again.reused, again.payload) == ("ev-3", "new")


@pytest.mark.parametrize("calls", [["look", "mail"], ["mail", "look"]])
def test_what_was_read_beside_a_write_is_stale(calls: list[str]) -> None:
    """The two ran at once; the write may have come after the answer."""
    place = calls.index("mail")
    state = intended(turn(born(), *[(name, "a") for name in calls]), place)
    state = observed(observed(state, 0), 1)
    assert answer(turn(state, ("look", "a"))) is None


def test_a_write_of_the_same_turn_that_begins_makes_it_stale() -> None:
    state = turn(observed(turn(born(), ("look", "a"))), ("look", "a"), ("mail", "m"))
    assert answer(state) is not None, "allowed, and not begun"
    assert answer(intended(state, 1)) is None


# ------------------------------------------------------------------ what it costs
def test_it_is_searched_no_further_than_it_can_be_young(monkeypatch: pytest.MonkeyPatch) -> None:
    state = born()
    for _ in range(40):
        state = replace(observed(turn(state, ("scan", "a"))), reservation=None)
    read = 0
    whole = reuse._backwards

    def counting(of: LoopState) -> Any:
        nonlocal read
        for line in whole(of):
            read += 1
            yield line

    monkeypatch.setattr(reuse, "_backwards", counting)
    state = turn(state, ("look", "a"))
    assert answer(state, at=FETCHED + 61) is None
    assert read == 1
    assert answer(state) is None
    assert read == 41


# ------------------------------------------------------------------ how it counts
def test_it_counts_for_progress_and_not_as_work() -> None:
    state = seen()
    again = answer(state)
    assert again is not None
    after = told(state, e.Observed(step=2, ordinal=0, kind="ok", evidence=again))
    assert list(after.seen.pairs.values()) == [2], "the same answer to the same question"
    assert (after.tool_calls, after.tool_s) == (state.tool_calls, state.tool_s) == (1, 0.5)
    called = told(state, e.Observed(step=2, ordinal=0, kind="ok", evidence=evidence(state)))
    assert (called.tool_calls, called.tool_s) == (2, 1.0)
