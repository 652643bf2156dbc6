"""The progress monitor: repeats, stalls, oscillation, and what counts as progress."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from messages.agent import ProgressSpec
from messages.canon import action_fingerprint
from messages.checks import Assess, Flag
from messages.events import Assessed, ProgressFlagged
from messages.parts import JsonValue
from messages.state import LoopState, Seen
from runtime.loop import progress
from tests.unit.runtime.loop.tales import (
    SPEC,
    accepted,
    authorised,
    born,
    called,
    decided,
    intended,
    observed,
    reserved,
    told,
    use,
)

WIDE = replace(SPEC, limits=replace(SPEC.limits, max_steps=60))


def assess(state: LoopState, spec: ProgressSpec) -> tuple[Flag, ...]:
    assert state.turn is not None
    sightings = [progress.sighting(state, call) for call in state.turn.calls]
    return progress.assess(
        Assess(
            tenant="t",
            run_id="r",
            step=state.step_count,
            spec=spec,
            sightings=tuple(s for s in sightings if s is not None and s.tool != "poll"),
            recent=state.seen.recent[-spec.window :],
            stalled=progress.stalled_after(state),
            flagged=state.seen.flagged,  # pyright: ignore[reportArgumentType] - kinds only
        )
    )


def flags_of(
    turns: Iterable[tuple[str, JsonValue]], spec: ProgressSpec | None = None
) -> list[str | None]:
    """``kind level`` of what each step brought that made one call; None for progress."""
    spec = spec or ProgressSpec()
    state, seen = born(WIDE), list[str | None]()
    for step, (call, payload) in enumerate(turns, start=1):
        name, _, argument = call.partition(" ")
        state = reserved(state, step) if step > 1 else state
        said = decided(use(0, name, x=argument or "x0"), step=step)
        state = authorised(accepted(told(state, said)), "allow")
        state = observed(state, payload=payload)
        flags = assess(state, spec)
        seen.append(f"{flags[0].kind} {flags[0].level}" if flags else None)
        for flag in flags:
            event = ProgressFlagged(
                step=step,
                ordinal=flag.ordinal,
                kind=flag.kind,
                level=flag.level,
                message=flag.message,
            )
            state = told(state, event)
        state = told(state, Assessed(step=step))
    return seen


def test_the_documents_example() -> None:
    """Seeds/a prints [None, None, 'repeated_action', 'repeated_action'] for four equal calls."""
    payload: JsonValue = {"refunds": []}
    found = flags_of([("look", payload)] * 4)
    kinds = [None if flag is None else flag.split()[0] for flag in found]
    assert kinds == [None, None, "repeated_action", "repeated_action"]
    assert found[2:] == ["repeated_action warn", "repeated_action stop"]


def test_thresholds_are_a_dial() -> None:
    tight = ProgressSpec(warn_at=2, stop_at=3)
    assert flags_of([("look", 1)] * 3, tight) == [
        None,
        "repeated_action warn",
        "repeated_action stop",
    ]
    loose = ProgressSpec(warn_at=50, stop_at=60, stall_at=50)
    assert flags_of([("look", 1)] * 8, loose) == [None] * 8


def test_a_repeat_counts_over_the_whole_run() -> None:
    turns = [("look", 1), ("scan", 2), ("look", 1), ("mail", 3), ("look", 1)]
    assert flags_of(turns)[-1] == "repeated_action warn"


def test_the_same_call_with_another_result_is_progress() -> None:
    assert flags_of([("look", n) for n in range(20)]) == [None] * 20


def test_two_tools_in_turn_with_the_same_results_oscillate() -> None:
    loose = ProgressSpec(warn_at=50, stop_at=60, stall_at=50)
    found = flags_of([("look", 1), ("scan", 2)] * 3, loose)
    assert found == [None, None, None, "oscillation warn", "oscillation stop", "oscillation stop"]


def test_oscillation_looks_at_its_window_only() -> None:
    narrow = ProgressSpec(warn_at=50, stop_at=60, stall_at=50, window=3)
    assert flags_of([("look", 1), ("scan", 2)] * 3, narrow) == [None] * 6


def test_different_arguments_with_the_same_data_stall() -> None:
    """Progress theatre: new calls that bring nothing new."""
    found = flags_of([(f"look 0{n}", "a") for n in range(5)])
    assert found == [None, None, None, "no_state_change warn", "no_state_change stop"]


def test_a_stall_ends_with_anything_new() -> None:
    found = flags_of([(f"look {n}", n // 3) for n in range(9)])
    assert found == [None] * 9


def test_polling_is_exempt_from_every_pattern() -> None:
    assert flags_of([("poll", "pending")] * 12) == [None] * 12


def test_the_life_of_a_side_effect_is_progress() -> None:
    state = authorised(accepted(told(born(), called("mail"))), "allow")
    before = progress.state_fingerprint(state.seen, state.outstanding)
    during = intended(state)
    assert progress.state_fingerprint(during.seen, during.outstanding) != before


def test_equal_calls_of_one_turn_are_repeats_too() -> None:
    said = decided(*[use(place, "look", x="same") for place in range(3)])
    state = authorised(accepted(told(born(), said)), *["allow"] * 3)
    for ordinal in range(3):
        state = observed(state, ordinal, payload="same")
    assert [flag.kind for flag in assess(state, ProgressSpec())] == ["repeated_action"] * 3


def test_argument_order_does_not_hide_a_repeat() -> None:
    assert action_fingerprint("look", {"a": 1, "b": 2}) == action_fingerprint(
        "look", {"b": 2, "a": 1}
    )


def test_what_is_kept_of_actions_is_bounded() -> None:
    seen = Seen()
    for n in range(500):
        seen = progress.note(seen, f"action-{n}", progress.payload_hash(n))
    assert len(seen.recent) == 32
    assert seen.recent[-1].startswith("action-499")


@given(
    st.lists(st.tuples(st.sampled_from(["look", "scan", "mail"]), st.integers(0, 2)), max_size=25)
)
def test_a_repeat_is_warned_before_it_is_stopped(turns: list[tuple[str, int]]) -> None:
    """Whatever the sequence: no kind stops a run that was not warned of that kind first."""
    warned: set[str] = set()
    for flag in flags_of(turns):
        if flag is None:
            continue
        kind, level = flag.split()
        if level == "stop":
            assert kind in warned
            return
        warned.add(kind)


@pytest.mark.parametrize("kind", ["not_started", "refused", "denied", "cancelled"])
def test_a_call_that_did_not_run_is_no_sighting(kind: str) -> None:
    state = observed(authorised(accepted(told(born(), called("mail"))), "allow"), kind=kind)
    assert state.turn is not None
    assert progress.sighting(state, state.turn.calls[0]) is None
