"""``Agent`` and ``App``: what a user declares, and its pure data.

An agent is declared once, at import time, and refused there if it could not work. The loop never
sees these objects: ``Agent.spec()`` is all it knows.
"""

import inspect
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import cached_property
from types import MappingProxyType
from typing import Any, Generic, TypeVar, Unpack, overload

from msgspec.structs import replace

from messages.agent import AgentSpec, ModelUse
from messages.errors import DeclarationError, NotFound
from messages.parts import JsonValue, Problem
from runtime.declared import (
    Budget,
    Options,
    Progress,
    check_room,
    code_hash,
    context_of,
    errors_of,
    limits_of,
    prompt_size,
)
from runtime.refusals import (
    Open,
    check_options,
    checked_deps,
    checked_name,
    checked_text,
    checked_tools,
)
from runtime.tools.clean import clean
from runtime.tools.draft import Draft
from runtime.tools.registry import Registry
from runtime.tools.ruling import Unmet
from runtime.tools.schema import Decoded, Shape
from runtime.tools.tool import Tool

__all__ = ["Agent", "App", "Budget", "Options", "Progress"]

OutT = TypeVar("OutT")


class Agent(Generic[OutT]):
    """A declared agent.

    Attributes:
        name: Its name, a token of the subject that tasks are published on.
        tools: Its tools, in the order given.
        done_hook: What ``.done`` decorated; None: a finish proposal is believed ("unverified").
    """

    @overload
    def __init__(
        self: "Agent[None]",
        name: str,
        *,
        model: str,
        instructions: str,
        tools: Sequence[Tool[..., Any]] = (),
        output: None = None,
        **options: Unpack[Options],
    ) -> None: ...
    @overload
    def __init__(
        self,
        name: str,
        *,
        model: str,
        instructions: str,
        tools: Sequence[Tool[..., Any]] = (),
        output: type[OutT],
        **options: Unpack[Options],
    ) -> None: ...
    def __init__(
        self,
        name: str,
        *,
        model: str,
        instructions: str,
        tools: Sequence[Tool[..., Any]] = (),
        output: type[OutT] | None = None,
        **options: Unpack[Options],
    ) -> None:
        """Declare an agent.

        Args:
            name: 1 to 64 of the characters A-Z a-z 0-9 _ -.
            model: The model it asks, as treadle.toml or the provider names it.
            instructions: The system text.
            tools: What it may call.
            output: The type of what it must hand in; None: free text, and ``done`` is judged
                after every observation.
            **options: ``models``: other models for the roles "final", the last turn without tools,
                and "summary", of what no longer fits the window; ``budget`` and ``progress``;
                ``window_tokens``: no request is larger, its answer included, counted as a token for
                every byte, which bounds every model (words and JSON have about a third of that);
                ``keep_turns``: the newest turns that stay whole when others are shortened;
                ``on_policy_deny``: "end" the run or "tell" the
                model; ``on_expired_approval``: "tell" or "needs_input"; ``approval_ttl``;
                ``max_wait``: the most that a run may wait in all because the model asks for it;
                ``max_output_tokens`` of one answer; ``escalate_to``: a group asked when
                ``max_consecutive_errors``, ``max_tool_errors`` or ``max_corrections`` is reached.

        Raises:
            DeclarationError: Something would not work; says what to write instead.
        """
        self.name: str = checked_name("agent", name)
        what = f"agent {name!r}"
        self.model: str = checked_text(what, "model", model)
        self.instructions: str = checked_text(what, "instructions", instructions)
        self.tools: tuple[Tool[..., Any], ...] = checked_tools(what, tools)
        self.output: type[OutT] | None = output
        self.done_hook: Callable[[Draft[OutT]], Unmet | None] | None = None
        self.options: Options = options
        check_options(what, options, Options.__annotations__)
        self._shape: Shape[OutT] | None = (
            None if output is None else Shape(output, f"{what}, output")
        )
        check_room(what, self._data())

    def __repr__(self) -> str:
        return f"<agent {self.name!r}>"

    def done(
        self, hook: Callable[[Draft[OutT]], Unmet | None], /
    ) -> Callable[[Draft[OutT]], Unmet | None]:
        """Decorate the predicate that says whether the task is complete: pure, over evidence.

        Raises:
            DeclarationError: It does not take one draft, is async, or there is one.
        """
        what = f"done of agent {self.name!r}"
        if self.done_hook is not None:
            message = f"{what}: there is one already; keep one of them"
            raise DeclarationError(message)
        if not inspect.isfunction(hook) or inspect.iscoroutinefunction(hook):
            message = f"{what} must be a plain def: it judges recorded evidence and does no I/O"
            raise DeclarationError(message)
        if len(inspect.signature(hook).parameters) != 1:
            message = f"{what} takes one draft: def {hook.__name__}(draft: Draft[...])"
            raise DeclarationError(message)
        self.done_hook = hook
        return hook

    def decode_output(self, value: JsonValue) -> Decoded[OutT | None] | Problem:
        """The output of a finish proposal, decoded strictly; of an agent without one, None.

        Returns:
            ``value`` for ``done``, ``canonical`` for the record; or ``BAD_OUTPUT`` with the path.
        """
        if self._shape is not None:
            return self._shape.decode(value, "BAD_OUTPUT")
        cleaned = clean(value)
        return cleaned if isinstance(cleaned, Problem) else Decoded(None, cleaned.value)

    def spec(self) -> AgentSpec:
        """The agent as data, as the loop knows it; reads the source of its hooks."""
        hooks = [
            hook
            for tool in self.tools
            for hook in (tool.rule_hook, tool.precondition_hook, tool.lookup_hook)
        ]
        data = self._data()
        return replace(data, code=code_hash(data, [*hooks, self.done_hook]))

    def _data(self) -> AgentSpec:
        """What is declared, without the hash of it."""
        options = self.options
        spec = AgentSpec(
            name=self.name,
            code="",
            model=self.model,
            roles={role: ModelUse(model=m) for role, m in options.get("models", {}).items()},
            instructions=self.instructions,
            tools=tuple(tool.spec() for tool in self.tools),
            limits=limits_of(options),
            progress=options.get("progress", Progress()).spec(),
            context=context_of(options),
            errors=errors_of(options),
            output_schema=None if self._shape is None else self._shape.schema,
            has_done=self.done_hook is not None,
            on_policy_deny=options.get("on_policy_deny", "end"),
            on_expired_approval=options.get("on_expired_approval", "tell"),
            approval_ttl_s=options.get("approval_ttl", timedelta(hours=2)).total_seconds(),
            max_output_tokens=options.get("max_output_tokens", 4096),
        )
        return replace(spec, prompt_bytes=prompt_size(spec))


class App:
    """The agents that one daemon serves.

    Attributes:
        agents: By name.
        tools: By name.
        script: What ``--model scripted`` plays.
    """

    def __init__(
        self, *agents: Agent[Any], deps: Open | None = None, script: object = None
    ) -> None:
        """Put agents together.

        Args:
            *agents: At least one.
            deps: Opens what tools get as ``ctx.deps``; called in executors only.
            script: A scripted model's turns, so that the app runs without a key.

        Raises:
            DeclarationError: No agent, two of one name, two different tools of one name, or
                ``deps`` is no function that returns an async context manager.
        """
        if not agents:
            message = "an App needs an agent: App(refund, deps=open_shop)"
            raise DeclarationError(message)
        self.agents: Mapping[str, Agent[Any]] = MappingProxyType(_by_name(agents))
        self.tools: Registry = Registry(tool for agent in agents for tool in agent.tools)
        self.script: object = script
        self._deps: Open | None = checked_deps(deps)

    def agent(self, name: str) -> Agent[Any]:
        """The agent of that name.

        Raises:
            NotFound: There is none.
        """
        if name not in self.agents:
            kind = "agent"
            raise NotFound(kind, name, hint=f"there are: {', '.join(self.agents)}")
        return self.agents[name]

    def tool(self, name: str) -> Tool[..., Any]:
        """The tool of that name.

        Raises:
            NotFound: There is none.
        """
        return self.tools.tool(name)

    def plus(self, agent: Agent[Any]) -> "App":
        """The same app with one more agent.

        Raises:
            DeclarationError: There is one of that name, or a tool of it is another one's namesake.
        """
        return App(*self.agents.values(), agent, deps=self._deps, script=self.script)

    @cached_property
    def specs(self) -> Mapping[str, AgentSpec]:
        """Every agent as data, by name; read once, after all hooks are declared."""
        return MappingProxyType({name: agent.spec() for name, agent in self.agents.items()})

    @asynccontextmanager
    async def open_deps(self) -> AsyncGenerator[Any]:
        """What tools get as ``ctx.deps``, open until the block ends; None without ``deps=``."""
        if self._deps is None:
            yield None
            return
        async with self._deps() as deps:
            yield deps


def _by_name(agents: Sequence[Agent[Any]]) -> dict[str, Agent[Any]]:
    result: dict[str, Agent[Any]] = {}
    for agent in agents:
        if result.setdefault(agent.name, agent) is not agent:
            message = f"two agents are named {agent.name!r}; rename one"
            raise DeclarationError(message)
    return result
