"""The cleaning point: a table of hostile values, and the law that cleaned values round-trip."""

import copy
import dataclasses
import datetime as dt
import decimal
import enum
import types
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messages.canon import canonical
from messages.parts import Problem
from messages.state import CallState, Seen
from runtime.loop.progress import note, payload_hash
from runtime.tools.clean import MAX_DEPTH, Cleaned, clean, clean_text, error_text

TEXT_NOTE = "characters that are no text (lone surrogate, NUL) were replaced"
INT_NOTE = "a whole number beyond 64 bits became text"
FLOAT_NOTE = "a number that is not finite became null"
BYTES_NOTE = "bytes became base64 text"


HALF = "\udcff"
SURROGATES = st.characters(codec=None, exclude_categories=())
"""Every code point, halves of pairs among them."""


class Struct(msgspec.Struct, rename="camel"):
    some_ratio: float
    some_tags: set[str]


@dataclasses.dataclass
class Data:
    when: dt.date


@dataclasses.dataclass
class Box:
    inside: Any


class Broken(Mapping[str, int]):
    """Somebody's own collection, which fails while it is read."""

    def __getitem__(self, key: str) -> int:
        raise RuntimeError(f"no {key} \ud83d")

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


class Point(NamedTuple):
    x: int
    y: int


class Level(enum.IntEnum):
    HIGH = 3


class Pair(enum.Enum):
    ONE = (1, float("nan"))


class Word(str):
    __slots__ = ()


def kind_of(value: object) -> str:
    return type(value).__name__


TABLE: list[tuple[Any, Any, tuple[str, ...]]] = [
    (None, None, ()),
    (True, True, ()),
    ("plain ünïcode 😀", "plain ünïcode 😀", ()),
    ("a\ud800b", "a\ufffdb", (f"{TEXT_NOTE}, at $",)),
    ("\ud83d\ude00", "😀", (f"{TEXT_NOTE}, at $",)),
    ("a\0b", "a\ufffdb", (f"{TEXT_NOTE}, at $",)),
    (Word("x"), "x", ()),
    (2**64 - 1, 2**64 - 1, ()),
    (-(2**63), -(2**63), ()),
    (2**64, str(2**64), (f"{INT_NOTE}, at $",)),
    (-(2**63) - 1, str(-(2**63) - 1), (f"{INT_NOTE}, at $",)),
    (1 << 100_000, "a whole number of 100001 bits", (f"{INT_NOTE}, at $",)),
    (float("nan"), None, (f"{FLOAT_NOTE}, at $",)),
    ([1.5, float("inf"), float("-inf")], [1.5, None, None], (f"{FLOAT_NOTE}, at $[1] and 1 more",)),
    (b"\x00\xff", "AP8=", (f"{BYTES_NOTE}, at $",)),
    (bytearray(b"x"), "eA==", (f"{BYTES_NOTE}, at $",)),
    (memoryview(b"x"), "eA==", (f"{BYTES_NOTE}, at $",)),
    (set("hgfedcba"), list("abcdefgh"), ()),
    (frozenset({2, 1}), [1, 2], ()),
    ((1, "x"), [1, "x"], ()),
    (Point(1, 2), [1, 2], ()),
    (types.MappingProxyType({"a": 1}), {"a": 1}, ()),
    ({1: "x", None: 0, False: 1}, {"1": "x", "null": 0, "false": 1}, ()),
    ({1: "x", "1": "y"}, {"1": "y"}, ("two keys became one, at $.1",)),
    ({"a\ud800": 1}, {"a\ufffd": 1}, (f"{TEXT_NOTE}, at $",)),
    (
        Struct(float("nan"), {"b", "a"}),
        {"someRatio": None, "someTags": ["a", "b"]},
        (f"{FLOAT_NOTE}, at $.someRatio",),
    ),
    (Box(b"\xff"), {"inside": "/w=="}, (f"{BYTES_NOTE}, at $.inside",)),
    (Box({"b": bytearray(b"x")}), {"inside": {"b": "eA=="}}, (f"{BYTES_NOTE}, at $.inside.b",)),
    (Box({1: "x", "1": "y"}), {"inside": {"1": "y"}}, ("two keys became one, at $.inside.1",)),
    (Box({1, "a"}), {"inside": ["a", 1]}, ()),
    (Box({"k\udcff": 1}), {"inside": {"k\ufffd": 1}}, (f"{TEXT_NOTE}, at $.inside",)),
    (Data(dt.date(2026, 1, 31)), {"when": "2026-01-31"}, ()),
    (Level.HIGH, 3, ()),
    (Pair.ONE, [1, None], (f"{FLOAT_NOTE}, at $[1]",)),
    (decimal.Decimal("1.10"), "1.10", ()),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001", ()),
    (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "2026-01-01T00:00:00Z", ()),
    ({"x": {"y": ["\0"]}}, {"x": {"y": ["\ufffd"]}}, (f"{TEXT_NOTE}, at $.x.y[0]",)),
]


@pytest.mark.parametrize(("value", "wanted", "notes"), TABLE, ids=kind_of)
def test_values(value: Any, wanted: Any, notes: tuple[str, ...]) -> None:
    cleaned = clean(value)
    assert cleaned == Cleaned(wanted, notes, len(canonical(wanted)))
    assert isinstance(cleaned, Cleaned)
    assert type(cleaned.value) is type(wanted)


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        (object(), "UNENCODABLE", "a object at $ cannot be kept as JSON"),
        ({"a": [object()]}, "UNENCODABLE", "a object at $.a[0]"),
        ((each for each in "ab"), "UNENCODABLE", "a generator at $"),
        ({(1, 2): 3}, "UNENCODABLE", "a key of type tuple at $"),
        (1j, "UNENCODABLE", "a complex at $"),
        (Broken(), "UNENCODABLE", "it could not be read at $: RuntimeError: no a \ufffd"),
        ({"x": [Broken()]}, "UNENCODABLE", "it could not be read at $.x[0]: RuntimeError"),
        (Box({(1, 2): 3}), "UNENCODABLE", "a key of type tuple at $.inside"),
        (Box(object()), "UNENCODABLE", "a object at $.inside cannot be kept as JSON"),
        ("x" * 2000, "RESULT_TOO_LARGE", "more than 1000 bytes"),
        (["\u0001" * 200], "RESULT_TOO_LARGE", "more than 1000 bytes"),
        ({"x" * 2000: 1}, "RESULT_TOO_LARGE", "more than 1000 bytes"),
        (list(range(1000)), "RESULT_TOO_LARGE", "more than 1000 bytes"),
    ],
    ids=kind_of,
)
def test_values_that_cannot_be_kept(value: Any, code: str, message: str) -> None:
    problem = clean(value, max_bytes=1000)
    assert isinstance(problem, Problem)
    assert problem.code == code
    assert message in problem.message
    assert problem.hint


def test_nesting_is_cut_at_its_limit() -> None:
    value: Any = "core"
    for _ in range(MAX_DEPTH):
        value = [value]
    assert clean(value) == Cleaned(value, (), 2 * MAX_DEPTH + 6)
    cut = clean([value])
    assert isinstance(cut, Cleaned)
    assert cut.notes[0].startswith("nesting beyond 64 levels was left out, at $[0][0]")


def test_a_value_that_contains_itself_ends() -> None:
    once: list[Any] = []
    once.append(once)
    assert isinstance(clean(once), Cleaned)
    twice: dict[str, Any] = {}
    twice |= {"a": twice, "b": twice}
    assert isinstance(clean(twice), Problem)


def test_a_struct_too_deep_for_the_encoder_is_cut() -> None:
    class Node(msgspec.Struct):
        inner: Any = None

    node = Node()
    for _ in range(100_000):
        node = Node(node)
    cut = clean(node)
    assert isinstance(cut, Cleaned)
    assert cut.notes[0].startswith("nesting beyond 64 levels was left out, at $.inner.inner")
    while node is not None:  # taken apart by hand: the destructor would recurse as well
        node = node.inner


@pytest.mark.parametrize("value", [{1: "x", "1": "y"}, {"k" + HALF: 1, "k\udcfe": 2}])
def test_which_of_two_keys_is_kept_hangs_on_no_order(value: dict[Any, Any]) -> None:
    backwards = dict(reversed(value.items()))
    assert value == backwards
    assert clean(value) == clean(backwards)


HOSTILE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(2**90), max_value=2**90)
    | st.floats()
    | st.text(SURROGATES)
    | st.binary()
    | st.dates()
    | st.datetimes()
    | st.decimals()
    | st.uuids(),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(SURROGATES) | st.integers() | st.none(), inner)
        | st.builds(Struct, st.floats(), st.sets(st.text(SURROGATES)))
        | st.builds(Box, inner)
        | st.sets(st.text(SURROGATES) | st.integers() | st.binary())
    ),
    max_leaves=20,
)


def another(value: Any) -> Any:
    """An equal value, built in another order."""
    if isinstance(value, dict):
        backwards: Any = reversed(cast("dict[Any, Any]", value).items())
        return {key: another(item) for key, item in backwards}
    if isinstance(value, set):
        found: list[Any] = sorted(cast("set[Any]", value), key=repr, reverse=True)
        return {*found}
    if isinstance(value, list | tuple):
        items = [another(item) for item in cast("list[Any]", value)]
        return items if isinstance(value, list) else tuple(items)
    return Box(another(value.inside)) if isinstance(value, Box) else copy.copy(value)


@settings(max_examples=300)
@given(HOSTILE)
def test_equal_dirty_values_have_equal_hashes(value: Any) -> None:
    one, two = clean(value), clean(another(value))
    assert isinstance(one, Cleaned)
    assert isinstance(two, Cleaned)
    assert payload_hash(one.value) == payload_hash(two.value)
    call = CallState(ordinal=0, tool_use_id="", tool="look", arguments={})
    seen = note(note(Seen(), call, payload_hash(one.value)), call, payload_hash(two.value))
    assert list(seen.pairs.values()) == [2]


@settings(max_examples=300)
@given(HOSTILE)
def test_cleaned_values_encode_and_read_back_equal(value: Any) -> None:
    cleaned = clean(value)
    assert isinstance(cleaned, Cleaned)
    encoded = canonical(cleaned.value)
    assert msgspec.json.decode(encoded) == cleaned.value
    assert len(encoded) == cleaned.size
    assert "\\u0000" not in encoded.decode()
    assert clean(cleaned.value) == Cleaned(cleaned.value, (), cleaned.size)


def test_text_is_cut_and_clean() -> None:
    assert clean_text("a\0b", 10) == "a\ufffdb"
    assert clean_text("x" * 20, 10) == "x" * 9 + "…"


def test_errors_are_named_and_cut() -> None:
    class BadError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert error_text(ValueError("no \ud800")) == "ValueError: no \ufffd"
    assert len(error_text(ValueError("x" * 9999))) == 500
    assert error_text(BadError()) == "BadError"
