"""The order of decision: a state and what must happen next. Read after a crash it is recovery."""

import pytest
from msgspec.structs import replace

from messages import events as e
from messages.agent import AgentSpec, ErrorSpec
from messages.parts import Amount, Attempt, Limits
from messages.state import LoopState
from messages.status import Reason, Status
from runtime.loop import directives as d
from runtime.loop.interrupted import left_over
from runtime.loop.next import next_directive
from tests import journals
from tests.unit.runtime.loop.tales import (
    CANCEL,
    NO,
    NOW,
    PAUSE,
    SPEC,
    T0,
    accepted,
    allowed,
    asked,
    assessed,
    authorised,
    born,
    called,
    decided,
    intended,
    next_of,
    observed,
    reserved,
    resolved,
    text,
    told,
    use,
    waiting_for_approval,
)

TELL = replace(SPEC, on_policy_deny="tell")


def looked() -> LoopState:
    return observed(allowed("look"))


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        pytest.param(born(), d.Decide(), id="a reserved step is decided"),
        pytest.param(told(born(), called("look")), d.Validate(ordinals=(0,)), id="validate"),
        pytest.param(
            accepted(told(born(), called("look", "mail"))),
            d.Authorise(ordinals=(0, 1)),
            id="authorise",
        ),
        pytest.param(allowed("look", "mail"), d.Execute(ordinals=(0, 1)), id="execute together"),
        pytest.param(allowed("pay", "look"), d.Recheck(ordinals=(0,)), id="recheck what has one"),
        pytest.param(
            told(allowed("pay", "look"), e.Rechecked(step=1, ordinal=0)),
            d.Execute(ordinals=(0, 1)),
            id="rechecked",
        ),
        pytest.param(
            told(allowed("pay"), e.Rechecked(step=1, ordinal=0, unmet="gone")),
            d.Assess(),
            id="an unmet precondition is a result",
        ),
        pytest.param(
            authorised(accepted(told(born(), called("mail", "look"))), "ask", "allow"),
            d.Execute(ordinals=(1,)),
            id="what may run runs before anybody is asked",
        ),
        pytest.param(
            authorised(accepted(told(born(), called("mail"))), "ask"),
            d.RequestApproval(ordinals=(0,)),
            id="ask",
        ),
        pytest.param(
            authorised(accepted(told(born(), called("pay"))), "ask"),
            d.Recheck(ordinals=(0,)),
            id="recheck before a person is asked",
        ),
        pytest.param(
            asked(authorised(accepted(told(born(), called("mail"))), "ask")),
            d.Suspend(status=Status.AWAITING_APPROVAL, reason="r", until=T0 + 100),
            id="wait for a person",
        ),
        pytest.param(intended(allowed("mail")), d.Reconcile(ordinal=0), id="window B or C"),
        pytest.param(
            told(intended(allowed("mail")), e.Observed(step=1, ordinal=0, kind="unknown")),
            d.Reconcile(ordinal=0),
            id="unknown",
        ),
        pytest.param(looked(), d.Assess(), id="assess"),
        pytest.param(
            told(born(), decided(text("Done."), stop_reason="end_turn")),
            d.Validate(),
            id="plain text is a finish proposal",
        ),
        pytest.param(
            told(
                born(),
                decided(use(0, "finish", output=1)),
                e.Accepted(step=1, actions=()),
            ),
            d.Finish(status=Status.SUCCEEDED, reason=Reason.UNVERIFIED),
            id="a finish proposal without done is taken",
        ),
        pytest.param(
            told(born(), decided(use(0, "ask_user", question="Which?"))),
            d.Finish(status=Status.NEEDS_INPUT, reason=Reason.QUESTION, output="Which?"),
            id="ask_user",
        ),
        pytest.param(
            told(born(), decided(use(0, "give_up", why="no way"))),
            d.Finish(status=Status.FAILED, reason=Reason.NO_ACTION, why="no way"),
            id="give_up",
        ),
        pytest.param(
            told(born(), decided(use(0, "wait", seconds=60, why="later"))),
            d.Suspend(status=Status.WAITING, reason=Reason.TIMER, until=T0 + 61),
            id="wait",
        ),
        pytest.param(
            told(born(), decided(text("No."), stop_reason="refusal")),
            d.Finish(status=Status.FAILED, reason=Reason.REFUSED, why="No."),
            id="refused",
        ),
        pytest.param(waiting_for_approval(), d.LetGo(), id="nobody drives what waits"),
        pytest.param(
            resolved(waiting_for_approval(), "approved"),
            d.Record(events=(e.Resumed(why="approval decided"),)),
            id="approved",
        ),
        pytest.param(
            told(resolved(waiting_for_approval(), "approved"), e.Resumed(why="x")),
            d.Validate(ordinals=(0,)),
            id="an approved call goes back to Validate",
        ),
        pytest.param(
            told(resolved(waiting_for_approval(), "denied"), e.Resumed(why="x")),
            d.Assess(),
            id="a person's no is a result",
        ),
        pytest.param(
            told(born(), e.Finished(status=Status.FAILED, reason=Reason.POISON)),
            d.Nothing(),
            id="the end",
        ),
    ],
)
def test_state_and_directive(state: LoopState, expected: d.Directive) -> None:
    assert next_of(state) == expected


def test_the_next_step_is_reserved_when_the_turn_is_over() -> None:
    directive = next_of(assessed(looked()))
    assert isinstance(directive, d.Decide)
    assert directive.reserve is not None
    assert (directive.reserve.step, directive.reserve.take_id) == (2, "take-1")


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, d.Decide()),
        (1, d.Decide()),
        (2, d.LetGo()),
        (3, d.Reconcile(ordinal=0)),
        (4, d.Decide()),
    ],
    ids=["created", "read", "window A: asked", "window B or C: intended", "done"],
)
def test_recovery_is_the_next_directive_of_the_folded_journal(
    version: int, expected: d.Directive
) -> None:
    state = journals.state_at(version)
    at = d.Moment(at=state.updated_at + 1, take_id="another")
    assert next_directive_of(state, at) == expected


def next_directive_of(state: LoopState, moment: d.Moment) -> d.Directive:
    return next_of(state, journals.SPEC, at=moment.at, take_id=moment.take_id)


# ------------------------------------------------------------------ signals
def test_a_cancel_goes_before_everything_but_what_may_have_started() -> None:
    assert next_of(intended(allowed("mail")), cancel=CANCEL) == d.Reconcile(
        ordinal=0, is_cancelling=True
    )
    directive = next_of(allowed("look", "mail"), cancel=CANCEL)
    assert isinstance(directive, d.Record)
    state = told(allowed("look", "mail"), *directive.events)
    assert state.turn is not None
    assert [c.result and c.result.kind for c in state.turn.calls] == ["cancelled"] * 2
    ending = next_of(state, cancel=CANCEL)
    assert ending == d.Finish(
        status=Status.CANCELLED, reason=Reason.BY_PERSON, signal=CANCEL, why="wrong order"
    )


def test_a_cancel_gives_what_cannot_have_happened_its_result_first() -> None:
    state = intended(allowed("look", "mail"), 1)
    directive = next_of(state, cancel=CANCEL)
    assert isinstance(directive, d.Record)
    assert [(n.ordinal, n.kind) for n in directive.events if isinstance(n, e.Observed)] == [
        (0, "cancelled")
    ]
    state = told(state, *directive.events)
    assert next_of(state, cancel=CANCEL) == d.Reconcile(ordinal=1, is_cancelling=True)


def test_the_end_of_a_run_leaves_no_call_without_a_word() -> None:
    state = intended(allowed("look", "mail", "mail"), 1)
    assert [(n.ordinal, n.kind) for n in left_over(state) if isinstance(n, e.Observed)] == [
        (0, "not_started"),
        (1, "unknown"),
        (2, "not_started"),
    ]
    assert left_over(told(state, *left_over(state))) == ()
    assert left_over(born()) == ()


def test_a_cancel_by_the_parents_end_says_so() -> None:
    child = replace(born(), parent="p1")
    order = replace(CANCEL, person="")
    assert next_of(child, cancel=order) == d.Finish(
        status=Status.CANCELLED, reason=Reason.PARENT, signal=order, why="wrong order"
    )


@pytest.mark.parametrize("state", [waiting_for_approval()])
def test_a_cancel_wakes_what_waits(state: LoopState) -> None:
    assert next_of(state, cancel=CANCEL) == d.Record(events=(e.Resumed(why="cancel"),))


def test_a_pause_waits_for_what_may_have_started() -> None:
    paused = d.Suspend(status=Status.PAUSED, reason=Reason.BY_PERSON)
    assert next_of(intended(allowed("mail")), pause=PAUSE) == d.Reconcile(ordinal=0)
    assert next_of(allowed("mail"), pause=PAUSE) == paused
    assert next_of(waiting_for_approval(), pause=PAUSE) == paused


def test_paused_is_left_by_a_resume_alone() -> None:
    state = told(born(), e.Suspended(status=Status.PAUSED, reason="by_person"))
    assert next_of(state) == d.LetGo()
    assert next_of(state, is_resumed=True) == d.Record(events=(e.Resumed(why="resumed"),))


@pytest.mark.parametrize("status", [Status.PAUSED, Status.AWAITING_APPROVAL])
def test_a_signal_that_changes_nothing_is_named_by_an_entry_and_the_wait_goes_on(
    status: Status,
) -> None:
    """Otherwise it stays pending, and Due lists the run again and again."""
    state = waiting_for_approval()
    if status is Status.PAUSED:
        state = told(state, e.Suspended(status=status, reason="by_person"))
    directive = next_of(state, is_signalled=True, pause=PAUSE if state.status is status else None)
    expected = d.Suspend(status=state.status, reason=state.reason, until=state.until)
    if status is Status.PAUSED:
        assert directive == expected
    again = next_of(state, is_signalled=True)
    assert again == expected
    assert told(state, e.Suspended(status=status, reason=state.reason)).status is status


def test_a_hold_lets_go() -> None:
    assert next_of(allowed("look"), is_held=True) == d.LetGo()
    assert next_of(intended(allowed("mail")), is_held=True) == d.Reconcile(ordinal=0)


def test_a_timer_wakes_when_it_is_due() -> None:
    state = told(born(), decided(use(0, "wait", seconds=60, why="later")))
    state = told(state, e.Suspended(status=Status.WAITING, reason="timer", until=T0 + 60))
    assert next_of(state) == d.LetGo()
    assert next_of(state, at=T0 + 60) == d.Record(events=(e.Resumed(why="timer"),))
    resumed = next_of(told(state, e.Resumed(why="timer")), at=T0 + 60)
    assert isinstance(resumed, d.Decide), "waiting is over, a new step begins"


# ------------------------------------------------------------------ grants, approvals
def test_authority_is_asked_for_again_once_the_grant_has_run_out() -> None:
    state = authorised(accepted(told(born(), called("look"))), "allow", expires_at=T0 + 5)
    assert next_of(state, at=T0 + 4.9) == d.Execute(ordinals=(0,))
    assert next_of(state, at=T0 + 5) == d.Authorise(ordinals=(0,))
    assert next_of(state, at=T0 + 4.9, grant_margin_s=1.0) == d.Authorise(ordinals=(0,))


def test_a_grant_that_ends_soon_with_its_approval_is_still_used() -> None:
    """With a margin here the loop would ask for the same short grant until the approval is over."""
    state = told(resolved(waiting_for_approval(), "approved"), e.Resumed(why="x"))
    state = authorised(accepted(state), "allow", expires_at=T0 + 100)
    assert next_of(state, at=T0 + 99.5) == d.Execute(ordinals=(0,))


def test_an_approval_expires_into_a_result() -> None:
    state = waiting_for_approval()
    directive = next_of(state, at=T0 + 100)
    expired = e.ApprovalExpired(step=1, ordinal=0, approval_id="apr-1")
    assert directive == d.Record(events=(expired, e.Resumed(why="approval expired")))
    state = told(state, expired, e.Resumed(why="x"))
    assert next_of(state) == d.Assess()
    needs_input = replace(SPEC, on_expired_approval="needs_input")
    assert next_of(state, needs_input) == d.Finish(
        status=Status.NEEDS_INPUT, reason=Reason.APPROVAL_EXPIRED
    )


def test_one_of_three_approvals_wakes_the_run_only_if_something_can_run() -> None:
    state = told(born(), called("mail", "mail", "mail"))
    state = authorised(accepted(state), "ask", "ask", "ask")
    for ordinal in range(3):
        state = asked(state, ordinal, f"apr-{ordinal}")
    state = told(state, e.Suspended(status=Status.AWAITING_APPROVAL, reason="r", until=T0 + 100))
    assert next_of(resolved(state, "denied", "apr-0")) == d.LetGo()
    approved = told(
        state,
        e.ApprovalResolved(
            step=1,
            ordinal=2,
            approval_id="apr-2",
            decision="approved",
            person="eve",
            decided_at=T0,
        ),
    )
    assert isinstance(next_of(approved), d.Record)
    assert next_of(told(approved, e.Resumed(why="x"))) == d.Validate(ordinals=(2,))


def test_a_policy_deny_ends_the_run_or_is_told() -> None:
    state = authorised(accepted(told(born(), called("mail"))), "deny")
    assert next_of(state) == d.Finish(status=Status.DENIED, reason=Reason.POLICY, why="POL-1")
    assert next_of(state, TELL) == d.Assess()


def test_a_denied_call_ends_the_run_only_after_its_companions_have_their_results() -> None:
    state = authorised(accepted(told(born(), called("mail", "look"))), "deny", "allow")
    assert next_of(state) == d.Execute(ordinals=(1,))
    assert isinstance(next_of(observed(state, 1)), d.Finish)


# ------------------------------------------------------------------ endings
def test_progress_is_judged_before_error_ceilings() -> None:
    spec = replace(SPEC, errors=ErrorSpec(max_total=1, max_consecutive=1))
    state = assessed(observed(allowed("look"), kind="error"))
    assert next_of(state, spec) == d.Finish(
        status=Status.FAILED,
        reason=Reason.TOO_MANY_ERRORS,
        why="tools failed several times in a row",
    )
    flag = e.ProgressFlagged(step=1, kind="oscillation", level="stop", message="m")
    assert next_of(told(state, flag), spec) == d.Finish(
        status=Status.NO_PROGRESS, reason=Reason.OSCILLATION
    )


def test_errors_in_a_row_go_to_people_where_the_agent_names_some() -> None:
    spec = replace(SPEC, errors=ErrorSpec(max_consecutive=1, escalate_to="desk"))
    state = assessed(observed(allowed("look"), kind="error"))
    ask = next_of(state, spec)
    assert isinstance(ask, d.AskPerson)
    state = told(state, e.HumanAsked(step=1, question_id="q1", text="help", group="desk"))
    assert next_of(state, spec) == d.Suspend(status=Status.AWAITING_HUMAN, reason="help")
    state = told(state, e.Suspended(status=Status.AWAITING_HUMAN, reason="help"))
    assert next_of(state, spec) == d.LetGo()
    answer = e.HumanAnswered(question_id="q1", answer="go on", person="eve", answered_at=T0)
    state = told(state, answer)
    assert next_of(state, spec) == d.Record(events=(e.Resumed(why="answered"),))
    assert isinstance(next_of(told(state, e.Resumed(why="answered")), spec), d.Decide)


@pytest.mark.parametrize(
    ("stop_reason", "code", "reason"),
    [
        ("max_tokens", "OUTPUT_LIMIT", Reason.OUTPUT_LIMIT),
        ("tool_use", "BAD", Reason.BAD_OUTPUT),
    ],
)
def test_proposals_that_stay_wrong_end_the_run_with_their_own_reason(
    stop_reason: str, code: str, reason: Reason
) -> None:
    state, directive = born(), next_of(born())
    for step in range(1, 4):
        finish = use(0, "finish", output=1)
        state = told(state, decided(finish, step=step, stop_reason=stop_reason))
        problem = replace(NO, code=code)
        state = told(state, e.ProposalRejected(step=step, problem=problem))
        directive = next_of(state)
        if step < SPEC.errors.max_corrections:
            assert isinstance(directive, d.Decide)
            state = reserved(state, step + 1)
    assert isinstance(directive, d.Finish)
    assert (directive.status, directive.reason) == (Status.FAILED, reason)


def test_a_cut_turn_executes_nothing_and_says_why() -> None:
    state = told(born(), decided(use(0, "mail", x="a"), stop_reason="max_tokens"))
    directive = next_of(state)
    assert isinstance(directive, d.Record)
    state = told(state, *directive.events)
    assert state.turn is not None
    assert [c.result and c.result.kind for c in state.turn.calls] == ["rejected"]
    assert state.turn.problem is not None
    assert state.turn.problem.code == "OUTPUT_LIMIT"


def test_an_empty_turn_is_nudged_once() -> None:
    state = told(born(), decided(stop_reason="end_turn"))
    directive = next_of(state)
    assert isinstance(directive, d.Record)
    state = reserved(told(state, *directive.events), 2)
    state = told(state, decided(step=2, stop_reason="end_turn"))
    assert next_of(state) == d.Finish(status=Status.FAILED, reason=Reason.NO_ACTION)


@pytest.mark.parametrize(
    "kind", ["rejected", "refused", "denied by policy", "denied by a person", "expired"]
)
def test_the_third_equal_call_that_came_to_nothing_ends_the_run(kind: str) -> None:
    state, directive = born(TELL), next_of(born(TELL))
    for step in range(1, 4):
        state = assessed(came_to_nothing(told(state, called("mail", step=step)), step, kind))
        directive = next_of(state, TELL)
        if step < 3:
            assert isinstance(directive, d.Decide), directive
            state = reserved(state, step + 1)
    assert directive == d.Finish(status=Status.NO_PROGRESS, reason=Reason.REPEATED_ACTION)


def came_to_nothing(state: LoopState, step: int, kind: str) -> LoopState:
    if kind == "rejected":
        return told(state, e.ProposalRejected(step=step, ordinal=0, problem=NO))
    state = accepted(state)
    match kind:
        case "refused":
            return observed(authorised(state, "allow"), kind="refused")
        case "denied by policy":
            return authorised(state, "deny")
        case "denied by a person":
            return resolved(asked(authorised(state, "ask")), "denied")
        case _:
            expired = e.ApprovalExpired(step=step, ordinal=0, approval_id="apr-1")
            return told(asked(authorised(state, "ask")), expired)


@pytest.mark.parametrize(
    ("spec", "kind", "expected"),
    [
        (replace(SPEC, has_done=True), "ok", d.Judge(has_output=False)),
        (replace(SPEC, has_done=True), "error", None),
        (replace(SPEC, has_done=True, output_schema={}), "ok", None),
        (SPEC, "ok", None),
    ],
    ids=["judged", "nothing new", "has output", "no done"],
)
def test_an_agent_without_output_is_judged_after_an_observation(
    spec: AgentSpec, kind: str, expected: d.Directive | None
) -> None:
    state = assessed(observed(allowed("look", spec=spec), kind=kind))
    directive = next_of(state, spec)
    if expected is None:
        assert isinstance(directive, d.Decide)
        return
    assert directive == expected
    assert isinstance(next_of(told(state, e.Judged(step=1, unmet="no")), spec), d.Decide)


# ------------------------------------------------------------------ budgets
def at_the_last_step() -> LoopState:
    limits = Limits(max_steps=1, max_tokens=60_000, max_seconds=100)
    return assessed(observed(accepted_and_allowed(born(limits=limits))))


def accepted_and_allowed(state: LoopState) -> LoopState:
    return authorised(accepted(told(state, called("look"))), "allow")


def test_a_gone_budget_is_followed_by_one_final_turn() -> None:
    state = at_the_last_step()
    directive = next_of(state)
    assert isinstance(directive, d.Decide)
    assert directive.reserve is not None
    assert directive.reserve.is_final
    state = told(state, e.StepReserved(reservation=directive.reserve))
    assert next_of(state) == d.Decide()
    lost = told(state, e.StepLost(step=1, charged=Amount(tokens=10), why="gone"))
    assert next_of(lost) == d.Finish(status=Status.BUDGET_EXHAUSTED, reason=Reason.MAX_STEPS)
    said = told(state, decided(text("This much is known."), stop_reason="end_turn"))
    assert said.step_count == 1, "the final turn is no step"
    assert next_of(said) == d.Finish(
        status=Status.BUDGET_EXHAUSTED, reason=Reason.MAX_STEPS, output="This much is known."
    )


def test_a_final_turn_calls_nothing_whatever_it_says() -> None:
    state = reserved(at_the_last_step(), 1, is_final=True)
    state = told(state, decided(use(0, "mail", x="a"), stop_reason="tool_use"))
    assert isinstance(next_of(state), d.Finish)


def test_more_than_was_reserved_ends_the_run_after_its_turn() -> None:
    state = reserved(assessed(looked()), 2)
    state = told(state, replace(called("look", step=2), charged=Amount(tokens=3_001)))
    assert state.exhausted == Reason.MAX_TOKENS
    assert next_of(state) == d.Validate(ordinals=(0,)), "what was asked for is still done"
    state = assessed(observed(authorised(accepted(state), "allow")))
    directive = next_of(state)
    assert isinstance(directive, d.Decide)
    assert directive.reserve is not None
    assert directive.reserve.is_final


def test_an_unpriced_model_under_a_cost_budget_stops_the_run() -> None:
    limits = Limits(max_cost_microusd=1_000)
    state = assessed(observed(accepted_and_allowed(replace(born(), limits=limits))))
    assert next_of(state) == d.Finish(status=Status.FAILED, reason=Reason.UNPRICED_MODEL)


def test_a_provider_that_asked_to_be_left_alone_is_not_asked_earlier_after_a_pause() -> None:
    until = NOW.at + 600
    attempt = Attempt(request_id="req-1", started_at=T0, duration_s=1.0)
    waiting = told(
        born(),
        e.AttemptFailed(step=1, charged=Amount(tokens=10), attempt=attempt),
        e.Suspended(status=Status.WAITING, reason=Reason.RETRY_AFTER, until=until),
        e.Suspended(status=Status.PAUSED, reason=Reason.BY_PERSON),
        e.Resumed(why="resumed"),
    )
    assert next_directive(waiting, SPEC, NOW) == d.Suspend(
        status=Status.WAITING, reason=Reason.RETRY_AFTER, until=until
    )
    later = replace(NOW, at=until)
    assert isinstance(next_directive(waiting, SPEC, later), d.Decide)
