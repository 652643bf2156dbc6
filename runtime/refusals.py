"""What the declaration of an agent or an app is refused for, in words that say what to write."""

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any, cast, get_args

from messages.agent import ModelRole
from messages.errors import DeclarationError
from runtime.loop.strategies.loop import OURS
from runtime.tools.tool import Tool

Open = Callable[[], AbstractAsyncContextManager[Any]]
"""``deps=`` of an app: opens what tools work with, and closes it again."""

_OUR_HOME = "runtime.tools.memory"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CHOICES = {
    "on_policy_deny": ("end", "tell"),
    "on_expired_approval": ("tell", "needs_input"),
}
_COUNTS = (
    *("max_output_tokens", "window_tokens", "keep_turns"),
    *("max_consecutive_errors", "max_tool_errors", "max_corrections"),
)
_SPANS = {"approval_ttl": None, "max_wait": timedelta(days=366)}
"""Options that are a stretch of time, and the longest; a date must be able to show its end."""


def positive(owner: str, name: str, value: object, kind: type[int] | type[float]) -> None:
    """Refuse what is no positive number.

    Raises:
        DeclarationError: ``value`` is no number of that kind, or not above 0.
    """
    kinds = (int, float) if kind is float else int
    if isinstance(value, bool) or not isinstance(value, kinds) or not value > 0:
        unit = "a positive whole number" if kind is int else "a positive number"
        message = f"{owner}: {name}= is {unit}, not {value!r:.60}"
        raise DeclarationError(message)


def checked_name(kind: str, name: object) -> str:
    """The name of an agent or a group.

    Raises:
        DeclarationError: It is no identifier.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        message = f"{kind} {name!r:.80}: use 1 to 64 of the characters A-Z a-z 0-9 _ -"
        raise DeclarationError(message)
    return name


def checked_text(what: str, name: str, value: object) -> str:
    """Text that must be there.

    Raises:
        DeclarationError: It is empty or no text.
    """
    if not isinstance(value, str) or not value.strip():
        message = f"{what} needs {name}= as text"
        raise DeclarationError(message)
    return value


def checked_tools(what: str, tools: Sequence[object]) -> tuple[Tool[..., Any], ...]:
    """The tools of an agent.

    Raises:
        DeclarationError: One is not declared as a tool, or two have one name.
    """
    result: dict[str, Tool[..., Any]] = {}
    for tool in tools:
        if not isinstance(tool, Tool):
            name = str(getattr(tool, "__name__", repr(tool)))
            message = f"{what}: {name:.80} is no tool; put @read or @write above it"
            raise DeclarationError(message)
        if tool.name in result:
            message = f"{what} has two tools named {tool.name!r}; rename or drop one"
            raise DeclarationError(message)
        if tool.name in OURS and tool.__module__ != _OUR_HOME:
            message = f"{what}: {tool.name!r} is the name of a tool of treadle.memory; rename yours"
            raise DeclarationError(message)
        result[tool.name] = tool
    return tuple(result.values())


def check_options(what: str, options: Mapping[str, object], known: Iterable[str]) -> None:
    """Refuse what an agent may not say.

    Raises:
        DeclarationError: An unknown option, or a value it cannot have.
    """
    for name, value in options.items():
        if name not in known:
            nearest = difflib.get_close_matches(name, [*known, "output", "tools"], n=1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
            message = f"{what} has no option {name!r}{hint}"
            raise DeclarationError(message)
        _check_option(what, name, value)


def _check_option(what: str, name: str, value: object) -> None:
    if name in _COUNTS:
        positive(what, name, value, int)
    elif name in _CHOICES and value not in _CHOICES[name]:
        message = f"{what}: {name}= is one of {', '.join(_CHOICES[name])}, not {value!r:.60}"
        raise DeclarationError(message)
    elif name == "models":
        _check_models(what, value)
    elif name == "escalate_to" and value is not None:
        checked_name(f"{what}: escalate_to= is a group, not", value)
    elif name in _SPANS:
        _check_span(what, name, value)
    elif name in {"budget", "progress"} and type(value).__name__ != name.capitalize():
        message = f"{what}: {name}= is {name.capitalize()}(...), not {value!r:.60}"
        raise DeclarationError(message)


def _check_span(what: str, name: str, value: object) -> None:
    longest = _SPANS[name]
    if not isinstance(value, timedelta) or value <= timedelta():
        message = f"{what}: {name}= is a positive timedelta, not {value!r:.60}"
        raise DeclarationError(message)
    if longest is not None and value > longest:
        message = f"{what}: {name}= is at most {longest.days} days, not {value!r:.60}"
        raise DeclarationError(message)


def _check_models(what: str, value: object) -> None:
    roles = get_args(ModelRole)
    if not isinstance(value, Mapping):
        message = f"{what}: models= is a model by role, as in models={{{roles[0]!r}: 'claude-…'}}"
        raise DeclarationError(message)
    for role, model in cast("Mapping[object, object]", value).items():
        if role not in roles:
            message = f"{what}: models= has no role {role!r:.60}; there is {', '.join(roles)}"
            raise DeclarationError(message)
        checked_text(f"{what}, models=", str(role), model)


def checked_deps(deps: Open | None) -> Open | None:
    """``deps=`` of an app.

    Raises:
        DeclarationError: It is no function that returns an async context manager.
    """
    if deps is None:
        return None
    if inspect.isasyncgenfunction(deps) or inspect.isgeneratorfunction(deps):
        message = f"deps={deps.__name__}: put @asynccontextmanager above it"
        raise DeclarationError(message)
    if not callable(deps) or inspect.iscoroutinefunction(deps):
        message = (
            "deps= is a function without parameters that returns an async context manager: put "
            "@asynccontextmanager above an async def that yields what tools need"
        )
        raise DeclarationError(message)
    return deps
