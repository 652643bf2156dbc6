"""Types of the user's code as JSON schema, and strict decoding of what the model sends.

``Shape`` is one type, ``Parameters`` a tool's arguments. Both answer with the decoded value *and*
that value encoded again: the second is what is hashed, shown to an approver, granted and run, so
``{"amount": 5, "amount": 99}`` cannot be approved as one thing and run as the other.

msgspec does the decoding; what it lets through is in ``runtime.tools.strict``. The schema is sent
to the model with every ``$ref`` expanded, since providers want ``type: object`` at the root and a
schema inside another one (``finish(output)``) cannot carry definitions of its own.
"""

import copy
from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar, cast

import msgspec

from messages.errors import DeclarationError
from messages.parts import Arguments, JsonValue, Problem
from runtime.tools.clean import clean
from runtime.tools.strict import closed, first_misfit, is_array, is_object, is_settled

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Schema = dict[str, JsonValue]

_REF = "#/$defs/"


class _Required:
    """No default."""


REQUIRED = _Required()


class Field(NamedTuple):
    """One parameter: its annotation and its default."""

    kind: object
    default: object = REQUIRED


class Decoded(NamedTuple, Generic[T_co]):
    """A value that fits its type.

    Attributes:
        value: What user code gets.
        canonical: The same encoded again: what is hashed, shown and kept.
    """

    value: T_co
    canonical: JsonValue


class Shape(Generic[T]):
    """One type of the user's code and its JSON."""

    schema: Schema
    """JSON schema without references; objects refuse unknown fields."""

    def __init__(self, kind: type[T], what: str, *, is_closed: bool = False) -> None:
        """Read the type.

        Args:
            kind: Anything msgspec can decode: builtins, structs, dataclasses, TypedDicts, unions.
            what: How messages name it, such as ``tool 'issue_refund', parameter 'amount'``.
            is_closed: The type itself refuses unknown fields; those inside may not.

        Raises:
            DeclarationError: It cannot be described or decoded.
        """
        self._kind = kind
        self.schema = describe(kind, what)
        fields = self.schema.get("properties", {}).values() if is_closed else [self.schema]
        self._is_checked = not all(is_settled(field) for field in fields)

    def decode(self, value: JsonValue, code: str = "BAD_ARGUMENTS") -> Decoded[T] | Problem:
        """Decode strictly: no unknown field, no coercion, no value that JSON cannot carry.

        Args:
            value: JSON from a model or from the record.
            code: Code of the problem.

        Returns:
            The decoded value, or the first thing wrong with it, with its JSON path.
        """
        cleaned = clean(value)
        if isinstance(cleaned, Problem):
            return Problem(code=code, message=cleaned.message)
        if cleaned.notes:
            return Problem(code=code, message=f"not plain JSON: {'; '.join(cleaned.notes)}")
        try:
            decoded = msgspec.convert(cleaned.value, self._kind, strict=True, str_keys=True)
        except msgspec.ValidationError as error:
            return Problem(code=code, message=_with_path(str(error)))
        if self._is_checked and (misfit := first_misfit(self.schema, cleaned.value)) is not None:
            return Problem(code=code, message=misfit)
        return Decoded(decoded, encode(decoded))


def encode(value: object) -> JsonValue:
    """A decoded value as JSON, sets and mappings in an order that every process agrees on."""
    return msgspec.to_builtins(value, str_keys=True, order="deterministic")


class Parameters:
    """The arguments of one tool, decoded as one object."""

    names: tuple[str, ...]
    schema: Schema

    def __init__(self, tool: str, fields: Mapping[str, Field]) -> None:
        """Read the parameters.

        Args:
            tool: Its name, for messages.
            fields: Type and default by name.

        Raises:
            DeclarationError: A type cannot be described or decoded, or a default does not fit.
        """
        for name, field in fields.items():
            describe(field.kind, f"tool {tool!r}, parameter {name!r}")
        self.names = tuple(fields)
        self._shape = Shape(_struct(tool, fields), f"tool {tool!r}", is_closed=True)
        self.schema = self._shape.schema

    def decode(self, arguments: JsonValue) -> Decoded[dict[str, object]] | Problem:
        """Arguments for the function by name, defaults filled in; or what is wrong with them."""
        decoded = self._shape.decode(arguments)
        if isinstance(decoded, Problem):
            return decoded
        values = {name: getattr(decoded.value, name) for name in self.names}
        return Decoded(values, cast("Arguments", decoded.canonical))


def describe(kind: object, what: str) -> Schema:
    """JSON schema of a type, all references expanded, objects closed.

    Raises:
        DeclarationError: It cannot be described; says what to use instead.
    """
    try:
        (root,), definitions = msgspec.json.schema_components([kind], ref_template=_REF + "{name}")
        return closed(_expand(root, definitions, ()))
    except _RecursiveTypeError as error:
        message = f"{what}: type {error} contains itself; use a flat type, such as a list of items"
        raise DeclarationError(message) from None
    except (TypeError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        message = (
            f"{what}: {_named(kind)} has no JSON schema ({reason}); use str, int, float, bool, "
            "list, dict, date, a Literal, an Enum, a msgspec.Struct, a dataclass or a TypedDict"
        )
        raise DeclarationError(message) from error


class _RecursiveTypeError(Exception):
    """A type contains itself."""


def _expand(
    schema: JsonValue, definitions: Mapping[str, Schema], inside: tuple[str, ...]
) -> Schema:
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith(_REF):
        name = reference.removeprefix(_REF)
        if name in inside:
            raise _RecursiveTypeError(name)
        return {
            **_expand(definitions[name], definitions, (*inside, name)),
            **{key: text for key, text in schema.items() if key == "description"},
        }
    return {key: _expanded(value, definitions, inside) for key, value in schema.items()}


def _expanded(
    value: JsonValue, definitions: Mapping[str, Schema], inside: tuple[str, ...]
) -> JsonValue:
    if is_object(value):
        return _expand(value, definitions, inside)
    if is_array(value):
        return [_expanded(item, definitions, inside) for item in value]
    return value


def _struct(tool: str, fields: Mapping[str, Field]) -> type[msgspec.Struct]:
    for name, field in fields.items():
        _check_default(f"tool {tool!r}, parameter {name!r}", field)
    return msgspec.defstruct(
        tool,
        [_entry(name, field) for name, field in fields.items()],
        forbid_unknown_fields=True,
        kw_only=True,
    )


def _entry(name: str, field: Field) -> tuple[str, type] | tuple[str, type, object]:
    kind = cast("type", field.kind)
    if field.default is REQUIRED:
        return (name, kind)
    default = field.default
    return (name, kind, msgspec.field(default_factory=lambda: copy.deepcopy(default)))


def _check_default(what: str, field: Field) -> None:
    if field.default is REQUIRED:
        return
    try:
        msgspec.convert(encode(field.default), cast("type", field.kind), str_keys=True)
    except (TypeError, ValueError) as error:
        message = f"{what}: its default {field.default!r:.60} does not fit {_named(field.kind)}"
        raise DeclarationError(message, hint=str(error)) from error


def _with_path(message: str) -> str:
    return message if "`$" in message else f"{message} - at `$`"


def _named(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
