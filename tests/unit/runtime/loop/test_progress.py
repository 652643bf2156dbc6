"""The progress monitor: repeats, stalls, oscillation, and what counts as progress."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from messages.agent import ProgressSpec
from messages.canon import action_fingerprint
from messages.checks import Flag
from messages.events import Assessed, CompletionRejected, ProgressFlagged
from messages.parts import JsonValue, Problem
from messages.state import CallState, LoopState, Seen
from runtime.loop import monitor, progress
from tests.unit.runtime.loop.tales import (
    SPEC,
    accepted,
    authorised,
    born,
    called,
    decided,
    intended,
    observed,
    reconciled,
    reserved,
    text,
    told,
    use,
)

WIDE = replace(SPEC, limits=replace(SPEC.limits, max_steps=60))


def assess(state: LoopState, spec: ProgressSpec) -> tuple[Flag, ...]:
    return monitor.assess(monitor.question(state, spec))


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
            state = told(state, flagged(step, flag))
        state = told(state, Assessed(step=step))
    return seen


def flagged(step: int, flag: Flag) -> ProgressFlagged:
    return ProgressFlagged(
        step=step,
        ordinal=flag.ordinal,
        kind=flag.kind,
        level=flag.level,
        message=flag.message,
    )


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
    turns = [("look", 1), ("scan", 2), ("look", 1), ("scan x1", 3), ("look", 1)]
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
    found = flags_of([(f"look {n}", "a") for n in "vwxyz"])
    assert found == [None, None, None, "no_state_change warn", "no_state_change stop"]


def test_the_same_arguments_in_another_form_are_near_duplicates() -> None:
    loose = ProgressSpec(stall_at=50)
    dashes = ("A-8472", "a 8472", "a-08472", "A8472")
    found = flags_of([(f"look {form}", 0) for form in dashes], loose)
    assert found == [None, None, "near_duplicate warn", None]
    forms = ("8472", "08472", "8472 ", "8472")
    assert flags_of([(f"look {form}", []) for form in forms], loose)[-1] == "near_duplicate stop"
    assert flags_of([(f"look {form}", n) for n, form in enumerate(forms)], loose) == [None] * 4


def test_a_read_after_a_write_is_another_question() -> None:
    """Nothing of it seen before the write counts; the write itself does."""
    turns: list[tuple[str, JsonValue]] = []
    for n in range(6):
        turns += [("look", "the same"), (f"mail {n}", n)]
    assert flags_of(turns) == [None] * 12
    assert (
        flags_of([("look", n) for n in range(3)] + [("mail", 1)] * 4)[-1] == "repeated_action stop"
    )


@pytest.mark.parametrize("stop_at", [4, 6])
@pytest.mark.parametrize("is_reconciled", [False, True])
def test_so_is_a_read_after_a_write_whose_outcome_was_reconciled(
    stop_at: int, *, is_reconciled: bool
) -> None:
    """It may be warned of, refused or stopped no sooner than after a write that just succeeded."""
    spec = ProgressSpec(stop_at=stop_at)
    state = born(WIDE)
    for step in range(1, 11):
        state = reserved(state, step) if step > 1 else state
        name, argument = ("mail", f"m{step}") if step % 2 else ("look", "status")
        state = accepted(told(state, decided(use(0, name, x=argument), step=step)))
        assert state.turn is not None
        assert monitor.refusals(state, spec, state.turn.calls) == ()
        ended = reconciled if is_reconciled and name == "mail" else observed
        payload = f"sent {step}" if name == "mail" else "pending"
        state = ended(authorised(state, "allow"), payload=payload)
        assert assess(state, spec) == ()
        state = told(state, Assessed(step=step))


def test_longer_rounds_oscillate_too() -> None:
    loose = ProgressSpec(warn_at=50, stop_at=60, stall_at=50)
    turns = [("look", 1), ("scan", 2), ("look other", 3)] * 2
    assert flags_of(turns, loose) == [None] * 5 + ["oscillation warn"]


def test_a_plan_restated_without_an_action_stalls() -> None:
    state, found = born(WIDE), list[str]()
    for step in range(1, 6):
        state = reserved(state, step) if step > 1 else state
        state = told(
            state, decided(text("First I check, then I act."), step=step, stop_reason="end_turn")
        )
        state = told(state, CompletionRejected(step=step, problem=Problem(code="C", message="no")))
        for flag in assess(state, ProgressSpec()):
            found.append(f"{step} {flag.kind} {flag.level}")
            state = told(state, flagged(step, flag))
            assert state.turn is not None
            assert state.turn.warning or state.turn.stopped_by
        state = told(state, Assessed(step=step))
    assert found == ["4 no_state_change warn", "5 no_state_change stop"]


def test_what_lies_between_warning_and_stop_is_refused() -> None:
    spec = ProgressSpec(warn_at=2, stop_at=5, stall_at=50)
    state, refused = born(WIDE), list[int]()
    for step in range(1, 6):
        state = reserved(state, step) if step > 1 else state
        state = accepted(told(state, decided(use(0, "look", x="a"), step=step)))
        assert state.turn is not None
        if events := monitor.refusals(state, spec, state.turn.calls):
            refused.append(step)
            state = told(state, *events)
        else:
            state = observed(authorised(state, "allow"), payload=[])
        for flag in assess(state, spec):
            state = told(state, flagged(step, flag))
        state = told(state, Assessed(step=step))
    assert refused == [3, 4], "the second was warned of, the fifth is stopped"
    assert state.turn is not None
    assert state.turn.stopped_by == "repeated_action"
    assert max(state.seen.rejections.values(), default=0) == 0


def test_a_stall_ends_with_anything_new() -> None:
    found = flags_of([(f"look {n}", n // 3) for n in range(9)])
    assert found == [None] * 9


def test_polling_is_exempt_from_every_pattern() -> None:
    assert flags_of([("poll", "pending")] * 12) == [None] * 12


def test_what_a_poll_brings_is_progress_of_the_next_step() -> None:
    """Also where it is polled in a turn of its own and the other reads find nothing."""
    turns: list[tuple[str, JsonValue]] = [("scan q0", [])]
    for n in range(1, 6):
        turns += [("poll job", f"{n}0 %"), (f"scan q{n}", [])]
    assert flags_of(turns) == [None] * len(turns)


def test_a_poll_that_brings_nothing_new_ends_no_stall() -> None:
    turns: list[tuple[str, JsonValue]] = [("scan q0", []), ("poll job", "pending")]
    for n in range(1, 6):
        turns += [(f"scan q{n}", []), ("poll job", "pending")]
    found = [flag for flag in flags_of(turns) if flag]
    assert found == ["no_state_change warn", "no_state_change stop"]


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
    seen, call = Seen(), CallState(ordinal=0, tool_use_id="", tool="look", arguments={})
    for n in range(500):
        call = replace(call, arguments={"x": n})
        seen = progress.note(seen, call, progress.payload_hash(n))
    assert len(seen.recent) == 32
    assert seen.recent[-1].startswith(progress.fingerprint(call))


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
