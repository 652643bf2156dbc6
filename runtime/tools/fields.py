"""One level of a foreign value: what msgspec would write of it, its fields untouched.

msgspec itself goes all the way down, so what has to change on the way could be noted nowhere: bytes
inside a dataclass, two keys that become one, a set whose items have no order among themselves.
"""

import dataclasses
from collections.abc import Iterator
from types import MemberDescriptorType

import msgspec
from msgspec import UNSET, Struct

_BYTES = (bytes, bytearray, memoryview)


def opened(value: object) -> object:
    """The fields of a struct or dataclass as a dict; anything else as msgspec's builtins.

    Raises:
        TypeError, ValueError, OverflowError, RecursionError, AttributeError: msgspec knows no JSON
            for it.
    """
    if isinstance(value, Struct) and _is_simple(value):
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = _held(value)
    else:
        return _builtins(value)
    pairs = ((shown, getattr(value, name, UNSET)) for shown, name in names)
    return {shown: item for shown, item in pairs if item is not UNSET}


def _is_simple(value: Struct) -> bool:
    """Every field is written under its name, and nothing else is."""
    config = value.__struct_config__
    return not (config.array_like or config.omit_defaults) and config.tag is None


def _held(value: object) -> Iterator[tuple[str, str]]:
    """Fields that the instance itself has; a default that only its class has is not written."""
    own = getattr(value, "__dict__", None)
    for each in dataclasses.fields(value):  # pyright: ignore[reportArgumentType] - it is one
        slot = getattr(type(value), each.name, None)
        if own is None or each.name in own or isinstance(slot, MemberDescriptorType):
            yield each.name, each.name


def _builtins(value: object) -> object:
    try:
        return msgspec.to_builtins(value, builtin_types=_BYTES, order="deterministic")
    except TypeError:  # keys or items without an order among themselves, or nothing that fits
        return msgspec.to_builtins(value, builtin_types=_BYTES)
