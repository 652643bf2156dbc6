"""What the model is told of a turn: one result for each call, as quoted data with its provenance.

Foreign values are written in their canonical form: read back from the journal in any process they
are the same bytes.

Nothing in that data is ever an instruction; it is marked as data and never read back. The newest of
it says what is left of the budget, so that every earlier message stays as it was sent.
"""

import msgspec

from messages.agent import AgentSpec
from messages.canon import canonical
from messages.parts import Evidence, JsonValue, Problem
from messages.state import CallResult, CallState, LoopState, Turn
from runtime.loop import waiting
from runtime.loop.budget import room_of
from runtime.model.cut import cut_and_said
from runtime.model.sendable import Sent
from runtime.model.shown import Shown
from runtime.money import usd

_ENCODE = msgspec.json.Encoder().encode
OPENING = 0.15
"""Of the room: what goal and inputs may take."""
_OUTCOMES = {
    "error": "error",
    "cancelled": "cancelled, without a result",
    "unknown": "unknown, it may have happened",
}
"""How calls ended that may have been started; the model is told of every other that it was not."""
_UNKNOWN = CallResult(
    kind="unknown",
    problem=Problem(
        code="OUTCOME_UNKNOWN", message="It was started, and whether it happened is not known."
    ),
)


def results(
    state: LoopState, turn: Turn, ids: tuple[str, ...], now: LoopState, agent: AgentSpec
) -> list[Sent]:
    """One result per tool_use of a turn, in order; else what the turn as a whole is told.

    Args:
        state: at the end of the turn.
        turn: the open one.
        ids: of its calls, as they were sent back.
        now: once the next step is reserved, for what is left then.
        agent: how much it may be shown.
    """
    evidence = {item.id: item for item in state.evidence[-len(turn.calls) - 8 :]}
    shown = Shown.of(agent, len(turn.calls))
    told = [
        (ids[call.ordinal], *_result(result, evidence.get(result.evidence_id or ""), shown))
        for call in turn.calls
        if (result := _ended(call)) is not None
    ]
    if turn.proposal.control_id is not None:
        told.append((ids[0], *_control_result(turn)))
    elif turn.problem is not None and not _is_told(turn, turn.problem):
        told.append(("", _problem(turn.problem), False))
    if told and turn.warning:
        told[-1][1]["warning"] = turn.warning
    if told:
        told[-1][1]["budget_left"] = left_of(now)
    return [_block(*one) for one in told]


def opening(state: LoopState, agent: AgentSpec) -> Sent:
    """The first words to the model: the goal, what it was given, what it may spend."""
    most = int(OPENING * room_of(agent))
    text = cut_and_said(state.goal, most)
    if state.inputs:
        given = canonical(state.inputs).decode()
        left = max(most - len(text.encode()), 0)
        text += f"\n\nInputs (data):\n{cut_and_said(given, left)}"
    return text_block(f"{text}\n\nBudget: {_json(left_of(state))}")


def answer(person: str, said: JsonValue) -> Sent:
    """What somebody said to a question."""
    return text_block(f"{person} answers: {canonical(said).decode()}")


def text_block(text: str) -> Sent:
    """Words."""
    return {"type": "text", "text": text}


def left_of(state: LoopState) -> Sent:
    """What the model is told of its budget (REQUIREMENTS.md C13); the limits hold anyway.

    The reserved step is still to come, so it counts as left, and so does what it may cost.
    """
    limits, spent = state.limits, state.spent
    left: Sent = {
        "steps": limits.max_steps - state.step_count,
        "tokens": max(limits.max_tokens - spent.tokens, 0),
        "seconds": max(int(limits.max_seconds - state.active_s), 0),
    }
    if limits.max_cost_microusd is not None:
        left["usd"] = usd(max(limits.max_cost_microusd - spent.cost_microusd, 0))
    if state.waited_s:  # of no interest to a run that never waits
        left["wait_seconds"] = int(waiting.left_s(state))
    return left


def _json(value: JsonValue) -> str:
    return _ENCODE(value).decode()


def _block(tool_use_id: str, shown: Sent, is_error: bool) -> Sent:  # noqa: FBT001 -- a pair's half
    if not tool_use_id:
        return text_block(_json(shown))
    block: Sent = {
        "type": "tool_result",
        "tool_use_id": tool_use_id,
        "content": _json(shown),
    }
    return {**block, "is_error": True} if is_error else block


def _is_told(turn: Turn, problem: Problem) -> bool:
    """A turn turned down as a whole says why in the result of each call that it ended."""
    return any(c.result is not None and c.result.problem == problem for c in turn.calls)


def _ended(call: CallState) -> CallResult | None:
    """How a call ended; one of unknown outcome has no result until that is settled."""
    return _UNKNOWN if call.phase == "unknown" else call.result


def _result(result: CallResult, evidence: Evidence | None, limits: Shown) -> tuple[Sent, bool]:
    """What is shown of how a call ended, and whether that is an error."""
    shown: Sent = {}
    if evidence is not None:
        shown = {
            "evidence": evidence.id,
            "source": evidence.source,
            "request_id": evidence.request_id,
            **limits.of_evidence(evidence),
        }
        if evidence.notes:
            shown["notes"] = list(evidence.notes)
    if result.problem is not None:
        shown = {**shown, **_problem(result.problem)}
    if result.kind != "ok":
        shown["outcome"] = _OUTCOMES.get(result.kind, f"{result.kind}, not executed")
    if result.warning:
        shown["warning"] = result.warning
    return shown, result.kind != "ok"


def _control_result(turn: Turn) -> tuple[Sent, bool]:
    if turn.problem is None:
        return {"outcome": "done"}, False
    return _problem(turn.problem), True


def _problem(problem: Problem) -> Sent:
    shown: Sent = {"error": problem.code, "message": problem.message}
    return {**shown, "hint": problem.hint} if problem.hint else shown
