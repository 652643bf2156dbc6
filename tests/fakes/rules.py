"""The rules of the Messages API that a conversation must keep (research/sdk-facts.md section 2)."""

import re
from collections.abc import Sequence
from typing import Any

from runtime.model.port import ModelRequest

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_GONE = ("temperature", "top_p", "top_k")
_REQUEST = frozenset(
    {
        *("model", "max_tokens", "messages", "system", "tools", "tool_choice", "thinking"),
        *("output_config", "cache_control", "stop_sequences", "metadata", "stream"),
    }
)
_FIELDS = {
    "text": {"text", "citations"},
    "tool_use": {"id", "name", "input", "caller"},
    "tool_result": {"tool_use_id", "content", "is_error"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"data"},
}
"""What may stand in a block beside its type and where the cache ends."""
_MOST_CACHED = 4
_MOST_STRICT = 20

Message = dict[str, Any]


def body_of(request: ModelRequest) -> dict[str, Any]:
    """What of a request is judged; an empty system text is not sent, so it stands for some."""
    return {
        "system": request.system or "x",
        "tools": list(request.tools),
        "messages": list(request.messages),
        "max_tokens": request.max_output_tokens,
        "stream": True,
    }


def broken_rule(body: dict[str, Any], before: Sequence[dict[str, Any]]) -> str:
    """The first rule that a request breaks; empty: none.

    Args:
        body: of the request.
        before: the accepted and refused requests so far, for the prefix.
    """
    try:
        messages: list[Message] = body["messages"]
        checks = [
            _parameters(body),
            _roles(messages),
            *(_content(message) for message in messages),
            *(_paired(messages, place) for place in range(len(messages))),
            _once(messages),
            _tools(body, messages),
            _cached(body),
            _prefix(body, before),
        ]
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        return f"a request without what it needs: {type(error).__name__} {error}"
    return next((rule for rule in checks if rule), "")


def _parameters(body: dict[str, Any]) -> str:
    if gone := [name for name in _GONE if name in body]:
        return f"{gone[0]} is no parameter"
    if unknown := set(body) - _REQUEST:
        return f"{min(unknown)}: extra inputs are not permitted"
    if body["max_tokens"] < 1 or not body.get("stream"):
        return "max_tokens and stream"
    if body.get("tool_choice", {}).get("type") in {"any", "tool"}:
        return "tool_choice: this model cannot be forced"
    return "" if body.get("system", "x") else "system: blank text"


def _roles(messages: list[Message]) -> str:
    wanted = [("user", "assistant")[n % 2] for n in range(len(messages))]
    if [message["role"] for message in messages] != wanted:
        return "roles must alternate, the first is user"
    last = messages[-1]
    if last["role"] == "assistant" and last["content"][-1]["type"] in {"text", "thinking"}:
        return "prefill is not supported"
    return ""


def _content(message: Message) -> str:
    if not message["content"]:
        return "a message without content"
    return next((rule for block in message["content"] if (rule := _block(block))), "")


def _block(block: dict[str, Any]) -> str:
    known = _FIELDS.get(block["type"])
    if known is not None and (extra := set(block) - known - {"type", "cache_control"}):
        return f"{block['type']}.{min(extra)}: extra inputs are not permitted"
    match block["type"]:
        case "text" if not block["text"].strip():
            return "text content blocks must be non-empty"
        case "thinking" if not block["signature"].startswith(f"sig:{len(block['thinking'])}"):
            return "a thinking block was changed"
        case "tool_use" if not isinstance(block["input"], dict):
            return "tool_use.input: must be an object"
        case "tool_use" if not (_ID.fullmatch(block["id"]) and _NAME.fullmatch(block["name"])):
            return "tool_use: id and name must match their pattern"
        case "tool_result" if _is_blank(block.get("content", "")):
            return "text content blocks must be non-empty"
        case _:
            return ""


def _is_blank(content: Any) -> bool:
    """Of a result in blocks; one without any is taken."""
    return not isinstance(content, str) and any(
        part["type"] == "text" and not part["text"].strip() for part in content
    )


def _once(messages: list[Message]) -> str:
    ids = [id for message in messages for id in _ids(message, "tool_use", "id")]  # noqa: A001
    return "" if len(ids) == len(set(ids)) else "tool_use ids must be unique"


def _cached(body: dict[str, Any]) -> str:
    """How many ends of the cache a request names."""
    blocks = [block for message in body["messages"] for block in message["content"]]
    parts: list[dict[str, Any]] = [*blocks, *body.get("tools", []), body]
    count = sum("cache_control" in part for part in parts)
    return "" if count <= _MOST_CACHED else "a maximum of 4 blocks with cache_control"


def _paired(messages: list[Message], place: int) -> str:
    """Each call's result is in the very next message, before anything else there."""
    if messages[place]["role"] == "user":
        asked = _ids(messages[place - 1], "tool_use", "id") if place else []
        content = messages[place]["content"]
        answered = _ids(messages[place], "tool_result", "tool_use_id")
        if answered != asked:
            return f"tool_result {answered} for tool_use {asked}"
        if any(block["type"] != "tool_result" for block in content[: len(asked)]):
            return "tool_result blocks come first"
    elif place == len(messages) - 1 and _ids(messages[place], "tool_use", "id"):
        return "tool_use without tool_result"
    return ""


def _ids(message: Message, kind: str, key: str) -> list[str]:
    return [block[key] for block in message["content"] if block["type"] == kind]


def _tools(body: dict[str, Any], messages: list[Message]) -> str:
    tools = body.get("tools", [])
    if not tools and any(_ids(message, "tool_use", "id") for message in messages):
        return "tool_use blocks need tools"
    names = [tool["name"] for tool in tools]
    if len(names) != len(set(names)):
        return "tools: names must be unique"
    if sum(tool.get("strict", False) for tool in tools) > _MOST_STRICT:
        return "tools: too many strict ones"
    for tool in tools:
        if not _NAME.fullmatch(tool["name"]) or tool["input_schema"]["type"] != "object":
            return f"tool {tool['name']}"
    return ""


def _prefix(body: dict[str, Any], before: Sequence[dict[str, Any]]) -> str:
    """What was sent of a conversation stays as it was; a later one of the same start is longer."""
    messages: list[Message] = body["messages"]
    for earlier in reversed(before):
        sent: list[Message] = earlier["messages"]
        if sent[0] != messages[0] or len(sent) > len(messages):
            continue
        same_frame = [body.get(name) == earlier.get(name) for name in ("system", "tools")]
        last = len(sent) - 1
        joined = messages[last]["content"][: len(sent[last]["content"])]
        if not all(same_frame) or sent[:last] != messages[:last] or joined != sent[last]["content"]:
            return "the prefix of the conversation changed"
        return ""
    return ""
