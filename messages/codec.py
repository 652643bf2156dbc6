"""Bytes to message and back, once, at the border.

One closed union of everything that travels; msgspec picks the class by its tag. What does not
decode is an error with a code, never a crash. A tag whose name is known with another version is a
newer peer's: it is refused clearly.
"""

from functools import cache
from typing import Any, TypeVar

import msgspec

from messages import authority, base, checks, decision, execution, ledger
from messages.base import Message
from messages.errors import UnknownMessage, WireError
from messages.events import AnyEvent

T = TypeVar("T")

_ENCODER = msgspec.json.Encoder()
_MODULES = (base, ledger, decision, checks, authority, execution)
_ABSTRACT = {
    *("message/1", "event/1", "request/1"),
    *("ledger-request/1", "executor-request/1", "planner-request/1"),
}


@cache
def wire_types() -> tuple[type[Message], ...]:
    """Every concrete message class that may stand alone on the bus, in a stable order."""
    found = {
        value
        for module in _MODULES
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Message)
        and value.__struct_config__.tag not in _ABSTRACT
    }
    events = set(AnyEvent.__args__)
    return tuple(sorted(found - events, key=lambda cls: str(cls.__struct_config__.tag)))


def _union(types: tuple[Any, ...]) -> Any:
    result = types[0]
    for one in types[1:]:
        result |= one
    return result


@cache
def _decoder() -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_union(wire_types()))


class _Tag(msgspec.Struct):
    t: str = ""


def encode(message: msgspec.Struct) -> bytes:
    """The bytes of a message.

    Raises:
        WireError: it holds something JSON cannot say (it did not pass the cleaning point).
    """
    try:
        return _ENCODER.encode(message)
    except (TypeError, ValueError, OverflowError) as error:
        kind = type(message).__name__
        raise WireError(f"{kind} holds a value that JSON cannot carry: {error}") from error


def decode(data: bytes) -> Message:
    """The message of some bytes.

    Raises:
        UnknownMessage: the tag, or its version, is not known here.
        WireError: not JSON, or not of the shape its tag promises.
    """
    try:
        return _decoder().decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _explain(data, error) from error


def _explain(data: bytes, error: Exception) -> WireError:
    try:
        tag = msgspec.json.decode(data, type=_Tag).t
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return WireError(f"{len(data)} bytes that are no JSON object of ours")
    known = {str(cls.__struct_config__.tag) for cls in wire_types()}
    if tag in known:
        return WireError(f"a {tag} message is malformed: {error}")
    name = tag.partition("/")[0]
    ours = sorted(k for k in known if k.partition("/")[0] == name)
    if ours:
        return UnknownMessage(
            f"{tag[:80]}: this process speaks {', '.join(ours)}",
            hint="a peer runs a newer version; upgrade this one",
        )
    return UnknownMessage(f"no message is called {tag[:80]!r}")


def decode_as(data: bytes, cls: type[T]) -> T:
    """Decode untagged public JSON (a task, an API request) into ``cls``.

    Raises:
        WireError: it is not that, with the place of the mistake.
    """
    try:
        return msgspec.json.decode(data, type=cls)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise WireError(f"not a valid {cls.__name__}: {error}") from error
