"""Key templates and the hygiene of what enters a key."""

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messages.agent import ToolSpec
from messages.canon import sha256_hex
from messages.parts import Problem
from runtime.loop.keys import BadTemplate, each_call_key, fill, is_key_of, key_of, parse_template

TEMPLATE = "refund:order-{order_id}:{payment_id}:v1"
CLEAN = string.ascii_letters + string.digits + "._@+-"


def test_parts_fill_their_places() -> None:
    arguments = {"order_id": "ORD-1042", "payment_id": "pay_9.a@b+c", "amount": 5}
    assert fill(TEMPLATE, arguments) == "refund:order-ORD-1042:pay_9.a@b+c:v1"


@pytest.mark.parametrize(
    ("value", "part"),
    [(0, "0"), (-5, "-5"), (True, "true"), (False, "false"), ("x" * 128, "x" * 128)],
)
def test_scalars_are_parts(value: Any, part: str) -> None:
    assert fill("k:{x}", {"x": value}) == f"k:{part}"


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "ORD-1\n",
        "\nORD-1",
        "a:b",
        "a/b",
        "a b",
        "a\u200bb",
        "ORD-\u0661",
        "é",
        "e\u0301",
        "a\0",
        "{x}",
        "a*",
        "x" * 129,
        None,
        1.5,
        [],
        ["a"],
        {},
        2**500,
    ],
)
def test_a_part_that_is_not_clean_is_refused(value: Any) -> None:
    problem = fill("k:{x}:v1", {"x": value})
    assert isinstance(problem, Problem)
    assert problem.code == "BAD_KEY_PART"
    assert "$.x" in problem.message
    assert problem.hint


def test_a_missing_parameter_is_no_clean_part() -> None:
    assert isinstance(fill("k:{x}", {}), Problem)


@given(st.text())
def test_only_clean_text_passes(text: str) -> None:
    is_clean = 1 <= len(text) <= 128 and all(char in CLEAN for char in text)
    assert isinstance(fill("k:{x}:v1", {"x": text}), str) is is_clean


@given(st.tuples(*[st.text(CLEAN, min_size=1, max_size=8)] * 4))
def test_different_parts_make_different_keys(parts: tuple[str, str, str, str]) -> None:
    a, b, c, d = parts
    template = "refund:{x}:{y}"
    same = fill(template, {"x": a, "y": b}) == fill(template, {"x": c, "y": d})
    assert same is ((a, b) == (c, d))


def test_free_text_enters_as_its_hash() -> None:
    assert fill("m:{s|sha256}", {"s": "Hello, \n wörld"}) == (
        "m:" + sha256_hex("Hello, \n wörld".encode())
    )
    one = fill("m:{s|sha256}", {"s": {"b": 1, "a": [2]}})
    assert one == fill("m:{s|sha256}", {"s": {"a": [2], "b": 1}})
    assert one != fill("m:{s|sha256}", {"s": None})


@pytest.mark.parametrize(
    "template",
    [
        "",
        "constant",
        "{x}{y}",
        "a {x}",
        "a\n{x}",
        "ü{x}",
        "{x",
        "x}",
        "{{x}}",
        "{}",
        "{x!r}",
        "{x.y}",
        "{x[0]}",
        "{x|md5}",
        "{x|}",
        "{x|sha256|sha256}",
        "{ x }",
        "k:{x}" + "y" * 600,
    ],
)
def test_templates_that_cannot_work(template: str) -> None:
    with pytest.raises(BadTemplate):
        parse_template(template)


def test_each_call_is_the_same_when_replayed_and_only_then() -> None:
    base: tuple[Any, ...] = ("run-1", 3, 0, "send", {"a": 1, "b": 2})
    others: list[tuple[Any, ...]] = [
        ("run-2", *base[1:]),
        ("run-1", 4, *base[2:]),
        ("run-1", 3, 1, *base[3:]),
        (*base[:3], "post", base[4]),
        (*base[:4], {"a": 1, "b": 3}),
    ]
    again: tuple[Any, ...] = (*base[:4], {"b": 2, "a": 1})
    assert each_call_key(*base) == each_call_key(*again)
    assert len({each_call_key(*each) for each in [base, *others]}) == 6


def test_the_key_of_a_call() -> None:
    def spec(**options: Any) -> ToolSpec:
        return ToolSpec(name="t", description="", parameters={}, **options)

    where: dict[str, Any] = {"origin": "run-1", "step": 1, "ordinal": 0}
    assert key_of(spec(kind="read"), {"x": "1"}, **where) is None
    assert key_of(spec(kind="write", key="k:{x}"), {"x": "1"}, **where) == "k:1"
    assert isinstance(key_of(spec(kind="write", key="k:{x}"), {"x": ":"}, **where), Problem)
    each = key_of(spec(kind="write", is_each_call=True), {"x": "1"}, **where)
    assert each == each_call_key("run-1", 1, 0, "t", {"x": "1"})


def test_a_key_that_was_made_up_is_noticed() -> None:
    def spec(**options: Any) -> ToolSpec:
        return ToolSpec(name="t", description="", parameters={}, **options)

    arguments = {"x": "1"}
    each = each_call_key("run-1", 7, 2, "t", arguments)
    for tool, key, is_right in [
        (spec(kind="read"), None, True),
        (spec(kind="read"), "k:1", False),
        (spec(kind="write", key="k:{x}"), "k:1", True),
        (spec(kind="write", key="k:{x}"), "k:2", False),
        (spec(kind="write", key="k:{x}"), None, False),
        (spec(kind="write", is_each_call=True), each, True),
        (spec(kind="write", is_each_call=True), each.replace(".2:", ".3:"), False),
        (spec(kind="write", is_each_call=True), each[:-1], False),
        (spec(kind="write", is_each_call=True), None, False),
    ]:
        assert is_key_of(tool, key, arguments, ordinal=2) is is_right
