"""The free-form strategy: the model picks among the allowed tools, and how its turns are read.

A turn is content blocks as the provider sent them. What it proposes is read off the structure
alone: tool_use blocks, the reserved control tools, and text only where there is no call. Nothing
in the words is ever looked at.
"""

from typing import cast

from messages.parts import UNREADABLE, Arguments, Block, JsonValue, Problem
from messages.state import CallState, Proposal
from runtime.loop import waiting

FINISH = "finish"
ASK_USER = "ask_user"
WAIT = "wait"
GIVE_UP = "give_up"
CONTROL_TOOLS = (FINISH, ASK_USER, WAIT, GIVE_UP)

NOTES = "keep_notes"
TODO_LIST = "keep_todo"
READ_RESULT = "read_result"
MEMORY = frozenset({NOTES, TODO_LIST})
"""Tools of ours with which the model keeps its own words; those are no evidence of anything."""
OURS = MEMORY | {READ_RESULT}

_NO_OBJECT = "they are not an object"


def control_tools(output_schema: dict[str, JsonValue] | None) -> tuple[dict[str, JsonValue], ...]:
    """The tool definitions that let the model say what it wants besides calling a tool.

    Args:
        output_schema: JSON schema of the agent's output; None where the agent declares none.
    """
    output = output_schema or {"type": "string", "description": "What was done and found."}
    return (
        _tool(
            FINISH,
            "Propose that the task is complete; recorded evidence decides.",
            {"output": output},
            ["output"],
        ),
        _tool(
            ASK_USER,
            "Ask the task's owner for a fact only they have. Ends the run.",
            {"question": {"type": "string"}, "schema": {"type": "object"}},
            ["question"],
        ),
        _tool(
            WAIT,
            "Wait before looking again at something pending.",
            {"seconds": {"type": "number", "minimum": 1}, "why": {"type": "string"}},
            ["seconds", "why"],
        ),
        _tool(
            GIVE_UP,
            "Say why nothing useful can be done.",
            {"why": {"type": "string"}},
            ["why"],
        ),
    )


def _tool(
    name: str, description: str, properties: dict[str, JsonValue], required: list[str]
) -> dict[str, JsonValue]:
    schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return {"name": name, "description": description, "input_schema": schema}


def read_turn(
    content: tuple[Block, ...], stop_reason: str, *, is_final: bool
) -> tuple[Proposal, tuple[CallState, ...]]:
    """What a turn proposes, and its tool calls in order.

    Nothing is executed from a turn that was cut off, refused, or ended for a reason unknown here;
    its calls are returned all the same, since each needs its one result.

    A paused turn (the provider's own tools reached their limit) proposes nothing yet: the next step
    asks again with its blocks as the end of the conversation, and the answer goes on from there.
    Each such step counts, so the budget bounds how often.
    """
    text = "\n".join(b["text"] for b in content if _is_text(b)).strip()
    if is_final:
        return Proposal(kind="final", text=text), ()
    calls = _calls(content)
    match stop_reason:
        case "max_tokens" | "model_context_window_exceeded":
            return Proposal(kind="cut", text=text), calls
        case "refusal":
            return Proposal(kind="refused", text=text), calls
        case "pause_turn" if not calls:
            return Proposal(kind="calls", text=text), ()
        case "end_turn" | "tool_use" | "stop_sequence":
            return _whole(calls, text)
        case _:
            return Proposal(kind="unknown", text=stop_reason), calls


def _whole(calls: tuple[CallState, ...], text: str) -> tuple[Proposal, tuple[CallState, ...]]:
    """What a turn proposes that the model ended itself."""
    controls = [call for call in calls if call.tool in CONTROL_TOOLS]
    if controls and len(calls) == 1:
        if why := controls[0].unreadable:
            return Proposal(kind="unreadable", text=why), calls
        return _control(controls[0]), ()
    if calls:
        return Proposal(kind="calls", text=text), calls
    if not text:
        return Proposal(kind="empty"), ()
    return Proposal(kind="finish", output=text, text=text), ()


def unreadable(tool: str, why: str) -> Problem:
    """What the model is told of arguments that nobody could read."""
    return Problem(
        code="UNREADABLE_ARGUMENTS",
        message=f"the arguments of {tool} could not be read: {why}",
        hint="send one JSON object with each name once",
    )


def _is_text(block: Block) -> bool:
    return block.get("type") == "text" and isinstance(block.get("text"), str)


def _calls(content: tuple[Block, ...]) -> tuple[CallState, ...]:
    uses = [block for block in content if block.get("type") == "tool_use"]
    return tuple(
        CallState(
            ordinal=ordinal,
            tool_use_id=str(use.get("id", "")),
            tool=str(use.get("name", "")),
            arguments=cast("Arguments", given) if isinstance(given, dict) else {"": given},
            unreadable="" if isinstance(given, dict) else str(use.get(UNREADABLE, _NO_OBJECT)),
        )
        for ordinal, use in enumerate(uses)
        for given in (use.get("input"),)
    )


def _control(call: CallState) -> Proposal:
    given = call.arguments
    match call.tool:
        case "finish":
            return Proposal(kind="finish", output=given.get("output"), control_id=call.tool_use_id)
        case "ask_user":
            schema = given.get("schema")
            return Proposal(
                kind="ask_user",
                text=str(given.get("question", "")),
                schema=cast("Arguments", schema) if isinstance(schema, dict) else None,
                control_id=call.tool_use_id,
            )
        case "wait":
            return waiting.proposed(given, call.tool_use_id)
        case _:
            return Proposal(
                kind="give_up", text=str(given.get("why", "")), control_id=call.tool_use_id
            )
