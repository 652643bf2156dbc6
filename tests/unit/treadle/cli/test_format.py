import pytest

from treadle.cli.format import (
    Column,
    ago,
    as_json,
    call_text,
    facts,
    left,
    plain,
    seconds_text,
    status_text,
    table,
)
from treadle.cli.options import Options

PLAIN = Options(color="never")


def test_a_table_is_aligned_and_not_wrapped() -> None:
    columns = [
        Column("RUN", lambda row: row["run"]),
        Column("STEPS", lambda row: row["steps"], is_number=True),
        Column("WHY", lambda row: row["why"]),
    ]
    rows = [
        {"run": "a", "steps": "1/8", "why": "x" * 200},
        {"run": "long-name", "steps": "12/80", "why": ""},
    ]
    assert table(columns, rows, PLAIN).splitlines() == [
        "RUN        STEPS  WHY",
        "a            1/8  " + "x" * 200,
        "long-name  12/80",
    ]


def test_wide_characters_count_two_cells() -> None:
    columns = [Column("A", lambda row: row["a"]), Column("B", lambda row: row["b"])]
    lines = table(columns, [{"a": "東京", "b": "x"}, {"a": "abcd", "b": "y"}], PLAIN).splitlines()
    assert lines == ["A     B", "東京  x", "abcd  y"]


def test_color_only_decorates() -> None:
    columns = [Column("STATUS", lambda row: status_text(row["status"]))]
    rows = [{"status": "SUCCEEDED"}, {"status": "FAILED"}]
    colored = table(columns, rows, Options(color="always"))
    stripped = colored.replace("\x1b[32m", "").replace("\x1b[31m", "").replace("\x1b[0m", "")
    assert stripped == table(columns, rows, PLAIN)
    assert colored != stripped


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("a\x1b[2Jb", "a\\u001b[2Jb"),
        ("1\r2", "1\\r2"),
        ("two\nlines", "two\\nlines"),
        ("\u202e0002", "\\u202e0002"),
        ("\x9b31m", "\\u009b31m"),
        ("Grüße 東京", "Grüße 東京"),
    ],
)
def test_foreign_text_cannot_steer_the_terminal(hostile: str, shown: str) -> None:
    assert plain(hostile) == shown


def test_values_that_are_no_text_are_shown_as_json() -> None:
    assert plain({"a": [1, None]}) == '{"a":[1,null]}'
    assert call_text("t", {"id": "8472", "n": 2}) == 't(id="8472", n=2)'


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (12.4, "12s"), (90, "2m"), (3600, "60m"), (7200, "2h"), (200_000, "2d")],
)
def test_spans_are_shown_in_their_largest_unit(seconds: float, shown: str) -> None:
    assert seconds_text(seconds) == shown


def test_times_are_relative_for_people() -> None:
    now = 1_761_650_263.0
    assert ago("2025-10-28T11:17:43Z", now) == "0s"
    assert ago(None, now) == "-"
    assert left("2025-10-28T13:17:43.000Z", now) == "2h left"
    assert left("2025-10-28T11:17:00+00:00", now) == "expired"


def test_empty_facts_are_left_out() -> None:
    assert facts([("Run", "a"), ("Labels", ""), ("Status", "b")], PLAIN) == "Run     a\nStatus  b"


def test_json_keeps_what_the_terminal_can_show() -> None:
    assert as_json({"a": "ü"}) in {'{"a": "ü"}', '{"a": "\\u00fc"}'}
