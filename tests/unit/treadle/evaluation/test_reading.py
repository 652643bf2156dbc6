"""A suite is read strictly: what is wrong is named with its file, its place, and what to write."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from messages.errors import ConfigError, NotFound
from treadle.evaluation.reading import SHIPPED, load_suite, suite_of
from treadle.evaluation.suite import Called, Finished, Raised, Returned

GOOD = """
name = "s"
[configurations.a.progress]
warn_at = 2
[configurations.b]
budget = { max_steps = 9 }
[tools.look]
description = "Look."
arguments = { key = "string" }
results = [{ error = "no", kind = "transient" }, { returns = { day = 2026-11-30 } }]
[[tasks]]
name = "t"
repeat = 2
turns = [{ call = "look", arguments = { key = "x" }, repeat = 3 }, { finish = "done" }]
results = { look = [{ returns = 1 }] }
"""


def document() -> dict[str, Any]:
    return tomllib.loads(GOOD)


def test_a_suite_is_what_it_says() -> None:
    suite = suite_of(document(), "s.toml")
    assert (suite.name, suite.runs, suite.agent("a")) == ("s", 4, "s-a")
    first, second = suite.configurations.values()
    assert (first.progress.warn_at, first.progress.stop_at, first.budget.max_steps) == (2, 4, 25)
    assert (second.progress.warn_at, second.budget.max_steps) == (3, 9)
    failed, returned = suite.tools["look"].results
    assert failed == Raised(message="no", kind="transient")
    assert returned == Returned(value={"day": "2026-11-30"})
    task = suite.tasks["t"]
    assert task.goal == "t"
    call = Called(tool="look", arguments={"key": "x"})
    assert task.turns == (call, call, call, Finished(output="done"))
    assert task.results == {"look": (Returned(value=1),)}


def test_every_suite_that_ships_is_fine() -> None:
    names = [file.stem for file in SHIPPED.glob("*.toml")]
    assert "loop_detection" in names
    for name in names:
        assert load_suite(name).name == name


def test_the_suite_of_the_source_has_its_twenty_tasks() -> None:
    suite = load_suite("loop_detection")
    assert {name: task.repeat for name, task in suite.tasks.items()} == {
        "plain": 12,
        "one_tool_error": 3,
        "stuck": 5,
    }
    on, off = suite.configurations["on"].progress, suite.configurations["off"].progress
    assert (on.warn_at, on.stop_at) == (2, 3)
    assert (
        min(off.warn_at, off.stop_at, off.stall_at) > suite.configurations["off"].budget.max_steps
    )


def task(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda suite: suite["tasks"][0].update(changes)


def turn(value: object) -> Callable[[dict[str, Any]], None]:
    return task(turns=[value, {"finish": "done"}])


def result(value: object) -> Callable[[dict[str, Any]], None]:
    return lambda suite: suite["tools"]["look"].update(results=[value])


def top(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda suite: suite.update(changes)


def without(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda suite: suite.pop(name)


def settings(part: str, **values: Any) -> Callable[[dict[str, Any]], None]:
    return top(configurations={"a": {part: values}})


BAD: list[tuple[Callable[[dict[str, Any]], None], str, str]] = [
    (top(nam="x"), "s.toml: there is no 'nam'; there are: name, configurations", "'name'"),
    (without("name"), "s.toml: Object missing required field `name`", ""),
    (top(name="a b"), "s.toml: name: Expected `str` matching regex", ""),
    (top(tasks=[]), "s.toml: tasks: Expected `array` of length >= 1", ""),
    (top(configurations={}), "s.toml: configurations: Expected `object` of length >= 1", ""),
    (top(configurations={"a b": {}}), "s.toml: configurations: Expected `str` matching", ""),
    (top(tools={"look": 3}), "s.toml: tools[...]: Expected `object`, got `int`", ""),
    (settings("progres"), "s.toml: configurations.a: there is no 'progres'", "'progress'"),
    (settings("progress", warnat=1), "s.toml: configurations.a.progress: there is no", "'warn_at'"),
    (settings("progress", warn_at=0), "s.toml: configurations.a.progress: Progress: warn_at=", ""),
    (settings("progress", warn_at=5), "stop_at=4) must be at least warn_at=5", ""),
    (
        settings("progress", warn_at="3"),
        "s.toml: configurations.a.progress: Progress: warn_at=",
        "",
    ),
    (
        settings("budget", max_usd="1"),
        "configurations.a.budget.max_usd: a scripted model costs",
        "",
    ),
    (settings("budget", max_steps=-1), "s.toml: configurations.a.budget: Budget: max_steps=", ""),
    (result({}), "s.toml: tools.look.results[0]: write either returns = ... or error", ""),
    (result({"returns": 1, "error": "x"}), "tools.look.results[0]: write either", ""),
    (result({"returns": 1, "kind": "transient"}), "tools.look.results[0].kind: is for an", ""),
    (result({"error": "x", "kind": "odd"}), "tools.look.results[0].kind: Invalid enum", ""),
    (result({"returns": float("nan")}), "tools.look.results[0].returns: this value: a number", ""),
    (task(repeat=0), "s.toml: tasks[0].repeat: Expected `int` >= 1", ""),
    (task(repeat=1_001), "s.toml: tasks[0].repeat: Expected `int` <= 1000", ""),
    (task(goal=" "), "s.toml: tasks[0].goal: the goal is empty", ""),
    (task(turns=[]), "s.toml: tasks[0].turns: Expected `array` of length >= 1", ""),
    (task(turns=[{"call": "look"}]), "tasks[0].turns: the last turn must be { finish", ""),
    (task(results={"loo": []}), "s.toml: tasks[0].results: there is no 'loo'", "'look'"),
    (turn({}), "s.toml: tasks[0].turns[0]: write either call = '...' or finish", ""),
    (turn({"finish": 1, "repeat": 2}), "tasks[0].turns[0]: arguments and repeat are for", ""),
    (turn({"call": "loo"}), "s.toml: tasks[0].turns[0].call: there is no 'loo'", "'look'"),
    (turn({"call": "look", "argument": {}}), "tasks[0].turns[0]: there is no 'argument'", "'arg"),
    (turn({"call": ""}), "s.toml: tasks[0].turns[0].call: Expected `str` of length >= 1", ""),
    (turn(3), "s.toml: tasks[0].turns[0]: Expected `object`", ""),
]


@pytest.mark.parametrize(("spoil", "message", "hint"), BAD, ids=[bad[1][:60] for bad in BAD])
def test_what_is_wrong_is_named(
    spoil: Callable[[dict[str, Any]], None], message: str, hint: str
) -> None:
    broken = document()
    spoil(broken)
    with pytest.raises(ConfigError) as caught:
        suite_of(broken, "s.toml")
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_two_tasks_of_one_name_are_refused() -> None:
    broken = document()
    broken["tasks"] *= 2
    with pytest.raises(ConfigError, match=r"tasks\[1\].name: there are two tasks 't'"):
        suite_of(broken, "s.toml")


def test_a_tool_without_results_may_not_be_called() -> None:
    broken = document()
    broken["tools"]["look"]["results"] = []
    broken["tasks"][0]["results"] = {}
    with pytest.raises(ConfigError, match=r"tasks\[0\]: calls 'look', which has no result"):
        suite_of(broken, "s.toml")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"name = ", "is no TOML"),
        (b"\xff\xfe", "is no UTF-8"),
        (b"", "missing required field `name`"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_is_no_suite(tmp_path: Path, data: bytes | None, message: str) -> None:
    file = tmp_path / "s.toml"
    if data is None:
        file.mkdir()
    else:
        file.write_bytes(data)
    with pytest.raises(ConfigError, match=message):
        load_suite(str(file))


def test_a_suite_that_is_not_there() -> None:
    with pytest.raises(NotFound) as caught:
        load_suite("nothing.toml")
    assert "loop_detection" in caught.value.hint
