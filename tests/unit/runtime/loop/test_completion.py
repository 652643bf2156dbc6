"""Before success: what is looked up, what it changes, and what it costs those without lookups."""

import pytest
from msgspec.structs import replace

from messages import events as e
from messages.parts import Problem
from messages.state import LoopState
from messages.status import Reason, Status
from runtime.loop import directives as d
from tests.unit.runtime.loop.tales import (
    CANCEL,
    PAUSE,
    SPEC,
    accepted,
    allowed,
    assessed,
    authorised,
    called,
    decided,
    intended,
    next_of,
    observed,
    reserved,
    told,
    use,
)

DONE = replace(SPEC, has_done=True, output_schema={})
EARLY = replace(SPEC, has_done=True)
AWAY = Problem(code="UNKNOWN", message="away")
FOUND = e.Verified(step=1, key="mail:x0", is_there=True)
ABSENT = e.Verified(step=1, key="mail:x0", is_there=False)
UNDECIDED = e.Verified(step=1, key="mail:x0", is_there=False, problem=AWAY)
SUCCESS = d.Finish(status=Status.SUCCEEDED, reason=Reason.VERIFIED, output="sent")


def written(*names: str) -> LoopState:
    """A run whose first step did these writes."""
    state = allowed(*names)
    for ordinal in range(len(names)):
        state = observed(intended(state, ordinal), ordinal)
    return assessed(state)


def proposing(state: LoopState) -> LoopState:
    """Step 2 proposes to finish, and the proposal is well-formed."""
    return told(
        reserved(state, 2),
        decided(use(0, "finish", output="sent"), step=2),
        e.Accepted(step=2, actions=(), output="sent"),
    )


def judged(state: LoopState) -> LoopState:
    return told(proposing(state), e.CompletionAccepted(step=2))


# ------------------------------------------------------------------ when and what
def test_a_predicate_is_asked_first_and_then_the_downstream() -> None:
    state = proposing(written("mail"))
    assert next_of(state, DONE) == d.Judge(has_output=True)
    state = told(state, e.CompletionAccepted(step=2))
    assert next_of(state, DONE) == d.Verify(keys=("mail:x0",))
    assert next_of(told(state, FOUND), DONE) == SUCCESS


def test_an_agent_without_done_is_verified_too_and_ends_unverified() -> None:
    """The reason says what judged the task, not what became of its effects."""
    state = proposing(written("mail"))
    assert next_of(state) == d.Verify(keys=("mail:x0",))
    ending = next_of(told(state, FOUND))
    assert ending == replace(SUCCESS, reason=Reason.UNVERIFIED)


def test_an_early_end_is_verified_before_it_is_one() -> None:
    state = told(written("mail"), e.CompletionAccepted(step=1))
    assert next_of(state, EARLY) == d.Verify(keys=("mail:x0",))
    assert next_of(told(state, FOUND), EARLY) == replace(SUCCESS, output=None)


@pytest.mark.parametrize("names", [(), ("pay",), ("blast",)], ids=["none", "replay", "blind"])
def test_a_run_without_lookups_ends_at_once(names: tuple[str, ...]) -> None:
    state = judged(written(*names) if names else assessed(observed(allowed("look"))))
    assert next_of(state, DONE) == SUCCESS


@pytest.mark.parametrize("kind", ["error", "not_started", "refused"])
def test_what_did_not_happen_is_not_looked_up(kind: str) -> None:
    state = assessed(observed(intended(allowed("mail")), kind=kind))
    assert next_of(judged(state), DONE) == SUCCESS


def test_calls_that_shared_a_key_are_one_effect() -> None:
    """The second one was given the stored result."""
    again = told(reserved(written("mail"), 2), called("mail", step=2))
    again = observed(authorised(accepted(again), "allow"))
    state = told(
        reserved(assessed(again), 3),
        decided(use(0, "finish", output="sent"), step=3),
        e.Accepted(step=3, actions=(), output="sent"),
    )
    assert [o.key for o in state.outstanding] == ["mail:x0", "mail:x0"]
    assert next_of(state) == d.Verify(keys=("mail:x0",))
    ending = next_of(told(state, FOUND))
    assert isinstance(ending, d.Finish)


def test_every_executed_write_is_looked_up_and_no_other() -> None:
    state = judged(written("mail", "pay", "mail"))
    assert next_of(state, DONE) == d.Verify(keys=("mail:x0", "mail:x2"))
    assert next_of(told(state, FOUND), DONE) == d.Verify(keys=("mail:x2",))


def test_a_tool_the_agent_has_no_more_cannot_be_asked() -> None:
    state = judged(written("mail"))
    changed = replace(DONE, tools=tuple(t for t in DONE.tools if t.name != "mail"))
    assert next_of(state, changed) == SUCCESS


# ------------------------------------------------------------------ what it changes
@pytest.mark.parametrize("spec", [DONE, EARLY], ids=["proposed", "early"])
def test_what_is_not_there_rejects_the_completion_and_says_what(spec: object) -> None:
    is_early = spec is EARLY
    state = judged(written("mail"))
    if is_early:
        state = told(written("mail"), e.CompletionAccepted(step=1))
    agent = EARLY if is_early else DONE
    directive = next_of(told(state, ABSENT), agent)
    assert isinstance(directive, d.Record)
    [rejection] = directive.events
    assert isinstance(rejection, e.CompletionRejected)
    assert rejection.problem.code == "EFFECT_NOT_FOUND"
    assert "mail (mail:x0)" in rejection.problem.message
    told_so = told(state, ABSENT, rejection, e.Assessed(step=rejection.step))
    assert isinstance(next_of(told_so, agent), d.Decide)


def test_what_was_not_there_is_not_looked_up_again() -> None:
    """Once per run: the next proposal is turned down by the record."""
    state = told(judged(written("mail")), ABSENT)
    directive = next_of(state, DONE)
    assert isinstance(directive, d.Record)
    again = told(
        reserved(told(state, *directive.events), 3),
        decided(use(0, "finish", output="sent"), step=3),
        e.Accepted(step=3, actions=(), output="sent"),
        e.CompletionAccepted(step=3),
    )
    assert isinstance(next_of(again, DONE), d.Record)


def test_a_lookup_that_cannot_decide_contradicts_nothing() -> None:
    state = told(judged(written("mail")), UNDECIDED)
    assert next_of(state, DONE) == SUCCESS
    assert [o.status for o in state.outstanding] == ["executed"], "and is not called verified"


def test_one_that_is_not_there_rejects_whatever_the_others_say() -> None:
    state = told(
        judged(written("mail", "mail")),
        e.Verified(step=1, key="mail:x1", is_there=True),
        ABSENT,
    )
    directive = next_of(state, DONE)
    assert isinstance(directive, d.Record)
    [rejection] = directive.events
    assert isinstance(rejection, e.CompletionRejected)
    assert "mail:x1" not in rejection.problem.message


# ------------------------------------------------------------------ people
def test_a_cancel_a_pause_and_a_hold_go_first() -> None:
    state = judged(written("mail"))
    cancelled = next_of(state, DONE, cancel=CANCEL)
    assert isinstance(cancelled, d.Finish)
    assert cancelled.status is Status.CANCELLED
    assert next_of(state, DONE, pause=PAUSE) == d.Suspend(
        status=Status.PAUSED, reason=Reason.BY_PERSON
    )
    assert next_of(state, DONE, is_held=True) == d.LetGo()
