r"""Idempotency keys: what makes two calls the same effect.

A write has a business key, filled in from its canonical arguments::

    refund:order-{order_id}:{payment_id}:v1        parts must be clean
    mail:{customer_id}:{subject|sha256}            free text enters as its hash

or ``each_call``, where every accepted call is its own effect. Never the model's tool_use id, which
differs each time the model is asked.

A part that is not clean is refused rather than escaped: ``"ORD-1\n"`` or a zero-width character
would make a second key for the same order, and ``"x:y"`` a key that reads as another one.
"""

import re
from functools import cache

from messages.agent import ToolSpec
from messages.base import Part
from messages.canon import canonical, digest, sha256_hex
from messages.parts import Arguments, JsonValue, Problem

_PART = re.compile(r"[A-Za-z0-9._@+-]{1,128}")
_LITERAL = re.compile(r"[!-z|~]*")
"""Visible ASCII: a key travels in HTTP headers and is read by people."""
_HOLE = re.compile(r"\{([^{}]*)\}")
_FILTERS = frozenset({"", "sha256"})
_HASH_SHOWN = 32
MAX_TEMPLATE = 512


class Hole(Part, frozen=True, kw_only=True):
    """A place in a template that a parameter fills."""

    parameter: str
    is_hashed: bool = False


class KeyTemplate(Part, frozen=True, kw_only=True):
    """A parsed template: literal text and holes in turn, starting and ending with text."""

    literals: tuple[str, ...]
    holes: tuple[Hole, ...]


class BadTemplate(ValueError):
    """A key template that cannot work; the message says what to write instead."""


@cache
def parse_template(template: str) -> KeyTemplate:
    """Parse a key template.

    Raises:
        BadTemplate: It has no parameter, an unknown filter, stray braces, two parameters side by
            side, or characters that a key may not have.
    """
    pieces = _HOLE.split(template)
    literals, names = pieces[0::2], pieces[1::2]
    if len(template) > MAX_TEMPLATE:
        message = f"it is longer than {MAX_TEMPLATE} characters"
        raise BadTemplate(message)
    if any("{" in text or "}" in text for text in literals):
        message = "it has a brace without its partner; a parameter is written {order_id}"
        raise BadTemplate(message)
    if not all(_LITERAL.fullmatch(text) for text in literals):
        message = "its text must be visible ASCII without spaces, such as 'refund:{payment_id}:v1'"
        raise BadTemplate(message)
    if not names:
        message = (
            "it names no parameter, so all calls would be one effect; name what makes two calls "
            "the same, such as 'refund:{payment_id}:v1', or write key=each_call"
        )
        raise BadTemplate(message)
    if any(not text for text in literals[1:-1]):
        message = "two parameters stand side by side; put ':' between them"
        raise BadTemplate(message)
    return KeyTemplate(literals=tuple(literals), holes=tuple(_hole(name) for name in names))


def _hole(text: str) -> Hole:
    parameter, _, filter_name = text.partition("|")
    if not parameter.isidentifier():
        message = f"{{{text}}} is no parameter; write {{order_id}} or {{subject|sha256}}"
        raise BadTemplate(message)
    if filter_name not in _FILTERS or text.endswith("|"):
        message = f"there is no filter {filter_name!r}; the only one is {{{parameter}|sha256}}"
        raise BadTemplate(message)
    return Hole(parameter=parameter, is_hashed=filter_name == "sha256")


def fill(template: str, arguments: Arguments) -> str | Problem:
    """The key of a call.

    Args:
        template: A template that ``parse_template`` accepts.
        arguments: Canonical arguments, every parameter present.

    Returns:
        The key, or the problem with the first part that is not clean.
    """
    parsed = parse_template(template)
    text = parsed.literals[0]
    for hole, literal in zip(parsed.holes, parsed.literals[1:], strict=True):
        part = _part(hole, arguments.get(hole.parameter))
        if isinstance(part, Problem):
            return part
        text += part + literal
    return text


def _part(hole: Hole, value: JsonValue) -> str | Problem:
    if hole.is_hashed:
        return sha256_hex(value.encode() if isinstance(value, str) else canonical(value))
    text = _text(value)
    if text is not None and _PART.fullmatch(text):
        return text
    return Problem(
        code="BAD_KEY_PART",
        message=(
            f"$.{hole.parameter}: {value!r:.100} may not enter an idempotency key, which takes "
            "1 to 128 of the characters A-Z a-z 0-9 . _ @ + -"
        ),
        hint=f"send {hole.parameter} exactly as it was read, without spaces or other marks",
    )


def _text(value: JsonValue) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return value if isinstance(value, str) else None


def each_call_key(origin: str, step: int, ordinal: int, tool: str, arguments: Arguments) -> str:
    """The key of a call that is its own effect, equal whenever this very call is replayed.

    Args:
        origin: Run of origin: a fork's is its source, a continuation's is itself.
        step: The step that proposed the call.
        ordinal: The call's place within the step.
        tool: Its name.
        arguments: Its canonical arguments.
    """
    return f"call:{origin}:{step}.{ordinal}:{tool}:{digest(arguments)[:_HASH_SHOWN]}"


def is_key_of(tool: ToolSpec, key: str | None, arguments: Arguments, *, ordinal: int) -> bool:
    """Whether ``key`` can be the key of this call: what an authoriser checks before it signs.

    A key that somebody made up would be a second effect of the same thing. Of an ``each_call`` key
    the run of origin and the step are not checked, since each such call is its own effect anyway.
    """
    if tool.kind == "read":
        return key is None
    if tool.key is not None:
        return key is not None and key == fill(tool.key, arguments)
    ending = each_call_key("", 0, ordinal, tool.name, arguments).removeprefix("call::0")
    return key is not None and key.startswith("call:") and key.endswith(ending)


def key_of(
    tool: ToolSpec, arguments: Arguments, *, origin: str, step: int, ordinal: int
) -> str | Problem | None:
    """The key of a call of ``tool``: None for a read, a problem for a part that is not clean."""
    if tool.kind == "read":
        return None
    if tool.key is None:
        return each_call_key(origin, step, ordinal, tool.name, arguments)
    return fill(tool.key, arguments)
