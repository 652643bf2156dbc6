"""Arguments are one JSON object in which each name stands once, or a text with a reason."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.model.arguments import KEPT_CHARS, Unreadable, read_arguments


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ('{"text":"line1\nline2"}', "(char 14), near"),
        ('{"text":"\\ud83d"}', "surrogate"),
        ('{"text":} ', "(char 8), near"),
        ("garbage " * 25_000, "(char 0), near"),
        ('{"a": 1}{"a": 2}', "Extra data: line 1 column 9 (char 8), near"),
        ('{"a": 1, "a": 2}', '"a" stands there twice'),
        ('{"a": {"b": [{"c": 1, "c": 1}]}}', '"c" stands there twice'),
        ('{"a": NaN}', "NaN is no number of JSON"),
        ('{"a": -Infinity}', "-Infinity is no number of JSON"),
        ('{"a": "hel', "Unterminated string starting at: line 1 column 7 (char 6), near"),
        ('{"a": 1e999}', "out of range"),
        ("[1]", "they are list and not an object"),
        ("null", "they are null and not an object"),
        ('"{}"', "they are str and not an object"),
        ('{"a":' * 20_000, "nested too deeply"),
    ],
)
def test_what_is_not_one_object_says_why_and_where(written: str, why: str) -> None:
    read = read_arguments(written)
    assert isinstance(read, Unreadable)
    assert why in read.why
    assert len(read.why) < 300
    assert read.text == written[:KEPT_CHARS]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), JSON))
def test_every_object_is_read_as_it_is(value: dict[str, Any]) -> None:
    assert read_arguments(json.dumps(value)) == value


@given(st.text())
def test_no_text_raises(written: str) -> None:
    assert isinstance(read_arguments(written), dict | Unreadable)
