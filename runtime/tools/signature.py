"""The signature of a user's function: its parameters, or why it cannot be a tool or a hook."""

import inspect
import typing
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

from messages.errors import DeclarationError
from runtime.tools.context import Ctx, Request
from runtime.tools.schema import REQUIRED, Field

Function = Callable[..., Any]

_NAMED = frozenset({inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY})

_FIRST = frozenset({inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY})


class Signature(NamedTuple):
    """What a function takes after its context, and what it returns."""

    fields: dict[str, Field]
    returns: object
    is_async: bool


def read_signature(
    function: object, what: str, given: type[Ctx[Any]] | type[Request] = Ctx
) -> Signature:
    """Read a tool's or a hook's signature.

    Args:
        function: What was decorated.
        what: How messages name it, such as ``tool 'issue_refund'``.
        given: What its first parameter must be: ``Ctx`` or ``Request``.

    Raises:
        DeclarationError: It is no plain function, does not take ``given`` first, or has a
            parameter that is untyped, starred or positional-only.
    """
    if not inspect.isfunction(function):
        message = f"{what} must be a plain function: put the decorator directly above a def"
        raise DeclarationError(message)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        message = f"{what} yields; return one value, such as a list of the items"
        raise DeclarationError(message)
    parameters = list(inspect.signature(function).parameters.values())
    _check_given(function, parameters[:1], what, given)
    fields = {each.name: _field(function, each, what) for each in parameters[1:]}
    returns = function.__annotations__.get("return", Any)
    return Signature(
        fields,
        _resolve(function, "return", returns, f"{what}, its result"),
        inspect.iscoroutinefunction(function),
    )


def check_same_parameters(hook: Signature, tool: Signature, what: str, given: str) -> None:
    """Refuse a hook that could not be called with the tool's arguments.

    Raises:
        DeclarationError: Names, order or types differ; shows the signature to write.
    """
    wanted = {name: field.kind for name, field in tool.fields.items()}
    found = {name: field.kind for name, field in hook.fields.items()}
    if list(wanted.items()) != list(found.items()):
        shown = ", ".join([given, *(f"{name}: {named(kind)}" for name, kind in wanted.items())])
        message = f"{what} must take the tool's parameters: ({shown})"
        raise DeclarationError(message)


def named(kind: object) -> str:
    """A type as a person would write it."""
    return kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)


def _check_given(
    function: Function,
    first: list[inspect.Parameter],
    what: str,
    given: type[Ctx[Any]] | type[Request],
) -> None:
    example = "ctx: Ctx[Shop]" if given is Ctx else "req: Request"
    annotation = first[0].annotation if first else None
    if isinstance(annotation, str):
        # Deps are often imported for the type checker only; then the name alone must do.
        is_given = annotation.split("[")[0].split(".")[-1] == given.__name__
    else:
        is_given = annotation is given or typing.get_origin(annotation) is given
    if not is_given or first[0].kind not in _FIRST:
        message = f"{what} must take {example} first: def {function.__name__}({example}, ...)"
        raise DeclarationError(message)


def _field(function: Function, parameter: inspect.Parameter, what: str) -> Field:
    name = parameter.name
    if parameter.kind not in _NAMED:
        message = (
            f"{what}, parameter {name!r}: *args, **kwargs and positional-only parameters have no "
            "names a model could use; write each parameter out, such as order_id: str"
        )
        raise DeclarationError(message)
    if parameter.annotation is inspect.Parameter.empty:
        message = f"{what}, parameter {name!r} is untyped: write {name}: str, or what it is"
        raise DeclarationError(message)
    kind = _resolve(function, name, parameter.annotation, f"{what}, parameter {name!r}")
    if kind is Any or kind is object:
        message = (
            f"{what}, parameter {name!r}: {named(kind)} says nothing to check; write {name}: str, "
            "or what it is"
        )
        raise DeclarationError(message)
    default = parameter.default
    return Field(kind, REQUIRED if default is inspect.Parameter.empty else default)


def _resolve(function: Function, name: str, annotation: object, what: str) -> object:
    holder = SimpleNamespace(__annotations__={name: annotation})
    namespace = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return typing.get_type_hints(holder, globalns=namespace, include_extras=True)[name]
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        message = (
            f"{what}: the type {annotation!r} cannot be found at run time ({error}); import it "
            "outside TYPE_CHECKING and define it at module level"
        )
        raise DeclarationError(message) from error
