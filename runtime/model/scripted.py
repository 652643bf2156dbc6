"""A model that plays a script, so that runs are deterministic and need no key.

A script is a list of turns, or a function that is shown the conversation and returns the next one.
Which turn is due is read off the conversation itself, never counted in memory: after a crash the
same turn is played again, in any process.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from messages.errors import ModelError
from messages.parts import Block, JsonValue, Usage
from runtime.model.port import ModelAnswer, ModelRequest

NAME: Final = "scripted"
DEFAULT_USAGE: Final = (100, 20)
"""Input and output tokens of a turn that says nothing about it."""


class Named(Protocol):
    """A tool, which has a name."""

    @property
    def name(self) -> str:
        """Of the tool."""
        ...


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What the model says in one turn.

    Attributes:
        blocks: Content blocks; tool_use blocks without an id get one.
        stop_reason: As a provider gives it; empty: tool_use if there is a call, else end_turn.
        usage: Input and output tokens; None: the provider reports none.
    """

    blocks: tuple[Block, ...]
    stop_reason: str = ""
    usage: tuple[int, int] | Usage | None = DEFAULT_USAGE


def call(
    tool: str | Named,
    /,
    *,
    id: str | None = None,  # noqa: A002 - the provider's word
    usage: tuple[int, int] | None = DEFAULT_USAGE,
    **arguments: JsonValue,
) -> Turn:
    """A turn that calls one tool.

    Args:
        tool: the tool or its name.
        id: the tool_use id; one is made up from the place in the conversation otherwise.
        usage: input and output tokens.
        **arguments: of the call.
    """
    name = tool if isinstance(tool, str) else tool.name
    block: Block = {"type": "tool_use", "name": name, "input": dict(arguments)}
    if id is not None:
        block["id"] = id
    return Turn(blocks=(block,), usage=usage)


def finish(output: object = None, *, usage: tuple[int, int] | None = DEFAULT_USAGE) -> Turn:
    """A turn that proposes to finish with ``output`` (a struct, or what JSON can say)."""
    return call("finish", usage=usage, output=msgspec.to_builtins(output))


def say(text: str, *, usage: tuple[int, int] | None = DEFAULT_USAGE) -> Turn:
    """A turn of plain text, which is a finish proposal."""
    return Turn(blocks=({"type": "text", "text": text},), usage=usage)


def turn(*turns: Turn, usage: tuple[int, int] | Usage | None = DEFAULT_USAGE) -> Turn:
    """Several calls in one turn, in order."""
    return Turn(blocks=tuple(block for one in turns for block in one.blocks), usage=usage)


@dataclass(frozen=True)
class View:
    """What a script function is shown.

    Attributes:
        goal: Of the task.
        inputs: Of the task.
        turn: Decisions before this one, so 0 is the first.
        is_final: This is the tool-free last turn after a budget is gone.
    """

    goal: str
    inputs: dict[str, JsonValue]
    turn: int
    is_final: bool
    _messages: tuple[dict[str, JsonValue], ...]

    def result(self, tool: str | Named) -> JsonValue | None:
        """The payload of the newest successful result of that tool, or None."""
        name = tool if isinstance(tool, str) else tool.name
        results: dict[str, JsonValue] = {}
        for message in reversed(self._messages):
            for block in message["content"]:
                if block.get("type") == "tool_result" and not block.get("is_error"):
                    results.setdefault(block["tool_use_id"], block["content"])
                if block.get("type") == "tool_use" and block.get("name") == name:
                    found = results.get(block.get("id"))
                    if found is not None:
                        return _payload(found)
        return None


class _Shown(msgspec.Struct):
    """What a rendered result holds, as far as a script wants it."""

    data: JsonValue = None


def _payload(content: JsonValue) -> JsonValue:
    """The data inside a rendered result."""
    try:
        return msgspec.json.decode(content, type=_Shown).data
    except msgspec.DecodeError:
        return content


class Script(list[Turn]):
    """Turns in order: ``Script([call(lookup, key="k1"), finish("done")])``."""


ScriptFunction = Callable[[View], Turn]
Playable = Sequence[Turn] | ScriptFunction
"""What a scripted model can play."""


class ScriptedModel:
    """Plays one script per agent."""

    def __init__(self, script: Playable) -> None:
        """Args: script: turns in order, or a function of what has been said."""
        self._script = script

    async def attempt(self, request: ModelRequest) -> ModelAnswer:
        """The turn that is due.

        Raises:
            ModelError: the script has no more turns, or its function failed.
        """
        due = self._due(request)
        blocks = tuple(
            _with_id(block, f"toolu_{request.turn + 1:02d}_{place}")
            for place, block in enumerate(due.blocks)
        )
        has_call = any(block.get("type") == "tool_use" for block in blocks)
        return ModelAnswer(
            content=blocks,
            stop_reason=due.stop_reason or ("tool_use" if has_call else "end_turn"),
            usage=_usage(due.usage),
            model=NAME,
            request_id=f"scripted-{request.turn + 1}",
        )

    def _due(self, request: ModelRequest) -> Turn:
        if request.is_summary:  # no decision, so it is no turn of the script
            return say(f"The first {request.turn} turns went as the script says.")
        if callable(self._script):
            view = View(
                request.goal, request.inputs, request.turn, request.is_final, request.messages
            )
            try:
                return self._script(view)
            except Exception as error:
                raise ModelError(
                    "model_unavailable", f"the script failed: {type(error).__name__}: {error}"
                ) from error
        if request.is_final and request.turn >= len(self._script):
            return say("The budget is gone; this is what is known so far.")
        if request.turn >= len(self._script):
            raise ModelError("model_unavailable", f"the script has only {len(self._script)} turns")
        return self._script[request.turn]


def _with_id(block: Block, default: str) -> Block:
    if block.get("type") != "tool_use" or "id" in block:
        return block
    return {**block, "id": default}


def _usage(given: tuple[int, int] | Usage | None) -> Usage | None:
    if given is None or isinstance(given, Usage):
        return given
    return Usage(input_tokens=given[0], output_tokens=given[1])
