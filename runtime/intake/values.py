"""Texts and foreign JSON of a task: what every later part can carry, and nothing else."""

import math
from collections.abc import Iterable, Mapping
from typing import cast

from messages.canon import canonical
from messages.errors import BadTask
from messages.parts import JsonValue

MAX_GOAL_BYTES = 64 * 1024
MAX_INPUTS_BYTES = 256 * 1024
"""Version 0 holds goal and inputs and must fit one message."""
MAX_LABELS = 32
MAX_LABEL_CHARS = 64
MAX_LABEL_VALUE_CHARS = 256
MAX_DEPTH = 32

_BIGGEST_INT = 2**63 - 1


def check_goal(goal: str) -> None:
    """A goal is said, fits, and is plain text.

    Raises:
        BadTask: It is not.
    """
    if not goal.strip():
        raise BadTask("the goal is empty")
    size = len(goal.encode())
    if size > MAX_GOAL_BYTES:
        raise BadTask(f"the goal is {size} bytes, the limit is {MAX_GOAL_BYTES}")
    if "\x00" in goal:
        raise BadTask("the goal holds a NUL character")


def check_labels(labels: Mapping[str, str]) -> None:
    """Labels are few and short: every listing carries them.

    Raises:
        BadTask: They are not.
    """
    if len(labels) > MAX_LABELS:
        raise BadTask(f"{len(labels)} labels, the limit is {MAX_LABELS}")
    for key, value in labels.items():
        if not 0 < len(key) <= MAX_LABEL_CHARS or len(value) > MAX_LABEL_VALUE_CHARS:
            raise BadTask(
                f"label {key[:MAX_LABEL_CHARS]!r} is empty or too long",
                hint=f"{MAX_LABEL_CHARS} characters for a key, {MAX_LABEL_VALUE_CHARS} for a value",
            )
        if "\x00" in key + value:
            raise BadTask("a label holds a NUL character")


def check_value(what: str, value: JsonValue, most_bytes: int) -> None:
    """Foreign JSON that every later part can carry: not too large, too deep, or without limits.

    Args:
        what: For the message: inputs, answer.
        value: Decoded JSON.
        most_bytes: How large its canonical form may be.

    Raises:
        BadTask: It cannot be carried.
    """
    level: list[JsonValue] = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for item in level for inner in _inside(what, item)]
        if not level:
            break
    else:
        raise BadTask(f"{what}: nested deeper than {MAX_DEPTH} levels")
    size = len(canonical(value))
    if size > most_bytes:
        raise BadTask(f"{what}: {size} bytes, the limit is {most_bytes}")


def _inside(what: str, item: JsonValue) -> Iterable[JsonValue]:
    match item:
        case dict():
            members = cast("dict[str, JsonValue]", item)
            return [*members, *members.values()]
        case list():
            return cast("list[JsonValue]", item)
        case _:
            _check_scalar(what, item)
            return ()


def _check_scalar(what: str, item: object) -> None:
    match item:
        case str() if "\x00" in item:
            raise BadTask(f"{what}: a text holds a NUL character")
        case int() if abs(item) > _BIGGEST_INT:
            raise BadTask(f"{what}: a whole number needs more than 64 bits", hint="send it as text")
        case float() if not math.isfinite(item):
            raise BadTask(f"{what}: a number is not finite")
        case _:
            return
