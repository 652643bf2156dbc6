"""One level of a foreign value is written as msgspec itself would write it."""

import dataclasses
import enum
from typing import Any, ClassVar

import msgspec
import pytest

from runtime.tools.clean import Cleaned, clean
from runtime.tools.fields import opened


@dataclasses.dataclass
class Plain:
    x: Any = 1
    _under: int = 2
    unset: Any = msgspec.UNSET
    unused: int = dataclasses.field(default=3, init=False)
    total: int = dataclasses.field(init=False)
    shared: ClassVar[int] = 5

    def __post_init__(self) -> None:
        self.total = 7


@dataclasses.dataclass(slots=True)
class Slotted:
    x: Any = 1
    unused: int = dataclasses.field(default=3, init=False)


@dataclasses.dataclass
class Mixed(Slotted):
    y: int = 2


class Simple(msgspec.Struct, rename="camel"):
    some_name: Any = 1
    unset: int | msgspec.UnsetType = msgspec.UNSET


class Tagged(msgspec.Struct, tag="t", omit_defaults=True):
    x: int = 1


class Row(msgspec.Struct, array_like=True):
    x: int = 1


class Word(enum.Enum):
    A = "a"


def forgetful() -> Plain:
    value = Plain()
    del value.x
    return value


@pytest.mark.parametrize(
    "value",
    [
        *(Plain(), Plain([Plain()]), Slotted(), Mixed(), Simple(), Simple(Simple()), Tagged()),
        *(Tagged(2), Row(), Word.A, forgetful(), Plain({"b": Word.A, "a": Row()})),
    ],
    ids=lambda value: type(value).__name__,
)
def test_it_is_what_msgspec_writes(value: Any) -> None:
    cleaned = clean(value)
    assert isinstance(cleaned, Cleaned)
    assert cleaned.value == msgspec.to_builtins(value, str_keys=True, order="deterministic")


def test_what_is_inside_is_left_as_it_is() -> None:
    inside = [b"x", {1, "a"}, {1: 2, "1": 3}]
    assert opened(Plain(inside)) == {"x": inside, "_under": 2, "total": 7}
    assert opened(Simple(inside)) == {"someName": inside}


def test_a_tagged_struct_keeps_its_bytes_for_the_note() -> None:
    class Kept(msgspec.Struct, tag="k"):
        x: Any

    assert opened(Kept(b"x")) == {"type": "k", "x": b"x"}
    assert opened(Kept({1: 2, "1": 3})) == {"type": "k", "x": {1: 2, "1": 3}}
