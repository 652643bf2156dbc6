"""journal -> conversation: append-only, so that every turn once sent stays as it was.

Folded entry by entry beside the state. A turn's results become one user message when the turn is
over (its next step is reserved): one tool_result per tool_use, in order, as quoted data with its
provenance. Nothing in that data is ever an instruction; it is marked as data and never read back.
"""

from msgspec.structs import replace

from messages import events as e
from messages.agent import AgentSpec
from messages.base import Part
from messages.canon import canonical
from messages.ledger import Entry
from messages.parts import JsonValue, Reservation
from messages.state import LoopState
from runtime.loop.evolve import begin, evolve, seal
from runtime.loop.strategies.loop import control_tools
from runtime.loop.summary import what_was_done
from runtime.model.port import ModelRequest
from runtime.model.results import answer, opening, results, text_block
from runtime.model.sendable import Sent, ids_of, sendable

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
    ids: frozenset[str] = frozenset()
    """Of every call so far, as they were sent back."""
    open_ids: tuple[str, ...] = ()
    """Of the calls of the open turn, in order."""


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
    return _said(Conversation(state=state, messages=(), size=0), "user", [opening(state)])


def _told(conversation: Conversation, event: e.AnyEvent) -> Conversation:
    """One event: the state moves on, and where it ends a turn or speaks, so does the talk."""
    before, state = conversation.state, evolve(conversation.state, event)
    conversation = replace(conversation, state=state)
    match event:
        case e.StepReserved() if before.turn is not None:
            told = results(before, before.turn, conversation.open_ids, state)
            said = _said(conversation, "user", [*told, *conversation.answers])
            return replace(said, answers=())
        case e.Decided():
            ids = ids_of(event.content, event.step, conversation.ids)
            said = _said(conversation, "assistant", sendable(event.content, ids))
            known = said.ids.union(ids)
            return replace(said, turns=said.turns + 1, ids=known, open_ids=ids)
        case e.HumanAnswered():
            said_so = answer(event.person, event.answer)
            return replace(conversation, answers=(*conversation.answers, said_so))
        case _:
            return conversation


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
        model=agent.use("final" if reservation.is_final else None).model,
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
    return ({"role": "user", "content": [text_block(head + "".join(reversed(lines)))]},)


def _cut(text: str, most: int) -> str:
    """The beginning of ``text`` in at most so many bytes, never half a character."""
    return text.encode()[:most].decode(errors="ignore")
