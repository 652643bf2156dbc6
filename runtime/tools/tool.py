"""``Tool``: a declared tool, its hooks, and what makes a declaration refused.

Everything that can be known at import time is checked at import time, with a message that says what
to write instead: a tool that imports is a tool the model can be offered.
"""

import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar

import msgspec

from messages.agent import ToolSpec
from messages.errors import DeclarationError
from messages.parts import JsonValue, Problem
from runtime.loop.keys import BadTemplate, parse_template
from runtime.loop.strategies.loop import CONTROL_TOOLS
from runtime.tools.context import Ctx, Request
from runtime.tools.options import Options
from runtime.tools.ruling import Ruling, Unmet
from runtime.tools.schema import Decoded, Parameters, describe
from runtime.tools.signature import Function, Signature, check_same_parameters, read_signature

P = ParamSpec("P")
R = TypeVar("R")

RESERVED = frozenset(CONTROL_TOOLS)
"""Names of the model's control tools."""

_NAME_LIMIT = 64
_KEY_TYPES = frozenset({"string", "integer", "boolean", "null"})

Rule = Callable[Concatenate[Request, P], Ruling]
Precondition = Callable[Concatenate[Ctx[Any], P], Awaitable[Unmet | None] | Unmet | None]
Lookup = Callable[Concatenate[Ctx[Any], P], Awaitable[R | None] | R | None]


class Tool(Generic[P, R]):
    """A declared tool: callable as the function it was, and described as data.

    Attributes:
        name: The function's name, which the model uses.
        kind: ``read`` or ``write``.
        description: The docstring, for the model.
        function: What runs.
        parameters: Its arguments: JSON schema and strict decoder.
        options: What the decorator was given.
        rule_hook: What ``.rule`` decorated, if anything; so the other two.
    """

    def __init__(
        self, function: Function, kind: Literal["read", "write"], options: Options
    ) -> None:
        """Declared through ``@read`` and ``@write``, which check the options.

        Raises:
            DeclarationError: Name, docstring, signature or key would not work.
        """
        self.kind: Literal["read", "write"] = kind
        self.name: str = _checked_name(function)
        self.description: str = _checked_doc(function, self.what)
        self.function: Function = function
        self.signature: Signature = read_signature(function, self.what)
        self.parameters: Parameters = Parameters(self.name, self.signature.fields)
        self.options: Options = options
        self.rule_hook: Callable[..., Ruling] | None = None
        self.precondition_hook: Function | None = None
        self.lookup_hook: Function | None = None
        self._spec: ToolSpec | None = None
        _check_result(self.signature.returns, self.what)
        _check_key(self)
        self.__doc__ = function.__doc__
        self.__name__: str = self.name
        self.__module__ = function.__module__
        self.__wrapped__: Function = function

    def __repr__(self) -> str:
        return f"<{self.what}>"

    @property
    def what(self) -> str:
        """How messages name it."""
        return f"{self.kind} tool {self.name!r}"

    def rule(self, hook: "Rule[P]", /) -> "Rule[P]":
        """Decorate the rule that decides whether a call may run: pure, no I/O.

        Raises:
            DeclarationError: Its parameters are not the tool's, it is async, or there is one.
        """
        signature = self._accept("rule", hook, self.rule_hook, Request, "req: Request")
        if signature.is_async:
            message = f"rule of {self.what} must be a plain def: a rule does no I/O"
            raise DeclarationError(message)
        self.rule_hook = hook
        return hook

    def precondition(self, hook: "Precondition[P]", /) -> "Precondition[P]":
        """Decorate what must hold before a person is asked and again before a write runs.

        Raises:
            DeclarationError: Its parameters are not the tool's, there is one, or this is a read.
        """
        if self.kind == "read":
            message = f"{self.what} takes no precondition: check it inside, and raise Correctable"
            raise DeclarationError(message)
        self._accept("precondition", hook, self.precondition_hook, Ctx, "ctx: Ctx[...]")
        self.precondition_hook = hook
        return hook

    def lookup(self, hook: "Lookup[P, R]", /) -> "Lookup[P, R]":
        """Decorate how to find out, after a lost reply, whether a write happened.

        Raises:
            DeclarationError: Its parameters are not the tool's, there is one, this is a read, or
                the tool returns None, which a lookup could not tell from "not there".
        """
        if self.kind == "read":
            message = f"{self.what} takes no lookup: a read has no effect to look for; read again"
            raise DeclarationError(message)
        if self.signature.returns in {None, type(None)}:
            message = (
                f"{self.what} returns None, which a lookup uses for 'not there': return what was "
                "done, such as its id"
            )
            raise DeclarationError(message)
        self._accept("lookup", hook, self.lookup_hook, Ctx, "ctx: Ctx[...]")
        self.lookup_hook = hook
        return hook

    def _accept(
        self,
        role: str,
        hook: Function,
        existing: Function | None,
        given: type[Ctx[Any]] | type[Request],
        example: str,
    ) -> Signature:
        what = f"{role} of {self.what}"
        if existing is not None:
            message = f"{what}: there is one already, {existing.__name__!r}; keep one of them"
            raise DeclarationError(message)
        self._spec = None
        signature = read_signature(hook, what, given)
        check_same_parameters(signature, self.signature, what, example)
        return signature

    def decode(self, arguments: JsonValue) -> Decoded[dict[str, object]] | Problem:
        """Arguments of a call, decoded strictly; or what is wrong with them."""
        return self.parameters.decode(arguments)

    def decode_result(self, payload: JsonValue) -> R:
        """A recorded result as the type the tool returns.

        Raises:
            ValueError: It does not fit that type, as after a change of the type.
        """
        try:
            kind: type[R] = self.signature.returns  # pyright: ignore[reportAssignmentType]
            return msgspec.convert(payload, kind, strict=True, str_keys=True)
        except msgspec.ValidationError as error:
            message = f"a recorded result of {self.what} is not what it returns: {error}"
            raise ValueError(message) from error

    def spec(self) -> ToolSpec:
        """The tool as data; made once, and again after a hook was added."""
        if self._spec is None:
            self._spec = self._described()
        return self._spec

    def _described(self) -> ToolSpec:
        options = self.options
        return ToolSpec(
            name=self.name,
            description=self.description,
            kind=self.kind,
            parameters=self.parameters.schema,
            scope=options.scope,
            source=options.source or self.name,
            key=options.key,
            is_each_call=options.is_each_call,
            replay_for_s=options.replay_for_s,
            has_lookup=self.lookup_hook is not None,
            has_precondition=self.precondition_hook is not None,
            has_rule=self.rule_hook is not None,
            timeout_s=options.timeout_s,
            late_commit_s=options.late_commit_s,
            is_polling=options.polling,
            cache_s=options.cache_s,
        )


class AsyncTool(Tool[P, R]):
    """A tool declared with ``async def``."""

    def __call__(self, ctx: Ctx[Any], *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Call the function itself: no key, no grant, no record; for tests."""
        return self.function(ctx, *args, **kwargs)


class SyncTool(Tool[P, R]):
    """A tool declared with ``def``; it runs in a worker thread."""

    def __call__(self, ctx: Ctx[Any], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself: no key, no grant, no record; for tests."""
        return self.function(ctx, *args, **kwargs)


def name_of(function: object) -> str:
    """A function's name, or whatever somebody decorated instead, for messages."""
    return str(getattr(function, "__name__", function))


def _checked_name(function: Function) -> str:
    name = name_of(function)
    if not (name.isascii() and name.isidentifier() and len(name) <= _NAME_LIMIT):
        message = (
            f"tool {name[:80]!r}: a tool's name is 1 to 64 ASCII letters, digits and _; use def"
        )
        raise DeclarationError(message)
    if name in RESERVED:
        message = (
            f"tool {name!r}: the name is one of the model's own tools; call it {name}_order, say"
        )
        raise DeclarationError(message)
    return name


def _checked_doc(function: Function, what: str) -> str:
    text = inspect.cleandoc(function.__doc__ or "")
    if not text:
        message = (
            f"{what} has no docstring, and the model would not know what it does: add one, such "
            'as """Read one order with its payments."""'
        )
        raise DeclarationError(message)
    return text


def _check_result(kind: object, what: str) -> None:
    if kind is not Any and kind is not object:
        describe(kind, f"{what}, its result")


def _check_key(tool: Tool[..., Any]) -> None:
    template = tool.options.key
    if template is None:
        return
    what = f"{tool.what}, key {template[:100]!r}"
    try:
        parsed = parse_template(template)
    except BadTemplate as error:
        message = f"{what}: {error}"
        raise DeclarationError(message) from None
    names = tool.parameters.names
    for hole in parsed.holes:
        if hole.parameter not in names:
            known = ", ".join(names) or "none"
            message = f"{what} names {hole.parameter!r}, which is no parameter; there are: {known}"
            raise DeclarationError(message)
        kinds = _json_types(tool.parameters.schema["properties"][hole.parameter])
        if not hole.is_hashed and not kinds <= _KEY_TYPES:
            message = (
                f"{what}: {hole.parameter!r} is no text or whole number; write "
                f"{{{hole.parameter}|sha256}}"
            )
            raise DeclarationError(message)


def _json_types(schema: dict[str, JsonValue]) -> set[str]:
    if "anyOf" in schema:
        return {kind for each in schema["anyOf"] for kind in _json_types(each)}
    return {schema.get("type", "string")}
