"""A suite as data: configurations, tools with scripted results, tasks with a scripted model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from messages.parts import Arguments, JsonValue
from runtime.agent import Budget, Progress

ArgumentKind = Literal["string", "integer", "number", "boolean"]
ErrorKind = Literal["correctable", "transient", "unrecoverable"]


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """What differs between two passes over the same tasks."""

    progress: Progress
    budget: Budget


@dataclass(frozen=True, kw_only=True)
class Returned:
    """The tool gives this back."""

    value: JsonValue


@dataclass(frozen=True, kw_only=True)
class Raised:
    """The tool fails with these words."""

    message: str
    kind: ErrorKind


Result = Returned | Raised


@dataclass(frozen=True, kw_only=True)
class ScriptedTool:
    """A read whose answers are written down.

    Attributes:
        results: Of the first, second … call of a run; the last one stays. A task may have its own.
    """

    description: str
    arguments: Mapping[str, ArgumentKind]
    results: tuple[Result, ...]


@dataclass(frozen=True, kw_only=True)
class Called:
    """The model calls a tool."""

    tool: str
    arguments: Arguments


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The model proposes to finish."""

    output: JsonValue


Turn = Called | Finished


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task: what the model does turn by turn, and what its tools say.

    Attributes:
        repeat: How many runs it is in each configuration.
        results: By tool, instead of the tool's own.
    """

    name: str
    goal: str
    repeat: int
    turns: tuple[Turn, ...]
    results: Mapping[str, tuple[Result, ...]]


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Everything that one evaluation runs.

    Attributes:
        file: Where it was read, for messages.
    """

    file: str
    name: str
    configurations: Mapping[str, Configuration]
    tools: Mapping[str, ScriptedTool]
    tasks: Mapping[str, Task]

    @property
    def runs(self) -> int:
        """How many runs it is, all configurations together."""
        return len(self.configurations) * sum(task.repeat for task in self.tasks.values())

    def agent(self, configuration: str) -> str:
        """The name of the agent that runs under a configuration."""
        return f"{self.name}-{configuration}"
