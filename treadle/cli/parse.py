"""How values are written on a command line: pairs, inputs, durations."""

import json
import re
from collections.abc import Iterable
from typing import Any, Final

import click

_UNITS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|)")


def json_value(text: str) -> Any:
    """A value written as JSON; NaN and Infinity, which Python would take, are none.

    Raises:
        ValueError: It is no JSON.
    """
    return json.loads(text, parse_constant=_refuse)


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no number that JSON knows")


class Duration(click.ParamType[float]):
    """``90``, ``90s``, ``1.5h``, ``2d``: seconds as a float."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """See ``click.ParamType``."""
        if isinstance(value, int | float):
            return float(value)
        found = _DURATION.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not a duration such as 90s, 5m, 2h or 1d", param, ctx)
        return float(found[1]) * _UNITS[found[2]]


def labels(pairs: Iterable[str]) -> dict[str, str]:
    """``K=V`` pairs.

    Raises:
        click.UsageError: a pair without ``=`` or without a name.
    """
    return dict(_split(pair, "--label") for pair in pairs)


def inputs(pairs: Iterable[str]) -> dict[str, Any]:
    """``KEY=VALUE`` is a string, always; ``KEY:=JSON`` is that JSON value.

    Order ids, phone numbers and postal codes look like numbers and are not, so nothing is guessed.

    Raises:
        click.UsageError: a pair without ``=`` or without a name, or JSON that is none.
    """
    return dict(_input(pair) for pair in pairs)


def _input(pair: str) -> tuple[str, Any]:
    name, value = _split(pair, "-i")
    if not name.endswith(":"):
        return name, value
    try:
        return name.removesuffix(":"), json_value(value)
    except ValueError as error:
        raise click.UsageError(f"-i {name}=… is not JSON: {error}") from error


def _split(pair: str, option: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals or not name.strip(":"):
        raise click.UsageError(f"{option} {pair!r}: write NAME=VALUE")
    return name, value
