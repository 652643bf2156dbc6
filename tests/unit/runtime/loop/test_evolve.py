"""Each event and what it changes; a journal that does not hold together."""

from typing import Any

import pytest
from msgspec.structs import replace

from messages import events as e
from messages.canon import action_hash
from messages.errors import BrokenChain, IllegalTransition
from messages.parts import Amount, Arguments, Attempt, Limits, Problem, Usage
from messages.state import LoopState, Outstanding
from messages.status import Reason, Status
from runtime.loop import directives as d
from runtime.loop.evolve import fold, fold_entry, seal
from tests.journals import ARGUMENTS, HASH, KEY, journal, state_at
from tests.unit.runtime.loop.tales import (
    NO,
    T0,
    accepted,
    allowed,
    asked,
    assessed,
    authorised,
    born,
    called,
    decided,
    evidence,
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


def result_kind(state: LoopState, ordinal: int = 0) -> str | None:
    assert state.turn is not None
    result = state.turn.calls[ordinal].result
    return None if result is None else result.kind


def phase(state: LoopState, ordinal: int = 0) -> str:
    assert state.turn is not None
    return state.turn.calls[ordinal].phase


def life(state: LoopState) -> list[str]:
    return [o.status for o in state.outstanding]


# ------------------------------------------------------------------ the journal as a whole
def test_order_8472_folds_to_its_refund() -> None:
    state = state_at(4)
    assert (state.version, state.step_count, state.status) == (4, 2, Status.RUNNING)
    assert state.usage.tokens == 1260 + 1705
    assert [item.id for item in state.evidence] == ["ev-1", "ev-2"]
    assert [line.outcome for line in state.tool_history] == ["ok", "ok"]
    assert state.outstanding == (
        Outstanding(
            kind="issue_refund",
            key=KEY,
            action_hash=HASH,
            arguments=state.outstanding[0].arguments,
            status="executed",
            step=2,
            ordinal=0,
        ),
    )
    assert state.active_s == 7.0
    assert state.suspended_s == 597.0
    assert state.escalations == 1


def test_folding_goes_on_where_it_stopped() -> None:
    entries = journal()
    assert fold(entries[2:], fold(entries[:2])) == fold(entries)


@pytest.mark.parametrize("versions", [(), (1,), (0, 2), (0, 0)])
def test_a_journal_with_a_gap_does_not_fold(versions: tuple[int, ...]) -> None:
    entries = journal()
    with pytest.raises(BrokenChain):
        fold([entries[v] for v in versions])


def test_a_journal_starts_with_its_creation_and_has_one() -> None:
    first = journal()[0]
    with pytest.raises(BrokenChain):
        fold_entry(None, replace(first, events=first.events[1:]))
    with pytest.raises(BrokenChain):
        fold_entry(None, replace(first, events=()))
    with pytest.raises(BrokenChain):
        told(state_at(0), first.events[0])


def test_creation_is_kept_whole() -> None:
    state = state_at(0)
    created = journal()[0].events[0]
    assert isinstance(created, e.RunCreated)
    for name in ("goal", "inputs", "agent", "agent_code", "identity", "limits", "labels"):
        assert getattr(state, name) == getattr(created, name)
    assert state.step_count == 0, "an open reservation is no step yet"


# ------------------------------------------------------------------ steps and spend
def test_a_reservation_closes_the_turn_and_counts_nothing() -> None:
    before = assessed(observed(allowed("look")))
    state = reserved(before, 2)
    assert state.turn is None
    assert (state.step_count, state.spent) == (before.step_count, before.spent)
    assert not state.has_had_final_turn
    assert reserved(before, 1, is_final=True).has_had_final_turn


def test_a_decision_uses_the_reservation() -> None:
    state = told(born(), decided(text("hm"), use(0, "look", x=1), tokens=70))
    assert state.reservation is None
    assert (state.step_count, state.usage.tokens, state.spent.tokens) == (1, 70, 70)
    assert (state.model_calls, state.model_s) == (1, 2.0)
    assert state.turn is not None
    assert [call.tool for call in state.turn.calls] == ["look"]
    assert state.context_bytes > born().context_bytes


def test_a_lost_step_counts_and_is_charged() -> None:
    state = told(born(), e.StepLost(step=1, charged=Amount(tokens=500), why="silent"))
    assert state.reservation is None
    assert (state.step_count, state.spent.tokens, state.usage.tokens) == (1, 500, 0)
    final = told(
        reserved(state, 1, is_final=True), e.StepLost(step=1, charged=Amount(tokens=5), why="x")
    )
    assert (final.step_count, final.spent.tokens) == (1, 505), "the final turn is no step"


def test_a_failed_attempt_is_charged_and_is_no_step() -> None:
    tried = Attempt(request_id="r", started_at=T0, duration_s=2.0)
    failed = e.AttemptFailed(step=1, charged=Amount(tokens=500), attempt=tried)
    state = told(reserved(told(born(), failed), 1), failed)
    assert (state.step_count, state.spent.tokens, state.usage.tokens) == (0, 1000, 0)
    assert (state.model_calls, state.model_s, state.failed_attempts) == (2, 4.0, 2)
    ask = next_of(state)
    assert isinstance(ask, d.Decide)
    assert ask.reserve is not None
    assert ask.reserve.step == 1, "the same step is reserved again"
    after = told(reserved(state, 1), decided(text("hm")))
    assert (after.step_count, after.model_calls, after.failed_attempts) == (1, 3, 0)


def test_more_than_reserved_is_noted() -> None:
    state = born()
    assert state.reservation is not None
    most = state.reservation.most
    within = told(state, replace(called("look"), charged=most))
    assert within.exhausted == ""
    above = told(state, replace(called("look"), charged=Amount(tokens=most.tokens + 1)))
    assert above.exhausted == Reason.MAX_TOKENS
    dear = replace(state, limits=replace(state.limits, max_cost_microusd=10**6))
    dearer = told(dear, replace(called("look"), charged=Amount(tokens=1, cost_microusd=1)))
    assert dearer.exhausted == Reason.MAX_USD


def test_consulting_spends_and_is_no_step() -> None:
    consulted = e.Consulted(
        purpose="critic",
        usage=Usage(input_tokens=9),
        charged=Amount(tokens=9, cost_microusd=2),
        model="m",
        duration_s=1.5,
    )
    state = told(born(), consulted)
    assert (state.step_count, state.spent) == (0, Amount(tokens=9, cost_microusd=2))
    assert (state.usage.tokens, state.model_s, state.model_calls) == (9, 1.5, 1)


def test_empty_turns_in_a_row_are_counted() -> None:
    state = told(born(), decided(stop_reason="end_turn"))
    assert state.nudges == 1
    state = told(reserved(state, 2), decided(stop_reason="end_turn", step=2))
    assert state.nudges == 2
    assert told(reserved(state, 3), called("look", step=3)).nudges == 0


# ------------------------------------------------------------------ validation, authority
def test_a_rejected_call_has_its_result_and_is_remembered() -> None:
    state = told(born(), called("look", "scan"))
    state = told(state, e.ProposalRejected(step=1, ordinal=1, problem=NO))
    assert (result_kind(state, 0), result_kind(state, 1)) == (None, "rejected")
    assert list(state.seen.rejections.values()) == [1]
    assert state.corrections == 0, "the other call may be fine"
    state = told(state, e.ProposalRejected(step=1, ordinal=0, problem=NO))
    assert assessed(state).corrections == 1


def test_a_rejected_proposal_ends_all_its_calls() -> None:
    state = told(born(), called("look", "scan"), e.ProposalRejected(step=1, problem=NO))
    assert [result_kind(state, o) for o in (0, 1)] == ["rejected", "rejected"]
    assert state.turn is not None
    assert state.turn.problem == NO
    assert (state.corrections, state.seen.rejections) == (1, {})


def test_acceptance_makes_the_canonical_action_count() -> None:
    state = accepted(told(born(), called("pay")))
    assert phase(state) == "accepted"
    assert state.turn is not None
    action = state.turn.calls[0].action
    assert action is not None
    assert action.key == "pay:x0"
    finish = told(born(), decided(use(0, "finish", output=1)), e.Accepted(step=1, actions=()))
    assert finish.turn is not None
    assert finish.turn.is_checked


@pytest.mark.parametrize(
    ("decision", "expected", "result"),
    [("allow", "allowed", None), ("ask", "asking", None), ("deny", "observed", "denied")],
)
def test_a_verdict_moves_its_call(decision: str, expected: str, result: str | None) -> None:
    state = authorised(accepted(told(born(), called("pay", "look"))), decision, "allow")
    assert (phase(state), result_kind(state), phase(state, 1)) == (expected, result, "allowed")


def test_authority_anew_wants_a_precondition_anew() -> None:
    state = told(allowed("pay"), e.Rechecked(step=1, ordinal=0))
    assert state.turn is not None
    assert state.turn.calls[0].is_rechecked
    again = authorised(state, "allow")
    assert again.turn is not None
    assert not again.turn.calls[0].is_rechecked


def test_an_unmet_precondition_is_a_result_with_its_reason() -> None:
    state = told(allowed("pay"), e.Rechecked(step=1, ordinal=0, unmet="already refunded"))
    assert result_kind(state) == "unmet"
    assert state.turn is not None
    result = state.turn.calls[0].result
    assert result is not None
    assert result.problem == Problem(code="PRECONDITION_UNMET", message="already refunded")


# ------------------------------------------------------------------ people
def test_an_approval_goes_its_way() -> None:
    state = waiting_for_approval()
    assert (phase(state), life(state), state.escalations) == ("waiting", ["proposed"], 1)
    yes = resolved(state, "approved")
    assert (phase(yes), life(yes)) == ("approved", ["approved"])
    no = resolved(state, "denied")
    assert (result_kind(no), life(no)) == ("denied", ["dropped"])
    expired = told(state, e.ApprovalExpired(step=1, ordinal=0, approval_id="apr-1"))
    assert (result_kind(expired), life(expired)) == ("expired", ["dropped"])


def test_a_question_is_open_until_it_is_answered() -> None:
    state = replace(born(), consecutive_errors=3, corrections=3)
    state = told(state, e.HumanAsked(step=1, question_id="q1", text="help", group="desk"))
    assert state.question is not None
    assert state.question.id == "q1"
    answer = e.HumanAnswered(question_id="q1", answer="go", person="eve", answered_at=T0)
    state = told(state, answer)
    assert state.question is None
    assert (state.answers, state.consecutive_errors, state.corrections) == (1, 0, 0)


# ------------------------------------------------------------------ effects
def test_a_write_lives_from_intended_to_executed() -> None:
    state = intended(allowed("mail"))
    assert (phase(state), life(state)) == ("intended", ["intended"])
    state = observed(state)
    assert (result_kind(state), life(state)) == ("ok", ["executed"])
    assert (state.tool_calls, state.tool_s, len(state.evidence)) == (1, 0.5, 1)


def test_an_unknown_outcome_is_no_result() -> None:
    state = told(intended(allowed("mail")), e.Observed(step=1, ordinal=0, kind="unknown"))
    assert (phase(state), result_kind(state), life(state)) == ("unknown", None, ["unknown"])
    assert [line.outcome for line in state.tool_history] == ["unknown"]


@pytest.mark.parametrize(
    ("finding", "expected", "status"),
    [
        ("happened", "observed", "executed"),
        ("absent", "accepted", "approved"),
        ("undecidable", "unknown", "unknown"),
    ],
)
def test_a_finding_settles_an_unknown_outcome(finding: str, expected: str, status: str) -> None:
    state = told(intended(allowed("mail")), e.Observed(step=1, ordinal=0, kind="unknown"))
    found = e.Reconciled(
        step=1,
        ordinal=0,
        key="mail:x0",
        finding=finding,  # pyright: ignore[reportArgumentType]
        how="lookup",
        evidence=evidence(state, tool="mail") if finding == "happened" else None,
    )
    state = told(state, found)
    assert (phase(state), life(state)) == (expected, [status])
    assert len(state.evidence) == (1 if finding == "happened" else 0)
    assert state.turn is not None
    assert state.turn.calls[0].intents == 1, "a retry is counted from the first intent on"


@pytest.mark.parametrize(
    ("is_there", "problem", "status", "verification"),
    [
        (True, None, "verified", "happened"),
        (False, None, "executed", "absent"),
        (False, Problem(code="UNKNOWN", message="away"), "executed", "undecidable"),
    ],
)
def test_verification_marks_an_executed_write(
    is_there: bool, problem: Problem | None, status: str, verification: str
) -> None:
    state = observed(intended(allowed("mail")))
    event = e.Verified(step=1, key="mail:x0", is_there=is_there, problem=problem)
    state = told(state, event)
    assert (life(state), state.outstanding[0].verification) == ([status], verification)
    assert state.evidence == observed(intended(allowed("mail"))).evidence, "the model is told none"


@pytest.mark.parametrize(("how", "verification"), [("lookup", "happened"), ("settled", None)])
def test_what_a_lookup_has_settled_need_not_be_looked_up_again(
    how: Any, verification: str | None
) -> None:
    state = observed(intended(allowed("mail")), kind="unknown")
    found = e.Reconciled(
        step=1,
        ordinal=0,
        key="mail:x0",
        finding="happened",
        how=how,
        evidence=evidence(state, tool="mail"),
    )
    state = told(state, found)
    assert (life(state), state.outstanding[0].verification) == (["executed"], verification)


def test_an_outstanding_write_keeps_the_arguments_that_were_hashed() -> None:
    """A lookup is asked with them after its turn is gone."""
    state = observed(intended(allowed("mail")))
    effect = state.outstanding[0]
    assert action_hash(effect.kind, effect.arguments, effect.key) == effect.action_hash


def test_a_predicate_that_holds_is_remembered_for_its_turn() -> None:
    state = told(assessed(observed(allowed("look"))), e.CompletionAccepted(step=1))
    assert state.turn is not None
    assert (state.turn.is_judged, state.turn.is_met) == (True, True)


@pytest.mark.parametrize(
    ("kind", "errors", "calls"), [("ok", 0, 1), ("error", 1, 1), ("not_started", 0, 0)]
)
def test_only_what_ran_is_counted(kind: str, errors: int, calls: int) -> None:
    state = observed(allowed("look"), kind=kind)
    assert (state.tool_errors, state.tool_calls) == (errors, calls)
    assert [line.outcome for line in state.tool_history] == [kind]


def test_errors_in_a_row_end_with_a_success() -> None:
    state = assessed(observed(allowed("look"), kind="error"))
    assert state.consecutive_errors == 1
    state = authorised(accepted(told(reserved(state, 2), called("look", "scan", step=2))), *"aa")
    mixed = assessed(observed(observed(state, 0, "error"), 1, "ok"))
    assert mixed.consecutive_errors == 0


# ------------------------------------------------------------------ judging
def test_a_flag_is_shown_in_the_result_and_stops_only_if_it_says_so() -> None:
    state = observed(allowed("look"))
    warn = e.ProgressFlagged(
        step=1, ordinal=0, kind="repeated_action", level="warn", message="again?"
    )
    warned = told(state, warn)
    assert warned.turn is not None
    assert warned.turn.calls[0].result is not None
    assert warned.turn.calls[0].result.warning == "again?"
    assert (warned.seen.flagged, warned.turn.stopped_by) == (("repeated_action",), "")
    assert told(warned, warn).seen.flagged == ("repeated_action",)
    assert (warned.flags, told(warned, warn).flags) == (1, 2)
    stopped = told(state, replace(warn, level="stop"))
    assert stopped.turn is not None
    assert stopped.turn.stopped_by == "repeated_action"


def test_a_rejected_completion_is_told_and_the_run_goes_on() -> None:
    state = told(born(), decided(use(0, "finish", output=1)), e.Accepted(step=1, actions=()))
    state = told(state, e.CompletionRejected(step=1, problem=NO))
    assert state.turn is not None
    assert (state.turn.problem, state.status) == (NO, Status.RUNNING)


# ------------------------------------------------------------------ status and time
def test_a_wait_is_over_once_it_was_waited() -> None:
    state = told(born(), decided(use(0, "wait", seconds=5, why="w")))
    state = told(state, e.Suspended(status=Status.WAITING, reason="timer", until=T0 + 5))
    assert (state.status, state.reason, state.until) == (Status.WAITING, "timer", T0 + 5)
    state = told(state, e.Resumed(why="timer"))
    assert (state.status, state.reason, state.until) == (Status.RUNNING, "", None)
    assert state.turn is not None
    assert state.turn.is_waited


def test_suspended_time_is_counted_apart_from_active_time() -> None:
    state = told(born(), e.Suspended(status=Status.PAUSED, reason="by_person"))
    state = seal(state, 1, "h1", at=T0 + 10, active_s=3.0)
    state = seal(told(state, e.Resumed(why="resumed")), 2, "h2", at=T0 + 70, active_s=0.5)
    assert (state.active_s, state.suspended_s, state.suspended_at) == (3.5, 60.0, None)
    assert (state.version, state.head_hash, state.updated_at) == (2, "h2", T0 + 70)


def test_an_ended_run_changes_no_more() -> None:
    state = told(
        born(),
        e.Finished(status=Status.FAILED, reason=Reason.POISON, output=5, summary="nothing"),
    )
    assert (state.output, state.summary, state.reservation) == (5, "nothing", None)
    for event in (
        e.Resumed(why="x"),
        e.Suspended(status=Status.PAUSED, reason="x"),
        e.Finished(status=Status.SUCCEEDED, reason=Reason.VERIFIED),
    ):
        with pytest.raises(IllegalTransition):
            told(state, event)


def test_a_childs_end_returns_its_carve_once() -> None:
    child = e.Child(run_id="c1", agent="a", goal="g", carve=Limits(max_tokens=1_000))
    state = told(born(), e.ChildStarted(step=1, ordinal=0, children=(child,)))
    assert state.children == (child,)
    ended = e.ChildEnded(
        run_id="c1",
        status=Status.SUCCEEDED,
        reason=Reason.VERIFIED,
        used_steps=1,
        used_tokens=300,
        used_cost_microusd=4,
    )
    state = told(state, ended)
    assert (state.children, state.spent) == ((), Amount(tokens=300, cost_microusd=4))
    assert state.children_microusd == 4
    assert told(state, ended) == state


def test_plans_and_handovers_are_for_the_record() -> None:
    state = born()
    assert told(state, e.Planned(step=1, plan=()), e.HandedOver(source="a", target="b")) == state


def test_a_judgement_is_made_once_a_turn() -> None:
    state = told(assessed(observed(allowed("look"))), e.Judged(step=1, unmet="not yet"))
    assert state.turn is not None
    assert state.turn.is_judged


def test_arguments_keep_their_form() -> None:
    """What the model sent is kept as it was; the action is what was made of it."""
    odd: Arguments = {"x": {"nested": [1, None]}}
    state = told(born(), decided(use(0, "look", **odd)))
    assert state.turn is not None
    assert state.turn.calls[0].arguments == odd
    assert state_at(2).turn.calls[0].arguments == ARGUMENTS  # pyright: ignore[reportOptionalMemberAccess]


def test_asking_twice_is_two_approvals_of_one_call() -> None:
    state = asked(authorised(accepted(told(born(), called("mail"))), "ask"))
    assert life(asked(state, approval_id="apr-2")) == ["proposed"]
