"""Steps 4, 5 and 8 of a drive: well-formed? allowed? getting anywhere? done?"""

from actors.orchestrator.hand import Hand
from actors.orchestrator.taken import recorded
from messages import checks, execution
from messages import events as e
from messages.agent import AgentSpec
from messages.authority import ApprovalUse, Authorise
from messages.errors import TreadleError
from messages.ledger import EffectRow, ListEffects
from messages.parts import Action, Call, Problem
from runtime.faults import fault
from runtime.loop import directives as d
from runtime.loop import monitor

_CLOCKS_S = 0.2
"""Before authority is asked for again that came too late."""
_SLACK_S = 5.0
"""On top of a tool's deadline: claim, settle and the way there and back."""


def deadline_of(agent: AgentSpec, tool: str) -> float:
    """Seconds after which an executor's answer is not waited for."""
    spec = agent.tool(tool)
    return (spec.timeout_s if spec else 30.0) + _SLACK_S


async def validate(hand: Hand, directive: d.Validate) -> bool:
    """Step 4: is the proposal well-formed?"""
    state, step = hand.pen.state, hand.turn_step
    proposal = state.turn.proposal if state.turn else None
    calls = [hand.call(ordinal) for ordinal in directive.ordinals]
    answer = await hand.asking.again(
        checks.Validate(
            tenant=state.tenant,
            run_id=state.run_id,
            agent=state.agent,
            origin=state.run_id,
            step=step,
            calls=tuple(
                Call(
                    ordinal=call.ordinal,
                    tool_use_id=call.tool_use_id,
                    tool=call.tool,
                    # an approved call comes back with the bytes that were approved
                    arguments=call.action.arguments if call.action else call.arguments,
                    unreadable=call.unreadable,
                )
                for call in calls
            ),
            is_finish=not directive.ordinals,
            output=proposal.output if proposal else None,
        )
    )
    fault("orchestrator.after_validate")
    if answer.output_problem is not None:
        hand.pen.add(e.ProposalRejected(step=step, problem=answer.output_problem))
    for rejection in answer.rejections:
        hand.pen.add(
            e.ProposalRejected(step=step, ordinal=rejection.ordinal, problem=rejection.problem)
        )
    if answer.actions or (not directive.ordinals and answer.output_problem is None):
        hand.pen.add(e.Accepted(step=step, actions=answer.actions, output=answer.output))
    return True


async def authorise(
    hand: Hand, ordinals: tuple[int, ...], *, replays: tuple[int, ...] = ()
) -> bool:
    """Step 5: may this run do this now?"""
    state, step = hand.pen.state, hand.turn_step
    calls = [hand.call(ordinal) for ordinal in ordinals]
    answer = await hand.asking.again(
        Authorise(
            tenant=state.tenant,
            run_id=state.run_id,
            agent=state.agent,
            version=state.version,
            step=step,
            actions=tuple(call.action for call in calls if call.action is not None),
            approvals=tuple(
                ApprovalUse(ordinal=call.ordinal, approval_id=call.approval_id)
                for call in calls
                if call.approval_id is not None
            ),
            replays=replays,
        )
    )
    fault("orchestrator.after_authorise")
    hand.pen.add(
        e.Authorised(step=step, verdicts=answer.verdicts, policy=answer.policy, grant=answer.grant)
    )
    hand.hold(answer.grant)
    grant = answer.grant
    if grant is not None and grant.expires_at <= hand.pen.now() + hand.times.skew_s:
        # it is of no use already: the clocks differ, and asking at once would go in circles
        await hand.clock.sleep(_CLOCKS_S)
        await hand.pen.read_signals()
    return True


async def recheck(hand: Hand, directive: d.Recheck) -> bool:
    """Preconditions, before a person is asked and again before anything runs."""
    for ordinal in directive.ordinals:
        call = hand.call(ordinal)
        grant = hand.grant(call.grant_id)
        if call.action is None or grant is None:
            return await authorise(hand, (ordinal,))
        verdict: execution.RecheckVerdict | None = None
        request = hand.order(execution.Recheck, call.action, grant)
        deadline_s = deadline_of(hand.agent, call.tool)
        with hand.interrupt.cutting():
            try:
                verdict = await hand.asking.again(request, deadline_s=deadline_s)
            except TreadleError as failure:
                verdict = execution.RecheckVerdict(unmet=f"could not be checked: {failure.message}")
        if verdict is None:
            return True  # a cancel was heard
        unmet = verdict.problem.message if verdict.problem else verdict.unmet
        if unmet is not None and (done := await _done(hand, call.action)):
            given = recorded(hand.pen.state, hand.turn_step, ordinal, done.evidence)
            hand.pen.add(given)
            continue
        hand.pen.add(e.Rechecked(step=hand.turn_step, ordinal=ordinal, unmet=unmet))
    return True


async def _done(hand: Hand, action: Action) -> EffectRow | None:
    """The record of exactly this action, if it is done: its own effect may be what is unmet now.

    Asked for only where the precondition does not hold; where it does, the intent finds out.
    """
    if action.key is None:
        return None
    found = await hand.asking.again(ListEffects(tenant=hand.pen.state.tenant, keys=(action.key,)))
    for row in found.rows:
        if row.state == "done" and row.action_hash == action.action_hash:
            return row
    return None


# ------------------------------------------------------------------ termination
async def assess(hand: Hand) -> bool:
    """Step 8, first half: is the run getting anywhere?"""
    request = monitor.question(hand.pen.state, hand.agent.progress)
    answer = await hand.asking.again(request)
    fault("orchestrator.after_assess")
    for flag in answer.flags:
        hand.pen.add(
            e.ProgressFlagged(
                step=hand.turn_step,
                ordinal=flag.ordinal,
                kind=flag.kind,
                level=flag.level,
                message=flag.message,
            )
        )
    hand.pen.add(e.Assessed(step=hand.turn_step))
    return True


async def judge(hand: Hand, directive: d.Judge) -> bool:
    """Step 8, second half: does recorded evidence bear out that the task is done?"""
    turn = hand.pen.state.turn
    output = turn.proposal.output if turn and directive.has_output else None
    verdict = await hand.asking.again(
        checks.Judge(
            tenant=hand.pen.state.tenant,
            run_id=hand.pen.state.run_id,
            agent=hand.agent.name,
            version=hand.pen.state.version,
            pending=hand.pen.buffered,
            has_output=directive.has_output,
            output=output,
        )
    )
    fault("orchestrator.after_judge")
    unmet = verdict.problem.message if verdict.problem else verdict.unmet
    if unmet is None:
        hand.pen.add(e.CompletionAccepted(step=hand.turn_step))
    elif directive.has_output:
        problem = Problem(code="COMPLETION_REJECTED", message=f"completion rejected: {unmet}")
        hand.pen.add(e.CompletionRejected(step=hand.turn_step, problem=problem))
    else:
        hand.pen.add(e.Judged(step=hand.turn_step, unmet=unmet))
    return True
