"""Calls that the run's own record answers: a read that is young enough, a result read further."""

from actors.orchestrator.hand import Hand
from messages.canon import digest
from messages.errors import NotFound
from messages.execution import Outcome
from messages.parts import Action, Evidence, JsonValue, Problem
from messages.state import CallState
from runtime.artifacts import INLINE_BYTES, fetch_artifact
from runtime.loop.reuse import answered_before
from runtime.loop.strategies.loop import READ_RESULT
from runtime.model.cut import cut_for_json
from runtime.model.shown import Shown, text_of

_AROUND_BYTES = 150
"""Of a part: what stands beside its text, so that all of it is shown."""


async def recorded(hand: Hand, call: CallState) -> Outcome | None:
    """What the record says, or None where an executor has to be asked.

    Raises:
        GiveUp, TreadleError: the ledger could not be asked for an artifact.
    """
    action, spec = call.action, hand.agent.tool(call.tool)
    if action is None or spec is None:
        return None
    if call.tool == READ_RESULT:
        return await _read_further(hand, action)
    found = answered_before(hand.pen.state, spec, call, hand.pen.now())
    return found and Outcome(kind="ok", evidence=found)


async def _read_further(hand: Hand, action: Action) -> Outcome:
    wanted, offset = str(action.arguments["evidence"]), int(action.arguments.get("offset", 0))
    state = hand.pen.state
    found = next((item for item in state.evidence if item.id == wanted), None)
    if found is None:
        known = f"there are ev-1 to ev-{len(state.evidence)}" if state.evidence else "there is none"
        problem = Problem(code="NO_EVIDENCE", message=f"no evidence {wanted[:80]!r}; {known}")
        return Outcome(kind="error", problem=problem)
    payload = found.payload
    try:
        if found.ref is not None:
            payload = await fetch_artifact(hand.asking, state.tenant, found.ref)
    except NotFound as error:
        return Outcome(kind="error", problem=Problem(code=error.code, message=error.message))
    return Outcome(kind="ok", evidence=_part(hand, action, found, text_of(payload), offset))


def _part(hand: Hand, action: Action, found: Evidence, text: str, offset: int) -> Evidence:
    calls = len(hand.pen.state.turn.calls) if hand.pen.state.turn else 1
    most = min(Shown.of(hand.agent, calls).most - _AROUND_BYTES, INLINE_BYTES // 2)
    part = cut_for_json(text[offset : offset + most], max(most, 1))
    shown: dict[str, JsonValue] = {"text": part, "offset": offset, "characters": len(text)}
    if offset + len(part) < len(text):
        shown["next_offset"] = offset + len(part)
    return Evidence(
        id=hand.pen.state.next_evidence_id,
        tool=action.tool,
        request_id=f"read-{digest([found.id, offset])[:12]}",
        fetched_at=found.fetched_at,
        source=found.source,
        payload=shown,
        notes=(f"read from {found.id}, request {found.request_id}",),
    )
