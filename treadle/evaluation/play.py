"""An app made of a suite: an agent for each configuration, scripted tools, and the script."""

import inspect
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from messages.errors import (
    ConfigError,
    Correctable,
    DeclarationError,
    ToolError,
    Transient,
    Unrecoverable,
)
from messages.parts import JsonValue, Problem
from runtime.agent import Agent, App
from runtime.model import scripted
from runtime.tools.context import Ctx
from runtime.tools.declare import Tool, read
from treadle.evaluation.suite import (
    ArgumentKind,
    Called,
    ErrorKind,
    Raised,
    ScriptedTool,
    Suite,
    Task,
)

TASK: Final = "task"
"""The input that says which task a run is."""
_TYPES: Final[dict[ArgumentKind, type]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
}
_ERRORS: Final[dict[ErrorKind, type[ToolError]]] = {
    "correctable": Correctable,
    "transient": Transient,
    "unrecoverable": Unrecoverable,
}
_INSTRUCTIONS: Final = "Do the task. (A script plays the model.)"


class Playbook:
    """What the tools of each run say, call by call. It lives as long as the evaluation."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._tasks: dict[str, Task] = {}
        self._calls: Counter[tuple[str, str]] = Counter()

    def cast(self, run_id: str, task: Task) -> None:
        """That run plays this task."""
        self._tasks[run_id] = task

    def answer(self, run_id: str, tool: str) -> JsonValue:
        """What the next call of that tool in that run gives.

        Raises:
            ToolError: The script says so.
        """
        results = self._tasks[run_id].results.get(tool) or self._suite.tools[tool].results
        number = self._calls[run_id, tool]
        self._calls[run_id, tool] += 1
        result = results[min(number, len(results) - 1)]
        if isinstance(result, Raised):
            raise _ERRORS[result.kind](result.message)
        return result.value


def app_of(suite: Suite, playbook: Playbook) -> App:
    """The app that plays a suite.

    Raises:
        ConfigError: A tool or an agent could not be declared like that, or a call does not fit its
            tool.
    """
    try:
        tools = [_tool(name, tool) for name, tool in suite.tools.items()]
        agents = [
            Agent(
                suite.agent(name),
                model=scripted.NAME,
                instructions=_INSTRUCTIONS,
                tools=tools,
                budget=configuration.budget,
                progress=configuration.progress,
            )
            for name, configuration in suite.configurations.items()
        ]
    except DeclarationError as error:
        raise ConfigError(suite.file, error.message) from error
    _check_calls(suite, {tool.name: tool for tool in tools})

    @asynccontextmanager
    async def deps() -> AsyncGenerator[Playbook]:
        yield playbook

    return App(*agents, deps=deps)


def turn_of(suite: Suite, view: scripted.View) -> scripted.Turn:
    """What the scripted model says next."""
    if view.is_final:
        return scripted.say("The budget is gone.")
    turn = suite.tasks[view.inputs[TASK]].turns[view.turn]
    if isinstance(turn, Called):
        # Not scripted.call: an argument may be called like one of its own options.
        block = {"type": "tool_use", "name": turn.tool, "input": turn.arguments}
        return scripted.Turn(blocks=(block,))
    return scripted.finish(turn.output)


def _tool(name: str, tool: ScriptedTool) -> Tool[..., Any]:
    """A read whose signature comes from the suite instead of from code."""

    async def play(ctx: Ctx[Playbook], **_arguments: object) -> object:
        return ctx.deps.answer(ctx.run_id, name)

    play.__name__ = name
    play.__doc__ = tool.description
    play.__signature__ = _signature(name, tool)  # what inspect reads
    return read(source="script")(play)


def _signature(name: str, tool: ScriptedTool) -> inspect.Signature:
    kind = inspect.Parameter.KEYWORD_ONLY
    given = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Ctx[Any])
    try:
        arguments = [
            inspect.Parameter(argument, kind, annotation=_TYPES[of])
            for argument, of in tool.arguments.items()
        ]
        return inspect.Signature([given, *arguments])
    except ValueError as error:
        raise DeclarationError(f"read tool {name!r}, its arguments: {error}") from error


def _check_calls(suite: Suite, tools: dict[str, Tool[..., Any]]) -> None:
    """A call that its tool would not take is a mistake in the suite, not a result."""
    for task in suite.tasks.values():
        for turn in task.turns:
            if not isinstance(turn, Called):
                continue
            decoded = tools[turn.tool].parameters.decode(turn.arguments)
            if isinstance(decoded, Problem):
                where = f"{suite.file}: task {task.name!r}, call of {turn.tool!r}"
                raise ConfigError(where, decoded.message)
