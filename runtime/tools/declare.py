"""``@read`` and ``@write``: a typed function becomes a tool.

The tool stays callable and keeps its parameters and result for the type checker, so a test calls it
directly and ``draft.results(issue_refund)`` is a ``list[Refund]``. The words that go with it (what
hooks are given and answer) are exported here too.
"""

import inspect
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Concatenate, Literal, NoReturn, ParamSpec, Protocol, TypeVar, overload

from runtime.tools.context import Ctx, Request
from runtime.tools.options import EachCall, each_call, read_options
from runtime.tools.ruling import Ruling, Unmet, allow, ask, deny
from runtime.tools.signature import Function
from runtime.tools.tool import RESERVED, AsyncTool, SyncTool, Tool, name_of

__all__ = [
    "RESERVED",
    "AsyncTool",
    "Ctx",
    "EachCall",
    "Request",
    "Ruling",
    "SyncTool",
    "Tool",
    "Unmet",
    "allow",
    "ask",
    "deny",
    "each_call",
    "read",
    "write",
]

P = ParamSpec("P")
R = TypeVar("R")


class Declare(Protocol):
    """What ``@read(...)`` and ``@write(...)`` return: a decorator of the function."""

    @overload
    def __call__(  # pyright: ignore[reportOverlappingOverload] -- an async def is the narrower one
        self, function: Callable[Concatenate[Ctx[Any], P], Coroutine[Any, Any, R]], /
    ) -> AsyncTool[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Ctx[Any], P], R], /) -> SyncTool[P, R]: ...


@overload
def read(  # pyright: ignore[reportOverlappingOverload] -- an async def is the narrower one
    function: Callable[Concatenate[Ctx[Any], P], Coroutine[Any, Any, R]], /
) -> AsyncTool[P, R]: ...
@overload
def read(function: Callable[Concatenate[Ctx[Any], P], R], /) -> SyncTool[P, R]: ...
@overload
def read(
    *,
    scope: str = "",
    source: str = "",
    timeout_s: float = 30.0,
    cache_s: float = 0.0,
    polling: bool = False,
) -> Declare: ...
def read(function: Function | None = None, /, **options: object) -> object:
    """Declare a tool that changes nothing.

    Args:
        function: The function, where the decorator is written without parentheses.
        **options: ``scope``: what a run must hold to use it. ``source``: the system that the
            answers come from, for their provenance. ``timeout_s``: deadline, all attempts
            together. ``cache_s``: how long a run may use an answer again, in seconds, instead of
            calling the tool with the same arguments; until it writes. ``polling``: asking the same
            again is no lack of progress.

    Raises:
        DeclarationError: The function or an option would not work; says what to write instead.
    """
    return _declare("read", function, options)


@overload
def write(
    *,
    key: str | EachCall,
    scope: str = "",
    source: str = "",
    timeout_s: float = 30.0,
    replay_for: timedelta | None = None,
    late_commit_s: float = 10.0,
) -> Declare: ...
@overload
def write(function: Function, /) -> NoReturn: ...
def write(function: Function | None = None, /, **options: object) -> object:
    """Declare a tool that has an effect.

    Args:
        function: Never given: a write needs at least a key.
        **options: ``key``: what makes two calls the same effect, such as
            ``"refund:{payment_id}:v1"``, or ``each_call``. ``replay_for``: how long the downstream
            honours that key, so that an unknown outcome may be settled by calling again; without
            it and without a ``lookup`` the tool is blind: it always needs approval and is never
            retried. ``late_commit_s``: how long the downstream may still commit after we gave up.
            ``scope``, ``source``, ``timeout_s``: as of ``read``.

    Raises:
        DeclarationError: The function or an option would not work; says what to write instead.
    """
    return _declare("write", function, options)


def _declare(
    kind: Literal["read", "write"], function: Function | None, given: dict[str, object]
) -> object:
    def declare(target: Function, /) -> Tool[..., Any]:
        options = read_options(kind, f"{kind} tool {name_of(target)!r}", given)
        is_async = inspect.iscoroutinefunction(target)
        return (AsyncTool if is_async else SyncTool)(target, kind, options)

    return declare if function is None else declare(function)
