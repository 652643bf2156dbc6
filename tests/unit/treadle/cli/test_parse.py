import click
import pytest

from treadle.cli import parse


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("90s", 90.0), ("5m", 300.0), ("1.5h", 5400.0), ("2d", 172_800.0),
     ("250ms", 0.25)],
)  # fmt: skip
def test_durations_have_a_unit(text: str, seconds: float) -> None:
    assert parse.Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "h", "1w", "-5s", "5 m", "1h30m", "1e3"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(click.UsageError):
        parse.Duration().convert(text, None, None)


def test_a_value_is_text_whatever_it_looks_like() -> None:
    assert parse.inputs(["a=08472", "b=true", "c=", "d={}"]) == {
        "a": "08472",
        "b": "true",
        "c": "",
        "d": "{}",
    }


def test_json_is_asked_for() -> None:
    assert parse.inputs(['a:={"b": [1]}', "c:=null"]) == {"a": {"b": [1]}, "c": None}


@pytest.mark.parametrize("pair", ["a", "=b", ":=1", "a:=", "a:={"])
def test_other_inputs_are_refused(pair: str) -> None:
    with pytest.raises(click.UsageError):
        parse.inputs([pair])
