"""Schemas and the strict decoder, hostile values included."""

import copy
from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from messages.parts import Problem
from runtime.tools.declare import Ctx, read
from runtime.tools.schema import Decoded, Shape, describe, encode
from runtime.tools.strict import local_pattern

OrderId = Annotated[str, Meta(pattern=r"^ORD-[0-9]+$", description="Such as ORD-1042")]
Amount = Annotated[int, Meta(gt=0)]


class Line(Struct):
    order_id: OrderId
    count: int = 1


class Kind(Enum):
    FULL = "full"
    PART = "part"


class Cat(Struct, tag="cat"):
    name: Annotated[str, Meta(pattern="^[a-z]+$")]


class Dog(Struct, tag="dog"):
    bark: str = ""
    name: str = ""


class Extra(TypedDict):
    note: str


@dataclass
class Place:
    city: str


@read
async def everything(  # noqa: PLR0917 -- one parameter of each kind of type
    ctx: Ctx[None],
    order_id: OrderId,
    amount: Amount,
    lines: list[Line],
    kind: Kind = Kind.FULL,
    pet: Cat | Dog | None = None,
    by_number: dict[int, str] | None = None,
    tags: set[str] | None = None,
    extra: Extra | None = None,
    place: Place | None = None,
    when: datetime | None = None,
    mode: Literal["a", "b"] = "a",
    ratio: float = 1.0,
    *,
    flag: bool = False,
) -> str:
    """Take everything."""
    return order_id


GOOD: dict[str, Any] = {"order_id": "ORD-1", "amount": 5, "lines": [{"order_id": "ORD-2"}]}


def decode(**changes: Any) -> Any:
    arguments = copy.deepcopy(GOOD) | changes
    return everything.decode({k: v for k, v in arguments.items() if v is not ...})


def test_the_root_is_an_object_without_references() -> None:
    schema = everything.spec().parameters
    text = msgspec.json.encode(schema).decode()
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["order_id", "amount", "lines"]
    assert schema["properties"]["order_id"]["description"] == "Such as ORD-1042"
    assert schema["properties"]["order_id"]["pattern"] == "^ORD-[0-9]+$"
    assert schema["properties"]["lines"]["items"]["additionalProperties"] is False
    assert "$ref" not in text
    assert "$defs" not in text
    assert "title" not in text


def test_a_parameter_may_be_called_title() -> None:
    class Book(Struct):
        title: str

    assert list(describe(Book, "x")["properties"]) == ["title"]


def test_defaults_are_filled_in_and_the_value_is_encoded_again() -> None:
    decoded = decode(
        ratio=2, tags=list("hgfedcba"), by_number={"1": "x"}, when="2026-01-01T00:00:00Z"
    )
    assert decoded.value["kind"] is Kind.FULL
    assert decoded.value["lines"] == [Line("ORD-2", 1)]
    assert decoded.value["by_number"] == {1: "x"}
    assert decoded.canonical["lines"] == [{"order_id": "ORD-2", "count": 1}]
    assert decoded.canonical["ratio"] == 2.0
    assert isinstance(decoded.canonical["ratio"], float)
    assert decoded.canonical["tags"] == list("abcdefgh")
    assert decoded.canonical["by_number"] == {"1": "x"}
    assert decoded.canonical["flag"] is False


def test_decoding_what_was_encoded_changes_nothing() -> None:
    once = decode(pet={"type": "dog"}, place={"city": "Pune"}, extra={"note": "x"}, mode="b")
    again = everything.decode(once.canonical)
    assert again == once


SHARED = ["x"]


def test_mutable_defaults_are_not_shared() -> None:
    @read
    async def collect(ctx: Ctx[None], names: list[str] = SHARED) -> str:
        """Collect."""
        return str(names)

    first: Any = collect.decode({})
    first.value["names"].append("y")
    second: Any = collect.decode({})
    assert second.value == {"names": ["x"]}
    assert SHARED == ["x"]


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"order_id": ...}, "missing required field `order_id` - at `$`"),
    ({"nonsense": 1}, "unknown field `nonsense` - at `$`"),
    ({"order_id": "1042"}, "matching regex '^ORD-[0-9]+$' - at `$.order_id`"),
    ({"order_id": "ORD-1\n"}, "matching regex '^ORD-[0-9]+$' - at `$.order_id`"),
    ({"order_id": "ORD-1\u200b"}, "- at `$.order_id`"),
    ({"order_id": "ORD-\u0661"}, "- at `$.order_id`"),
    ({"order_id": None}, "Expected `str`, got `null` - at `$.order_id`"),
    ({"order_id": ["ORD-1"]}, "Expected `str`, got `array` - at `$.order_id`"),
    ({"amount": "5"}, "Expected `int`, got `str` - at `$.amount`"),
    ({"amount": 5.0}, "Expected `int`, got `float` - at `$.amount`"),
    ({"amount": True}, "Expected `int`, got `bool` - at `$.amount`"),
    ({"amount": -5}, "Expected `int` >= 1 - at `$.amount`"),
    ({"amount": 2**64}, "not plain JSON: a whole number beyond 64 bits"),
    ({"ratio": float("nan")}, "not plain JSON: a number that is not finite"),
    ({"ratio": float("inf")}, "not plain JSON: a number that is not finite"),
    ({"order_id": "ORD-1\ud800"}, "not plain JSON: characters that are no text"),
    ({"mode": "b\0"}, "not plain JSON: characters that are no text"),
    ({"lines": [{"order_id": "ORD-1\n"}]}, "- at `$.lines[0].order_id`"),
    ({"lines": [{"order_id": "ORD-1", "free": True}]}, "unknown field `free` - at `$.lines[0]`"),
    ({"lines": {}}, "Expected `array`, got `object` - at `$.lines`"),
    ({"kind": "all"}, "Invalid enum value 'all' - at `$.kind`"),
    ({"mode": "c"}, "Invalid enum value 'c' - at `$.mode`"),
    ({"pet": {"type": "cow"}}, "Invalid value 'cow' - at `$.pet.type`"),
    ({"pet": {"type": "cat", "name": "tom\n"}}, "- at `$.pet.name`"),
    ({"pet": {"type": "cat", "name": "tom", "bark": "x"}}, "unknown field `bark` - at `$.pet`"),
    ({"extra": {"note": "x", "more": 1}}, "unknown field `more` - at `$.extra`"),
    ({"place": {"city": "x", "more": 1}}, "unknown field `more` - at `$.place`"),
    ({"by_number": {"one": "x"}}, "- at `key` in `$.by_number`"),
    ({"when": "yesterday"}, "Invalid RFC3339 encoded datetime - at `$.when`"),
    ({"flag": 1}, "Expected `bool`, got `int` - at `$.flag`"),
]


@pytest.mark.parametrize(("changes", "message"), HOSTILE, ids=lambda each: str(each)[:40])
def test_arguments_are_refused_with_their_path(changes: dict[str, Any], message: str) -> None:
    problem = decode(**changes)
    assert isinstance(problem, Problem)
    assert problem.code == "BAD_ARGUMENTS"
    assert message in problem.message


@pytest.mark.parametrize("arguments", [None, [], "x", 5, [["order_id", "ORD-1"]], b"{}"])
def test_arguments_that_are_no_object(arguments: Any) -> None:
    problem = everything.decode(arguments)
    assert isinstance(problem, Problem)
    assert "`$`" in problem.message or "not plain JSON" in problem.message


def test_deep_arguments_are_refused() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]

    @read
    async def take(ctx: Ctx[None], anything: list[Any]) -> str:
        """Take."""
        return str(anything)

    problem = take.decode({"anything": deep})
    assert isinstance(problem, Problem)
    assert "nesting beyond 64 levels" in problem.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(everything.parameters.names, JSON)) | JSON)
def test_no_json_makes_the_decoder_raise(arguments: Any) -> None:
    decoded = everything.decode(arguments)
    if not isinstance(decoded, Problem):
        assert everything.decode(decoded.canonical) == decoded


@pytest.mark.parametrize(
    ("pattern", "local"),
    [
        ("^a$", r"^a\Z"),
        (r"^a\$", r"^a\$"),
        (r"^a\\$", r"^a\\\Z"),
        ("[$]", "[$]"),
        ("[]$]$", r"[]$]\Z"),
        ("[^]$]$", r"[^]$]\Z"),
        (r"[\]$]$", r"[\]$]\Z"),
        ("(a$|b$)", r"(a\Z|b\Z)"),
    ],
)
def test_dollar_means_the_end(pattern: str, local: str) -> None:
    assert local_pattern(pattern) == local


@pytest.mark.parametrize(
    ("kind", "good", "canonical"),
    [
        (int, 5, 5),
        (str, "x", "x"),
        (list[date], ["2026-01-31"], ["2026-01-31"]),
        (Line, {"order_id": "ORD-1"}, {"order_id": "ORD-1", "count": 1}),
        (Line | None, None, None),
    ],
)
def test_a_shape_of_any_type(kind: Any, good: Any, canonical: Any) -> None:
    decoded = Shape(kind, "output").decode(good)
    assert not isinstance(decoded, Problem)
    assert decoded.canonical == canonical
    assert encode(decoded.value) == canonical


@read(source="x")
async def plain(ctx: Ctx[None], number: int, text: str, ratio: float = 1.0) -> str:
    """Take what msgspec alone can judge."""
    return f"{number} {text} {ratio}"


@read(source="x")
async def one_order(ctx: Ctx[None], order_id: OrderId) -> str:
    """Take one text with a pattern."""
    return order_id


@read(source="x")
async def by_order(ctx: Ctx[None], amounts: dict[OrderId, int]) -> str:
    """Take keys with a pattern."""
    return str(amounts)


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        (plain, {"number": 1, "text": "x", "more": 1}, "unknown field `more` - at `$`"),
        (plain, {"number": True, "text": "x"}, "Expected `int`, got `bool` - at `$.number`"),
        (plain, {"number": 1, "text": "x", "ratio": "1"}, "Expected `float`, got `str`"),
        (plain, {"number": 1, "text": "x\0"}, "not plain JSON"),
        (one_order, {"order_id": "ORD-1\n"}, "matching regex '^ORD-[0-9]+$' - at `$.order_id`"),
        (by_order, {"amounts": {"ORD-1\n": 1}}, "matching regex '^ORD-[0-9]+$' - at `a key of"),
    ],
)
def test_small_tools_are_as_strict(tool: Any, arguments: dict[str, Any], message: str) -> None:
    problem = tool.decode(arguments)
    assert isinstance(problem, Problem), problem
    assert message in problem.message


def test_small_tools_take_what_fits() -> None:
    assert isinstance(plain.decode({"number": 1, "text": "x"}), Decoded)
    assert isinstance(by_order.decode({"amounts": {"ORD-1": 1}}), Decoded)
