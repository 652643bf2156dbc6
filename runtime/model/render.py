"""conversation -> request: a step, the last turn without tools, or a summary of older turns."""

from messages.agent import AgentSpec
from messages.canon import canonical
from messages.parts import JsonValue, Reservation
from messages.state import LoopState
from runtime.loop.strategies.loop import control_tools
from runtime.loop.summary import what_was_done
from runtime.model.conversation import Conversation
from runtime.model.cut import cut
from runtime.model.port import ModelRequest
from runtime.model.results import text_block
from runtime.model.sendable import Sent
from runtime.model.shorten import old_turns, summary_bytes

FINAL_OVERHEAD_BYTES = 256
"""Roles and separators around the one message of the final turn."""
_FINAL_TEXT = (
    "\n\nYou have reached a limit of this task. No tool can be called any more. Answer with what is"
    " already known and say explicitly what is missing."
)
_DONE = "\n\nDone: "
_SUM_UP = (
    "Everything above will no longer be shown to you. Write a summary to go on from, in at most"
    " {} characters of plain text: what was asked, what is known with the ids of its evidence, what"
    " was done and decided, what is open, what comes next. Call no tool."
)
CHARACTERS_A_TOKEN = 3
"""A summary that is asked for in so many characters is not cut off by its tokens."""
SUM_UP_BYTES = len(_SUM_UP) + 128
"""What asking for a summary adds to the conversation, its framing included."""


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


def summary_request(
    conversation: Conversation,
    agent: AgentSpec,
    tools: tuple[dict[str, JsonValue], ...],
    kept_turns: int,
    output_tokens: int,
) -> ModelRequest:
    """What the model is sent to sum up all turns but the newest.

    It is the beginning of the conversation as it was sent before. The tools belong to it, and none
    may be called.
    """
    *before, last = old_turns(conversation, agent, kept_turns)
    longest = min(summary_bytes(agent), CHARACTERS_A_TOKEN * output_tokens)
    asked = text_block(_SUM_UP.format(longest))
    return ModelRequest(
        model=agent.use("summary").model,
        system=agent.instructions,
        tools=tools,
        messages=(*before, {**last, "content": [*last["content"], asked]}),
        max_output_tokens=output_tokens,
        goal=conversation.state.goal,
        inputs=conversation.state.inputs,
        turn=conversation.turns,
        is_summary=True,
    )


def _final_messages(state: LoopState, room: int) -> tuple[Sent, ...]:
    """A short rendering of at most ``room`` bytes: goal, what was done, newest evidence."""
    part = max(room - len(_FINAL_TEXT) - len(_DONE), 0) // 2
    head = f"{cut(state.goal, part)}{_FINAL_TEXT}{_DONE}{cut(what_was_done(state), part)}"
    room -= len(head.encode())
    lines: list[str] = []
    for item in reversed(state.evidence):
        line = f"\n{item.id} {item.source}: {canonical(item.payload).decode()}"
        if len(line.encode()) > room:
            break
        room -= len(line.encode())
        lines.append(line)
    return ({"role": "user", "content": [text_block(head + "".join(reversed(lines)))]},)
