"""A turn of the model as it may be sent back: what the provider would turn down is made legal.

Signed blocks stay untouched. A call keeps the model's id and name where the provider takes them.
"""

import re
from collections.abc import Iterator

import msgspec

from messages.canon import canonical
from messages.parts import UNREADABLE, Block, JsonValue

Sent = dict[str, JsonValue]
"""One message of the provider's conversation, or one block of it."""

THOUGHTS = frozenset({"thinking", "redacted_thinking"})
"""Blocks whose signature binds them to what came before them."""
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
"""A tool name as the provider takes it."""
_ID = re.compile(r"[a-zA-Z0-9_-]+")
"""An id of a call as the provider takes it back."""
UNNAMEABLE = "tool_with_an_illegal_name"
"""Stands in for a name that the provider would not take back; the result says the real one."""


def ids_of(content: tuple[Block, ...], step: int, taken: frozenset[str]) -> tuple[str, ...]:
    """What pairs each call of a turn with its result: the model's id, where it is legal and new."""
    ids: list[str] = []
    for block in content:
        if block.get("type") == "tool_use":
            given = str(block.get("id", ""))
            is_usable = _ID.fullmatch(given) and given not in taken and given not in ids
            ids.append(given if is_usable else _new_id(f"call_{step}_{len(ids)}", taken.union(ids)))
    return tuple(ids)


def _new_id(wanted: str, taken: frozenset[str]) -> str:
    """A model may have thought of ours before; it is not asked to stop."""
    while wanted in taken:
        wanted += "_"
    return wanted


def sendable(content: tuple[Block, ...], ids: tuple[str, ...]) -> list[Sent]:
    """A turn as it may be sent back, its signed blocks untouched; nothing if it only thought."""
    left = iter(ids)
    blocks = [_in_order(_legal(block, left)) for block in content if _may_be_sent(block)]
    return blocks if any(b.get("type") not in THOUGHTS for b in blocks) else []


def _in_order(block: Block) -> Sent:
    """Its keys as the journal gives them back, so that any process sends the very same bytes."""
    return msgspec.json.decode(canonical(block))


def _may_be_sent(block: Block) -> bool:
    """The provider turns down blank text, and a thought that was cut before its signature."""
    match block.get("type"):
        case "text":
            return bool(str(block.get("text") or "").strip())
        case "thinking":
            return bool(block.get("signature"))
        case _:
            return True


def _legal(block: Block, ids: Iterator[str]) -> Sent:
    """A call as the provider takes it back: named by its pattern, its arguments an object."""
    if block.get("type") != "tool_use":
        return block
    block = {key: value for key, value in block.items() if key != UNREADABLE} | {"id": next(ids)}
    name, given = block.get("name"), block.get("input")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        block = {**block, "name": UNNAMEABLE}
    return block if isinstance(given, dict) else {**block, "input": {"raw": given}}
