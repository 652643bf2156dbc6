"""An app made of a suite: agents, scripted tools, and what the model says."""

from dataclasses import replace
from typing import Any

import pytest

from messages.errors import ConfigError, Correctable, Transient, Unrecoverable
from runtime.agent import Budget, Progress
from runtime.model import scripted
from treadle.evaluation.play import TASK, Playbook, app_of, turn_of
from treadle.evaluation.suite import (
    Called,
    Configuration,
    ErrorKind,
    Finished,
    Raised,
    Returned,
    ScriptedTool,
    Suite,
    Task,
)

TOOL = ScriptedTool(
    description="Look.",
    arguments={"id": "string", "count": "integer", "share": "number", "is_new": "boolean"},
    results=(Returned(value="one"), Returned(value="two")),
)
ARGUMENTS = {"id": "k", "count": 1, "share": 0.5, "is_new": True}
PLAIN = Task(
    name="plain",
    goal="g",
    repeat=1,
    turns=(Called(tool="look", arguments=ARGUMENTS), Finished(output={"a": 1})),
    results={},
)
SUITE = Suite(
    file="s.toml",
    name="s",
    configurations={
        "a": Configuration(progress=Progress(warn_at=2, stop_at=3), budget=Budget(max_steps=7)),
        "b": Configuration(progress=Progress(), budget=Budget()),
    },
    tools={"look": TOOL},
    tasks={"plain": PLAIN},
)


def test_each_configuration_is_an_agent_with_the_same_tools() -> None:
    specs = app_of(SUITE, Playbook(SUITE)).specs
    assert set(specs) == {"s-a", "s-b"}
    assert (specs["s-a"].progress.stop_at, specs["s-a"].limits.max_steps) == (3, 7)
    assert specs["s-b"].progress == Progress().spec()
    [tool] = specs["s-a"].tools
    assert (tool.name, tool.description, tool.effect) == ("look", "Look.", "read")
    kinds = {name: schema["type"] for name, schema in tool.parameters["properties"].items()}
    assert kinds == {"id": "string", "count": "integer", "share": "number", "is_new": "boolean"}


def test_a_tool_says_what_is_written_call_by_call_and_the_last_stays() -> None:
    book = Playbook(SUITE)
    for run_id in ("r1", "r2"):
        book.cast(run_id, PLAIN)
    assert [book.answer("r1", "look") for _ in range(4)] == ["one", "two", "two", "two"]
    assert book.answer("r2", "look") == "one"


def test_a_task_has_its_own_results() -> None:
    book = Playbook(SUITE)
    book.cast("r1", replace(PLAIN, results={"look": (Returned(value=None),)}))
    assert book.answer("r1", "look") is None


@pytest.mark.parametrize(
    ("kind", "error"),
    [("correctable", Correctable), ("transient", Transient), ("unrecoverable", Unrecoverable)],
)
def test_a_tool_fails_as_it_is_written(kind: ErrorKind, error: type[Exception]) -> None:
    book = Playbook(SUITE)
    book.cast("r1", replace(PLAIN, results={"look": (Raised(message="no", kind=kind),)}))
    with pytest.raises(error, match="no"):
        book.answer("r1", "look")


def view(turn: int, *, is_final: bool = False) -> scripted.View:
    return scripted.View("g", {TASK: "plain"}, turn, is_final, ())


def test_the_model_says_the_turns_of_its_task() -> None:
    [block] = turn_of(SUITE, view(0)).blocks
    assert block == {"type": "tool_use", "name": "look", "input": ARGUMENTS}
    assert turn_of(SUITE, view(1)) == scripted.finish({"a": 1})
    assert turn_of(SUITE, view(9, is_final=True)).blocks[0]["type"] == "text"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tools": {"look": TOOL, "finish": TOOL}}, "finish"),
        ({"tools": {"look": TOOL, "not a name": TOOL}}, "not a name"),
        ({"tools": {"look": replace(TOOL, arguments={"ctx": "string"})}}, "ctx"),
        ({"tools": {"look": replace(TOOL, arguments={"a b": "string"})}}, "a b"),
        ({"tools": {"look": replace(TOOL, description=" ")}}, "look"),
        ({"name": "s" * 63}, "sss"),
    ],
)
def test_what_could_not_be_declared_is_refused(changes: dict[str, Any], message: str) -> None:
    suite = replace(SUITE, **changes)
    with pytest.raises(ConfigError, match=message) as caught:
        app_of(suite, Playbook(suite))
    assert caught.value.message.startswith("s.toml: ")


@pytest.mark.parametrize(
    "arguments",
    [{}, {**ARGUMENTS, "more": 1}, {**ARGUMENTS, "count": "1"}, {**ARGUMENTS, "id": 3}],
)
def test_a_call_that_does_not_fit_its_tool_is_refused(arguments: dict[str, Any]) -> None:
    task = replace(PLAIN, turns=(Called(tool="look", arguments=arguments), *PLAIN.turns))
    suite = replace(SUITE, tasks={"plain": task})
    with pytest.raises(ConfigError, match=r"s.toml: task 'plain', call of 'look': "):
        app_of(suite, Playbook(suite))
