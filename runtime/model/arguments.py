"""A tool call's arguments, from the text that the model wrote: one JSON object, or why not. Pure.

Read strictly, since the looser a reader is the more can hide: two objects one after the other, a
name that stands there twice, of which readers take one or the other, NaN, half a surrogate pair.
"""

import json
import re
from typing import Final, cast

import msgspec

from messages.parts import Arguments, JsonValue
from runtime.tools.clean import clean_text

KEPT_CHARS: Final = 1_000
"""So much of a text that is no object is kept, for the record and for the model."""
_AROUND_CHARS: Final = 40
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_POSITION: Final = re.compile(r"\(char (\d+)\)")


class Unreadable(msgspec.Struct, frozen=True):
    """Arguments that nothing can be called with.

    Attributes:
        text: As written, cut.
        why: In words that help the model, with the place.
    """

    text: str
    why: str


def read_arguments(written: str) -> Arguments | Unreadable:
    """The object that a text is."""
    try:
        json.loads(written, object_pairs_hook=_once, parse_constant=_no_number)
        value: JsonValue = _decoded(written)
    except (ValueError, RecursionError) as error:
        return Unreadable(written[:KEPT_CHARS], _why(written, error))
    if not isinstance(value, dict):
        kind = "null" if value is None else type(value).__name__
        return Unreadable(written[:KEPT_CHARS], f"they are {kind} and not an object")
    return cast("Arguments", value)


def _decoded(written: str) -> JsonValue:
    """What the lenient reader took, read strictly."""
    try:
        return msgspec.json.decode(written)
    except msgspec.DecodeError as error:
        if _SURROGATE.search(written) is None:
            raise
        raise ValueError("an escape in it is half a surrogate pair and no character") from error


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _once(pairs: list[tuple[str, JsonValue]]) -> None:
    """Refuse an object in which a name stands twice."""
    seen = set[str]()
    for name, _ in pairs:
        if name in seen:
            raise ValueError(f"{json.dumps(clean_text(name, _AROUND_CHARS))} stands there twice")
        seen.add(name)


def _why(written: str, error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "they are nested too deeply"
    what = str(error)
    if (found := _POSITION.search(what)) is None:
        return what
    start = max(int(found[1]) - _AROUND_CHARS, 0)
    near = clean_text(written[start : start + 2 * _AROUND_CHARS], 2 * _AROUND_CHARS)
    return f"{what}, near {json.dumps(near, ensure_ascii=False)}"
