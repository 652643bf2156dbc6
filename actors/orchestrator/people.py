"""Approvals, questions and what comes back from them."""

from actors.orchestrator.hand import Hand
from messages import events as e
from messages.events import AnyEvent
from messages.ledger import Signal
from messages.state import LoopState
from messages.status import Reason, Status
from runtime.loop import directives as d


def request_approval(hand: Hand, directive: d.RequestApproval) -> bool:
    """Ask people about exactly these actions, until the moment the package names."""
    for ordinal in directive.ordinals:
        call = hand.call(ordinal)
        action = call.action
        if action is None or call.approval_expires_at is None:
            raise AssertionError("a call that was not authorised cannot be approved")
        hand.pen.add(
            e.ApprovalRequested(
                step=hand.turn_step,
                ordinal=ordinal,
                approval_id=hand.ids.new_id("apr"),
                tool=call.tool,
                action_hash=action.action_hash,
                key=action.key,
                group=call.group,
                size=call.size,
                rule=call.rule,
                why=call.why,
                expires_at=call.approval_expires_at,
                package=call.package,
            )
        )
    return True


def ask_person(hand: Hand, directive: d.AskPerson) -> bool:
    """Escalate with the whole context; the answer goes to the model as a user message."""
    state = hand.pen.state
    hand.pen.add(
        e.HumanAsked(
            step=state.step_count,
            question_id=hand.ids.new_id("q"),
            text=directive.text,
            group=directive.group,
            package={
                "goal": state.goal,
                "reason": directive.text,
                "tool_history": [
                    {"step": r.step, "tool": r.tool, "outcome": r.outcome}
                    for r in state.tool_history[-20:]
                ],
            },
        )
    )
    return True


def resolution(state: LoopState, signal: Signal) -> tuple[AnyEvent, ...]:
    """The event of a person's decision; none if the call it is about waits no longer."""
    for call in state.turn.calls if state.turn else ():
        if call.approval_id == signal.approval_id and call.phase == "waiting":
            return (
                e.ApprovalResolved(
                    step=state.turn.step if state.turn else 0,
                    ordinal=call.ordinal,
                    approval_id=call.approval_id or "",
                    decision=signal.decision or "denied",
                    person=signal.person,
                    credential=signal.credential,
                    channel=signal.channel,
                    confirmed_hash=signal.confirmed_hash,
                    reason=signal.reason,
                    decided_at=signal.at,
                ),
            )
    return ()


def answer(state: LoopState, signal: Signal) -> tuple[AnyEvent, ...]:
    """The event of a person's answer; none if that question is open no more."""
    if state.question is None or state.question.id != signal.question_id:
        return ()
    return (
        e.HumanAnswered(
            question_id=state.question.id,
            answer=signal.answer,
            person=signal.person,
            answered_at=signal.at,
        ),
    )


def child_ended(signal: Signal) -> tuple[AnyEvent, ...]:
    """The event of a child's end."""
    status = signal.child_status or Status.FAILED
    return (
        e.ChildEnded(
            run_id=signal.child_run or "",
            status=status,
            reason=Reason(signal.child_reason),
            used_steps=signal.child_steps,
            used_tokens=signal.child_usage.tokens,
            used_cost_microusd=signal.child_cost_microusd,
            result=signal.child_result,
        ),
    )
