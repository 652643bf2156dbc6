"""Asking a downstream by key whether an effect is there, under a grant for nothing else.

Serves both who has to know: a write of unknown outcome (``reconcile``), and the executed writes of
a run that is about to succeed (``verify``).
"""

from actors.orchestrator.checks import deadline_of
from actors.orchestrator.hand import Hand
from messages import execution
from messages.authority import Authorise, Grant, Purpose
from messages.errors import TreadleError
from messages.parts import Action, Problem


async def look_up(
    hand: Hand, action: Action, *, step: int, evidence_id: str
) -> execution.Finding | None:
    """What a lookup finds; None: a cancel was heard before it answered.

    It is bounded by the tool's deadline, and whatever it comes to but an answer is undecidable.

    Args:
        hand: the run.
        action: with the very arguments that were granted when it ran.
        step: the step it belongs to.
        evidence_id: under which a result is kept.

    Raises:
        GiveUp: no executor, or no authoriser, answers for too long.
    """
    try:
        grant = await settling_grant(hand, action, step=step, purpose="lookup")
    except TreadleError as error:  # as where the agent or the tool is known there no longer
        return _undecidable(error.code, error.message)
    if grant is None:
        return _undecidable("POLICY_DENIED", "policy no longer allows the lookup")
    request = hand.order(execution.Reconcile, action, grant, step=step, evidence_id=evidence_id)
    finding: execution.Finding | None = None
    with hand.interrupt.cutting():
        try:
            finding = await hand.asking.again(
                request, deadline_s=deadline_of(hand.agent, action.tool)
            )
        except TreadleError as error:
            finding = _undecidable(error.code, error.message)
    return finding


def _undecidable(code: str, message: str) -> execution.Finding:
    return execution.Finding(kind="undecidable", problem=Problem(code=code, message=message))


async def settling_grant(
    hand: Hand, action: Action, *, step: int, purpose: Purpose
) -> Grant | None:
    """Authority to find out what became of an action; None: policy denies it by now."""
    state = hand.pen.state
    answer = await hand.asking.again(
        Authorise(
            tenant=state.tenant,
            run_id=state.run_id,
            agent=state.agent,
            version=state.version,
            step=step,
            actions=(action,),
            purpose=purpose,
            replays=(action.ordinal,),
        )
    )
    hand.hold(answer.grant)
    return answer.grant
