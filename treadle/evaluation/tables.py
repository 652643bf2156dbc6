"""The TOML tables of a suite, one struct each, and how one is read: strictly, naming the place.

A table inside a table stays undecoded in the outer one and is read by itself, so that a message can
say exactly where it is and what may stand there.
"""

import difflib
from typing import Annotated, Any, NamedTuple, NoReturn, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from messages.base import FrozenMeta
from messages.errors import BadTask, ConfigError
from messages.parts import Arguments, JsonValue
from runtime.intake.values import MAX_INPUTS_BYTES, check_value
from treadle.evaluation.suite import ArgumentKind, ErrorKind

TableT = TypeVar("TableT", bound="Table")
Raw = dict[str, Any]
"""A table that is read later."""

MOST = 1_000
"""Runs of one task, and turns of one repeated call: enough for figures, too few for an accident."""
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-]{1,32}$")]
Text = Annotated[str, Meta(min_length=1)]
Times = Annotated[int, Meta(ge=1, le=MOST)]


class Table(
    msgspec.Struct, metaclass=FrozenMeta, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """A table; an unknown key in it is an error."""


class SuiteTable(Table, kw_only=True):
    """The whole file."""

    name: Name
    configurations: Annotated[dict[Name, Raw], Meta(min_length=1)]
    tools: dict[Text, Raw] = {}
    tasks: Annotated[list[Raw], Meta(min_length=1)]


class ConfigurationTable(Table, kw_only=True):
    """``[configurations.NAME]``: the fields of ``Progress`` and of ``Budget``."""

    progress: Raw = {}
    budget: Raw = {}


class ToolTable(Table, kw_only=True):
    """``[tools.NAME]``."""

    description: Text
    arguments: dict[Text, ArgumentKind] = {}
    results: list[Raw] = []


class ResultTable(Table, kw_only=True):
    """One result: ``returns``, or ``error`` and what kind of error it is."""

    returns: JsonValue | UnsetType = UNSET
    error: Text | UnsetType = UNSET
    kind: ErrorKind | UnsetType = UNSET


class TaskTable(Table, kw_only=True):
    """``[[tasks]]``."""

    name: Name
    goal: str = ""
    repeat: Times = 1
    turns: Annotated[list[Raw], Meta(min_length=1)]
    results: dict[Text, list[Raw]] = {}


class TurnTable(Table, kw_only=True):
    """One turn of the model: ``call`` with its arguments, or ``finish``."""

    call: Text | UnsetType = UNSET
    arguments: Arguments | UnsetType = UNSET
    repeat: Times | UnsetType = UNSET
    finish: JsonValue | UnsetType = UNSET


class Place(NamedTuple):
    """Where in which file, for messages."""

    file: str
    path: str = ""

    def inside(self, step: str) -> "Place":
        """One step further in: ``.key`` or ``[3]``."""
        return Place(self.file, f"{self.path}{step}" if self.path else step.lstrip("."))

    def __str__(self) -> str:
        return f"{self.file}: {self.path}" if self.path else self.file


def read(cls: type[TableT], value: object, place: Place) -> TableT:
    """One table.

    Args:
        cls: Which.
        value: As TOML gave it.
        place: Where it stands.

    Raises:
        ConfigError: It is not of that shape.
    """
    try:
        return msgspec.convert(value, cls)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `")
        unknown = problem.partition("unknown field `")[2].removesuffix("`")
        if unknown:
            refuse_key(unknown, cls.__struct_fields__, place)
        step = path.replace("key` in `", "").removesuffix("`").removeprefix("$")
        raise ConfigError(str(place.inside(step)), problem) from error


def refuse_key(key: str, known: tuple[str, ...], place: Place) -> NoReturn:
    """Say that a key or a name is none, and which there are.

    Raises:
        ConfigError: Always.
    """
    nearest = difflib.get_close_matches(key, known, n=1)
    problem = f"there is no {key!r}; there are: {', '.join(known) or 'none'}"
    raise ConfigError(str(place), problem, nearest=nearest[0] if nearest else "")


def plain_json(value: JsonValue, place: Place) -> JsonValue:
    """A value that can travel and be recorded.

    Raises:
        ConfigError: It cannot.
    """
    try:
        check_value("this value", value, MAX_INPUTS_BYTES)
    except BadTask as error:
        raise ConfigError(str(place), error.message) from error
    return value
