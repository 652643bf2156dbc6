"""next_directive: what must happen next. The order of decision, read top to bottom.

Read once it is the loop of seeds/a; read twice, after a crash, it is recovery: the journal says
how far the run came, and the same order goes on from there.
"""

from messages.agent import AgentSpec
from messages.state import CallState, LoopState, Turn
from messages.status import Reason, Status
from runtime.loop import budget, waiting
from runtime.loop.broken import BROKEN, broken
from runtime.loop.calls import OPEN_PHASES, PERSON_DENIED
from runtime.loop.completion import succeed
from runtime.loop.directives import (
    AskPerson,
    Assess,
    Authorise,
    Decide,
    Directive,
    Execute,
    Finish,
    Judge,
    LetGo,
    Moment,
    Nothing,
    Recheck,
    Reconcile,
    Record,
    RequestApproval,
    Suspend,
    Validate,
)
from runtime.loop.interrupted import cancelled, suspended
from runtime.loop.monitor import refusals

MAX_EQUAL_REJECTIONS = 3
_CALLED_ANYWAY = "the last turn called tools although it had none; nothing of that was done"
MAX_INTENTS = 5
"""A call is intended at most this often (DESIGN.md section 6)."""


def next_directive(state: LoopState, agent: AgentSpec, now: Moment) -> Directive:
    """What must happen next in this run.

    Args:
        state: folded from the journal and the events not yet written.
        agent: the agent as data.
        now: the ledger's clock and what is pending from outside.
    """
    if state.status.is_terminal:
        return Nothing()
    if state.status.is_suspended:
        return suspended(state, now)
    by_phase = _phases(state.turn)
    open_calls = _open(by_phase)
    if now.cancel is not None:
        return cancelled(state, now, open_calls)
    if open_calls:
        return Reconcile(ordinal=open_calls[0].ordinal)
    if now.pause is not None:
        return Suspend(status=Status.PAUSED, reason=Reason.BY_PERSON)
    if now.is_held:
        return LetGo()
    return _running(state, agent, now, by_phase)


def _running(
    state: LoopState, agent: AgentSpec, now: Moment, by_phase: dict[str, list[CallState]]
) -> Directive:
    if state.question is not None:
        return Suspend(status=Status.AWAITING_HUMAN, reason=state.question.text[:200])
    if state.turn is None:
        return _new_step(state, agent, now)
    return _in_turn(state, agent, now, state.turn, by_phase)


def _open(by_phase: dict[str, list[CallState]]) -> list[CallState]:
    if OPEN_PHASES.isdisjoint(by_phase):
        return []
    calls = [call for phase in OPEN_PHASES & by_phase.keys() for call in by_phase[phase]]
    return sorted(calls, key=lambda call: call.ordinal)


# ------------------------------------------------------------------ a new step
def _new_step(state: LoopState, agent: AgentSpec, now: Moment) -> Directive:
    if state.reservation is not None:
        return Decide()
    if now.at < state.retry_at:  # a pause in between does not shorten it
        return Suspend(status=Status.WAITING, reason=Reason.RETRY_AFTER, until=state.retry_at)
    if state.exhausted:
        return last_words(state, agent, now, Reason(state.exhausted))
    fit = budget.next_reservation(state, agent, stretch_s=now.stretch_s, take_id=now.take_id)
    if isinstance(fit, budget.Exhausted):
        return last_words(state, agent, now, fit.reason)
    return Decide(reserve=fit)


def last_words(state: LoopState, agent: AgentSpec, now: Moment, reason: Reason) -> Decide | Finish:
    """A budget is gone: one tool-free final turn where it is still paid for, else the end."""
    if not reason.is_budget:
        return Finish(status=Status.FAILED, reason=reason)
    final = budget.final_reservation(state, agent, now.take_id)
    if final is not None and state.step_count > 0:
        return Decide(reserve=final)
    return Finish(status=Status.BUDGET_EXHAUSTED, reason=reason)


# ------------------------------------------------------------------ inside a turn
def _in_turn(
    state: LoopState,
    agent: AgentSpec,
    now: Moment,
    turn: Turn,
    by_phase: dict[str, list[CallState]],
) -> Directive:
    if turn.problem is None and turn.proposal.kind in BROKEN:
        return broken(state, turn)
    if fresh := by_phase.get("proposed", []) + by_phase.get("approved", []):
        return Validate(ordinals=tuple(sorted(c.ordinal for c in fresh)))
    if authority := _authority(state, agent, now, by_phase):
        return authority
    if unchecked := _unchecked(by_phase, agent):
        return Recheck(ordinals=tuple(c.ordinal for c in unchecked))
    if allowed := by_phase.get("allowed"):
        return Execute(ordinals=tuple(c.ordinal for c in allowed))
    if asking := by_phase.get("asking"):
        return RequestApproval(ordinals=tuple(c.ordinal for c in asking))
    if waiting := by_phase.get("waiting"):
        until = min((c.approval_expires_at or 0.0) for c in waiting)
        return Suspend(
            status=Status.AWAITING_APPROVAL, reason=waiting[0].rule or "approval", until=until
        )
    return _observed_turn(state, agent, now, turn)


def _authority(
    state: LoopState, agent: AgentSpec, now: Moment, by_phase: dict[str, list[CallState]]
) -> Record | Authorise | None:
    """What is well-formed is asked authority for, unless it would bring nothing new."""
    accepted = by_phase.get("accepted", [])
    if refused := refusals(state, agent.progress, accepted):
        return Record(events=refused)
    calls = accepted + _lapsed(by_phase, now)
    return Authorise(ordinals=tuple(sorted(c.ordinal for c in calls))) if calls else None


def _phases(turn: Turn | None) -> dict[str, list[CallState]]:
    phases: dict[str, list[CallState]] = {}
    for call in turn.calls if turn is not None else ():
        phases.setdefault(call.phase, []).append(call)
    return phases


def _lapsed(by_phase: dict[str, list[CallState]], now: Moment) -> list[CallState]:
    """Calls whose grant has run out, as after a crash: authority is asked for again.

    The margin is the one that the executor leaves, and no more: a grant ends with its approval, so
    another one would not live longer.
    """
    allowed, end = by_phase.get("allowed"), now.at + now.grant_margin_s
    return [c for c in allowed if c.grant_expires_at <= end] if allowed else []


def _unchecked(by_phase: dict[str, list[CallState]], agent: AgentSpec) -> list[CallState]:
    calls = by_phase.get("allowed", []) + by_phase.get("asking", [])
    if not calls:
        return []
    return [c for c in calls if not c.is_rechecked and _has_precondition(agent, c)]


def _has_precondition(agent: AgentSpec, call: CallState) -> bool:
    tool = agent.tool(call.tool)
    return tool is not None and tool.has_precondition


def _observed_turn(state: LoopState, agent: AgentSpec, now: Moment, turn: Turn) -> Directive:
    """Every call has its result: does the run end here?"""
    if agent.on_policy_deny == "end" and (denied := _denied_by_policy(turn)):
        return Finish(status=Status.DENIED, reason=Reason.POLICY, why=denied)
    if agent.on_expired_approval == "needs_input" and _has_expired(turn):
        return Finish(status=Status.NEEDS_INPUT, reason=Reason.APPROVAL_EXPIRED)
    if turn.problem is None and (ending := _proposed_ending(state, agent, now, turn)):
        return ending
    if (turn.calls or turn.problem is not None) and not turn.is_assessed:
        return Assess()
    if turn.stopped_by:
        return Finish(status=Status.NO_PROGRESS, reason=Reason(turn.stopped_by))
    if turn.is_met and turn.problem is None:
        return succeed(state, agent, turn)
    if _asks_for_judgement(agent, turn):
        return Judge(has_output=False)
    return _over_ceiling(state, agent) or _new_step(state, agent, now)


def _denied_by_policy(turn: Turn) -> str:
    for call in turn.calls:
        result = call.result
        if result is None or result.kind != "denied" or result.problem is None:
            continue
        if result.problem.code != PERSON_DENIED:
            return result.problem.message or "policy"
    return ""


def _has_expired(turn: Turn) -> bool:
    return any(c.result is not None and c.result.kind == "expired" for c in turn.calls)


def _asks_for_judgement(agent: AgentSpec, turn: Turn) -> bool:
    """An agent without ``output=`` ends early, as soon as its predicate holds."""
    if not agent.has_done or agent.output_schema is not None or turn.is_judged:
        return False
    return any(c.result is not None and c.result.kind == "ok" for c in turn.calls)


def _proposed_ending(
    state: LoopState, agent: AgentSpec, now: Moment, turn: Turn
) -> Directive | None:
    proposal = turn.proposal
    match proposal.kind:
        case "finish":
            return _proposed_finish(state, agent, turn)
        case "ask_user":
            return Finish(status=Status.NEEDS_INPUT, reason=Reason.QUESTION, output=proposal.text)
        case "give_up":
            return Finish(status=Status.FAILED, reason=Reason.NO_ACTION, why=proposal.text)
        case "wait":
            return waiting.next_of(state, turn, now)
        case "final":
            reason = (
                Reason(state.exhausted) if state.exhausted else _spent_budget(state, agent, now)
            )
            return Finish(
                status=Status.BUDGET_EXHAUSTED,
                reason=reason,
                output=proposal.text,
                why=_CALLED_ANYWAY if _has_calls(turn) else "",
            )
        case _:
            return None


def _has_calls(turn: Turn) -> bool:
    return any(block.get("type") == "tool_use" for block in turn.content)


def _proposed_finish(state: LoopState, agent: AgentSpec, turn: Turn) -> Directive:
    if not turn.is_checked:
        return Validate()
    if agent.has_done and not turn.is_met:
        return Judge(has_output=True)
    return succeed(state, agent, turn, turn.proposal.output)


def _spent_budget(state: LoopState, agent: AgentSpec, now: Moment) -> Reason:
    """Which budget made the final turn the last one."""
    fit = budget.next_reservation(state, agent, stretch_s=now.stretch_s)
    return fit.reason if isinstance(fit, budget.Exhausted) else Reason.MAX_TOKENS


def _over_ceiling(state: LoopState, agent: AgentSpec) -> Directive | None:
    """Progress is judged before error ceilings (CONTRACT.md section 3)."""
    if any(n >= MAX_EQUAL_REJECTIONS for n in state.seen.rejections.values()):
        return Finish(status=Status.NO_PROGRESS, reason=Reason.REPEATED_ACTION)
    errors = agent.errors
    if state.corrections >= errors.max_corrections:
        is_cut = state.turn is not None and state.turn.proposal.kind == "cut"
        reason = Reason.OUTPUT_LIMIT if is_cut else Reason.BAD_OUTPUT
        return _escalate(agent, "the model could not correct its proposals", reason)
    if state.consecutive_errors >= errors.max_consecutive:
        return _escalate(agent, "tools failed several times in a row", Reason.TOO_MANY_ERRORS)
    if state.tool_errors >= errors.max_total:
        return Finish(status=Status.FAILED, reason=Reason.TOO_MANY_ERRORS)
    return None


def _escalate(agent: AgentSpec, text: str, reason: Reason) -> Directive:
    if agent.errors.escalate_to is None:
        return Finish(status=Status.FAILED, reason=reason, why=text)
    return AskPerson(group=agent.errors.escalate_to, text=text)
