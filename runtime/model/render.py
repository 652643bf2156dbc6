"""journal -> conversation: append-only, so that every turn once sent stays as it was.

Folded entry by entry beside the state. A turn's results become one user message when the turn is
over (its next step is reserved): one tool_result per tool_use, in order, as quoted data with its
provenance. Nothing in that data is ever an instruction; it is marked as data and never read back.
"""

import re
from typing import Any

import msgspec
from msgspec.structs import replace

from messages import events as e
from messages.agent import AgentSpec
from messages.base import Part
from messages.canon import canonical
from messages.ledger import Entry
from messages.parts import Block, Evidence, JsonValue, Problem, Reservation
from messages.state import CallResult, CallState, LoopState, Turn
from runtime.loop.evolve import begin, evolve, seal
from runtime.loop.strategies.loop import control_tools
from runtime.loop.summary import what_was_done
from runtime.model.port import ModelRequest

Sent = dict[str, JsonValue]
"""One message of the provider's conversation."""

_ENCODE = msgspec.json.Encoder().encode
_ROLE_BYTES = 32
_BLOCK_BYTES = 64
"""What a provider's own framing of a message and of a block may add, in tokens at most."""
FINAL_OVERHEAD_BYTES = 256
"""Roles and separators around the one message of the final turn."""
_FINAL_TEXT = (
    "\n\nYou have reached a limit of this task. No tool can be called any more. Answer with what is"
    " already known and say explicitly what is missing."
)
_DONE = "\n\nDone: "
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})
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
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
"""A tool name as the provider takes it."""
UNNAMEABLE = "tool_with_an_illegal_name"
"""Stands in for a name that the provider would not take back; the result says the real one."""


class Conversation(Part, kw_only=True):
    """A run as the model has seen it, and the state it was rendered from."""

    state: LoopState
    messages: tuple[Sent, ...]
    size: int
    """Bytes of ``messages``: an upper bound of their tokens."""
    turns: int = 0
    """Decisions so far."""
    answers: tuple[Sent, ...] = ()
    """What people said during the open turn; the provider wants its results first."""


def fold_conversation(conversation: Conversation | None, entry: Entry) -> Conversation:
    """The conversation after one more entry of the journal.

    Raises:
        BrokenChain: the entry does not follow.
    """
    for event in entry.events:
        if conversation is None:
            conversation = _opened(begin(entry, event))
            continue
        conversation = _told(conversation, event)
    if conversation is None:
        raise AssertionError("an entry without events")
    state = seal(conversation.state, entry.version, entry.hash, entry.at, entry.active_s)
    return replace(conversation, state=state)


def _opened(state: LoopState) -> Conversation:
    text = state.goal
    if state.inputs:
        text += "\n\nInputs (data):\n" + _ENCODE(state.inputs).decode()
    return _said(Conversation(state=state, messages=(), size=0), "user", [_text(text)])


def _told(conversation: Conversation, event: e.AnyEvent) -> Conversation:
    """One event: the state moves on, and where it ends a turn or speaks, so does the talk."""
    turn = conversation.state.turn
    if isinstance(event, e.StepReserved) and turn is not None:
        results = [*_results(conversation.state, turn), *conversation.answers]
        conversation = replace(_said(conversation, "user", results), answers=())
    conversation = replace(conversation, state=evolve(conversation.state, event))
    match event:
        case e.Decided():
            said = _said(conversation, "assistant", _sendable(event.content))
            return replace(said, turns=said.turns + 1)
        case e.HumanAnswered():
            answer = _text(f"{event.person} answers: {_ENCODE(event.answer).decode()}")
            return replace(conversation, answers=(*conversation.answers, answer))
        case _:
            return conversation


def _sendable(content: tuple[Block, ...]) -> list[Sent]:
    """A turn as it may be sent back, its signed blocks untouched; nothing if it only thought."""
    blocks = [_legal(block) for block in content if _may_be_sent(block)]
    return blocks if any(b.get("type") not in _THOUGHTS for b in blocks) else []


def _may_be_sent(block: Block) -> bool:
    """The provider turns down blank text, and a thought that was cut before its signature."""
    match block.get("type"):
        case "text":
            return bool(str(block.get("text") or "").strip())
        case "thinking":
            return bool(block.get("signature"))
        case _:
            return True


def _legal(block: Block) -> Sent:
    """A call as the provider takes it back: named by its pattern, its arguments an object."""
    if block.get("type") != "tool_use":
        return block
    name, given = block.get("name"), block.get("input")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        block = {**block, "name": UNNAMEABLE}
    return block if isinstance(given, dict) else {**block, "input": {"raw": given}}


def _said(conversation: Conversation, role: str, blocks: list[Sent]) -> Conversation:
    """Append blocks; the provider wants roles to alternate, so a second user turn is joined."""
    messages = conversation.messages
    size = conversation.size + _ROLE_BYTES + sum(_size(block) for block in blocks)
    if not blocks:
        return conversation
    if messages and messages[-1]["role"] == role:
        joined = {"role": role, "content": [*messages[-1]["content"], *blocks]}
        return replace(conversation, messages=(*messages[:-1], joined), size=size)
    message: Sent = {"role": role, "content": blocks}
    return replace(conversation, messages=(*messages, message), size=size)


def _size(block: Sent) -> int:
    """Bytes of what a block says: the tokeniser sees text, not the escapes of its JSON."""
    text = block.get("text") or block.get("content")
    if isinstance(text, str):
        return len(text.encode()) + len(str(block.get("tool_use_id", ""))) + _BLOCK_BYTES
    return len(canonical(block)) + _BLOCK_BYTES


# ------------------------------------------------------------------ results
def _results(state: LoopState, turn: Turn) -> list[Sent]:
    """One result per tool_use of the turn, in order; else what the turn as a whole is told."""
    evidence = {item.id: item for item in state.evidence[-len(turn.calls) - 8 :]}
    ended = [(call, _ended(call)) for call in turn.calls]
    blocks = [
        _result(call.tool_use_id, result, evidence.get(result.evidence_id or ""))
        for call, result in ended
        if result is not None
    ]
    if turn.proposal.control_id is not None:
        blocks.append(_control_result(turn))
    elif turn.problem is not None and not _is_told(turn, turn.problem):
        blocks.append(_text(_ENCODE(_problem(turn.problem)).decode()))
    return blocks


def _is_told(turn: Turn, problem: Problem) -> bool:
    """A turn turned down as a whole says why in the result of each call that it ended."""
    return any(c.result is not None and c.result.problem == problem for c in turn.calls)


def _ended(call: CallState) -> CallResult | None:
    """How a call ended; one of unknown outcome has no result until that is settled."""
    return _UNKNOWN if call.phase == "unknown" else call.result


def _result(tool_use_id: str, result: CallResult, evidence: Evidence | None) -> Sent:
    shown: dict[str, Any] = {}
    if evidence is not None:
        shown = {
            "evidence": evidence.id,
            "source": evidence.source,
            "request_id": evidence.request_id,
            "data": evidence.payload,
        }
        if evidence.ref is not None:
            shown["whole"] = f"artifact {evidence.ref}"
        if evidence.notes:
            shown["notes"] = list(evidence.notes)
    if result.problem is not None:
        shown = {**shown, **_problem(result.problem)}
    if result.kind != "ok":
        shown["outcome"] = _OUTCOMES.get(result.kind, f"{result.kind}, not executed")
    if result.warning:
        shown["warning"] = result.warning
    block: Sent = {
        "type": "tool_result",
        "tool_use_id": tool_use_id,
        "content": _ENCODE(shown).decode(),
    }
    if result.kind != "ok":
        block["is_error"] = True
    return block


def _control_result(turn: Turn) -> Sent:
    block: Sent = {
        "type": "tool_result",
        "tool_use_id": turn.proposal.control_id or "",
        "content": "done",
    }
    if turn.problem is not None:
        block["content"] = _ENCODE(_problem(turn.problem)).decode()
        block["is_error"] = True
    return block


def _problem(problem: Problem) -> dict[str, str]:
    shown = {"error": problem.code, "message": problem.message}
    return {**shown, "hint": problem.hint} if problem.hint else shown


def _text(text: str) -> Sent:
    return {"type": "text", "text": text}


# ------------------------------------------------------------------ requests
def tools_of(agent: AgentSpec) -> tuple[dict[str, JsonValue], ...]:
    """Tool definitions of an agent, control tools last, in a stable order."""
    own = tuple(
        {
            "name": tool.name,
            "description": tool.description,
            "input_schema": tool.parameters,
        }
        for tool in agent.tools
    )
    return own + control_tools(agent.output_schema)


def request_of(
    conversation: Conversation,
    agent: AgentSpec,
    tools: tuple[dict[str, JsonValue], ...],
    reservation: Reservation,
) -> ModelRequest:
    """What the model is sent for one step, or for the final turn."""
    state, system = conversation.state, agent.instructions
    messages = conversation.messages
    if reservation.is_final:
        tools = ()
        room = reservation.most.tokens - reservation.output_tokens - FINAL_OVERHEAD_BYTES
        is_short = len(system.encode()) <= (room - len(_FINAL_TEXT) - len(_DONE)) // 2
        system = system if is_short else ""
        messages = _final_messages(state, room - len(system.encode()))
    return ModelRequest(
        model=agent.model,
        system=system,
        tools=tools,
        messages=messages,
        max_output_tokens=reservation.output_tokens,
        goal=state.goal,
        inputs=state.inputs,
        turn=conversation.turns,
        is_final=reservation.is_final,
    )


def input_size(conversation: Conversation, agent: AgentSpec) -> int:
    """Upper bound of the input tokens of the next request, in bytes."""
    return agent.prompt_bytes + conversation.size


def _final_messages(state: LoopState, room: int) -> tuple[Sent, ...]:
    """A short rendering of at most ``room`` bytes: goal, what was done, newest evidence."""
    part = max(room - len(_FINAL_TEXT) - len(_DONE), 0) // 2
    head = f"{_cut(state.goal, part)}{_FINAL_TEXT}{_DONE}{_cut(what_was_done(state), part)}"
    room -= len(head.encode())
    lines: list[str] = []
    for item in reversed(state.evidence):
        line = f"\n{item.id} {item.source}: {canonical(item.payload).decode()}"
        if len(line.encode()) > room:
            break
        room -= len(line.encode())
        lines.append(line)
    return ({"role": "user", "content": [_text(head + "".join(reversed(lines)))]},)


def _cut(text: str, most: int) -> str:
    """The beginning of ``text`` in at most so many bytes, never half a character."""
    return text.encode()[:most].decode(errors="ignore")
