"""A suite read from its file, or what is wrong with it: file, place, and what to write."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from messages.errors import BadTask, ConfigError, DeclarationError, NotFound
from runtime.agent import Budget, Progress
from runtime.intake.values import check_goal
from treadle import examples
from treadle.evaluation import tables
from treadle.evaluation.suite import (
    Called,
    Configuration,
    Finished,
    Raised,
    Result,
    Returned,
    ScriptedTool,
    Suite,
    Task,
    Turn,
)
from treadle.evaluation.tables import Place, Raw, plain_json, read, refuse_key

SettingsT = TypeVar("SettingsT", Progress, Budget)
Tools = Mapping[str, ScriptedTool]

SHIPPED = Path(examples.__file__).parent / "evals"
"""The suites that come with Treadle; each can be named without its path."""


def load_suite(given: str) -> Suite:
    """The suite of a file, or the one that ships under that name.

    Raises:
        NotFound: There is neither.
        ConfigError: It cannot be read, or something in it is wrong.
    """
    path = Path(given)
    if not path.exists() and path.name == given:
        path = SHIPPED / f"{given.removesuffix('.toml')}.toml"
    try:
        return suite_of(tomllib.loads(path.read_text("utf-8")), str(path))
    except FileNotFoundError:
        names = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.toml")))
        raise NotFound("suite", given, hint=f"name a file, or one that ships: {names}") from None
    except OSError as error:
        raise ConfigError(given, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(given, f"is no UTF-8 text: {error.reason}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(given, f"is no TOML: {error}") from error


def suite_of(document: Mapping[str, Any], file: str) -> Suite:
    """A suite, each part of it checked.

    Args:
        document: As TOML gave it.
        file: For messages.

    Raises:
        ConfigError: Something is wrong.
    """
    top = Place(file)
    # A date of TOML is none of JSON: it becomes text.
    table = read(tables.SuiteTable, msgspec.to_builtins(document), top)
    tools = {name: _tool(raw, top.inside(f"tools.{name}")) for name, raw in table.tools.items()}
    return Suite(
        file=file,
        name=table.name,
        configurations={
            name: _configuration(raw, top.inside(f"configurations.{name}"))
            for name, raw in table.configurations.items()
        },
        tools=tools,
        tasks=_tasks(table.tasks, tools, top),
    )


# ------------------------------------------------------------------ configurations
def _configuration(raw: Raw, place: Place) -> Configuration:
    table = read(tables.ConfigurationTable, raw, place)
    if "max_usd" in table.budget:
        problem = "a scripted model costs nothing, so no run could reach it; leave it out"
        raise ConfigError(str(place.inside(".budget.max_usd")), problem)
    return Configuration(
        progress=_settings(Progress, table.progress, place.inside(".progress")),
        budget=_settings(Budget, table.budget, place.inside(".budget")),
    )


def _settings(cls: type[SettingsT], raw: Raw, place: Place) -> SettingsT:
    """What an agent says in Python, said in a table and refused with the same words."""
    known = tuple(field.name for field in fields(cls))
    for key in raw:
        if key not in known:
            refuse_key(key, known, place)
    try:
        return cls(**raw)
    except DeclarationError as error:
        raise ConfigError(str(place), error.message) from error


# ------------------------------------------------------------------ tools
def _tool(raw: Raw, place: Place) -> ScriptedTool:
    table = read(tables.ToolTable, raw, place)
    return ScriptedTool(
        description=table.description,
        arguments=table.arguments,
        results=_results(table.results, place.inside(".results")),
    )


def _results(raws: Iterable[Raw], place: Place) -> tuple[Result, ...]:
    return tuple(_result(raw, place.inside(f"[{number}]")) for number, raw in enumerate(raws))


def _result(raw: Raw, place: Place) -> Result:
    table = read(tables.ResultTable, raw, place)
    if (table.returns is UNSET) == (table.error is UNSET):
        raise ConfigError(str(place), "write either returns = ... or error = '...'")
    if table.error is not UNSET:
        kind = "correctable" if table.kind is UNSET else table.kind
        return Raised(message=table.error, kind=kind)
    if table.kind is not UNSET:
        raise ConfigError(str(place.inside(".kind")), "is for an error, and this result is none")
    return Returned(value=plain_json(table.returns, place.inside(".returns")))


# ------------------------------------------------------------------ tasks
def _tasks(raws: Iterable[Raw], tools: Tools, top: Place) -> dict[str, Task]:
    tasks: dict[str, Task] = {}
    for number, raw in enumerate(raws):
        place = top.inside(f"tasks[{number}]")
        task = _task(raw, tools, place)
        if task.name in tasks:
            raise ConfigError(str(place.inside(".name")), f"there are two tasks {task.name!r}")
        tasks[task.name] = task
    return tasks


def _task(raw: Raw, tools: Tools, place: Place) -> Task:
    table = read(tables.TaskTable, raw, place)
    goal = table.goal or table.name
    try:
        check_goal(goal)
    except BadTask as error:
        raise ConfigError(str(place.inside(".goal")), error.message) from error
    results: dict[str, tuple[Result, ...]] = {}
    for tool, each in table.results.items():
        _check_tool(tool, tools, place.inside(".results"))
        results[tool] = _results(each, place.inside(f".results.{tool}"))
    turns = _turns(table.turns, tools, place.inside(".turns"))
    for tool in {turn.tool for turn in turns if isinstance(turn, Called)}:
        if not (results.get(tool) or tools[tool].results):
            problem = f"calls {tool!r}, which has no result; write some for the tool or the task"
            raise ConfigError(str(place), problem)
    return Task(name=table.name, goal=goal, repeat=table.repeat, turns=turns, results=results)


def _turns(raws: Iterable[Raw], tools: Tools, place: Place) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    for number, raw in enumerate(raws):
        turns += _turn(raw, tools, place.inside(f"[{number}]"))
    if not isinstance(turns[-1], Finished):
        raise ConfigError(str(place), "the last turn must be { finish = ... }")
    return tuple(turns)


def _turn(raw: Raw, tools: Tools, place: Place) -> list[Turn]:
    table = read(tables.TurnTable, raw, place)
    if (table.call is UNSET) == (table.finish is UNSET):
        raise ConfigError(str(place), "write either call = '...' or finish = ...")
    if table.call is UNSET:
        if table.arguments is not UNSET or table.repeat is not UNSET:
            raise ConfigError(str(place), "arguments and repeat are for a call; this turn finishes")
        return [Finished(output=plain_json(table.finish, place.inside(".finish")))]
    _check_tool(table.call, tools, place.inside(".call"))
    arguments = {} if table.arguments is UNSET else table.arguments
    turn = Called(tool=table.call, arguments=plain_json(arguments, place.inside(".arguments")))
    return [turn] * (1 if table.repeat is UNSET else table.repeat)


def _check_tool(name: str, tools: Tools, place: Place) -> None:
    if name not in tools:
        refuse_key(name, tuple(tools), place)
