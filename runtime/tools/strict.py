r"""What msgspec lets through and we do not.

Two things, both checked against the JSON schema, since only the schema reaches into nested types
of the user's code:

* Python's ``$`` also matches before a final newline, so ``^ORD-[0-9]+$`` accepts ``"ORD-1\n"``: a
  second spelling, and so a second idempotency key, of one order. Here ``$`` means the end; the
  schema sent to the model keeps ``$``, which in JSON schema means just that.
* A nested struct drops unknown fields without a word. The model asked for something that nobody
  would do, so it is told.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import TypeGuard

from messages.parts import JsonValue

Schema = dict[str, JsonValue]

_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}

_SCALARS = frozenset(_JSON_TYPES) - {"object", "array"}

_DROPPED = frozenset({"title", "discriminator"})
"""Names of classes, and OpenAPI's way of pointing to definitions, which are expanded here."""


def is_object(value: JsonValue) -> TypeGuard[dict[str, JsonValue]]:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


def is_array(value: JsonValue) -> TypeGuard[list[JsonValue]]:
    """Whether a JSON value is an array."""
    return isinstance(value, list)


def closed(schema: Schema) -> Schema:
    """``schema`` with every object refusing unknown fields, and without what nobody reads."""
    result = {
        key: _closed_under(key, value) for key, value in schema.items() if key not in _DROPPED
    }
    if "properties" in result:
        result.setdefault("additionalProperties", False)
    return result


def _closed_under(key: str, value: JsonValue) -> JsonValue:
    if key == "properties":
        return {name: closed(each) for name, each in value.items()}
    if key in {"anyOf", "prefixItems"}:
        return [closed(each) for each in value]
    if key in {"items", "additionalProperties"} and is_object(value):
        return closed(value)
    return value


def is_settled(schema: Schema) -> bool:
    """Whether msgspec alone decides what fits: a scalar without a pattern."""
    if "anyOf" in schema:
        return all(is_settled(each) for each in schema["anyOf"])
    return "pattern" not in schema and schema.get("type") in _SCALARS


def first_misfit(schema: Schema, value: JsonValue, path: str = "$") -> str | None:
    """The first place where ``value``, which msgspec accepted, still does not fit; or None."""
    if "anyOf" in schema:
        return _misfit_of_union(schema["anyOf"], value, path)
    if isinstance(value, str):
        return _misfit_of_text(schema, value, path)
    if is_object(value):
        misfit = _misfit_of_names(schema, value, path)
        if misfit is not None:
            return misfit
    for name, part_schema, part in _parts(schema, value):
        misfit = first_misfit(part_schema, part, path + name)
        if misfit is not None:
            return misfit
    return None


def _misfit_of_union(members: list[Schema], value: JsonValue, path: str) -> str | None:
    found = [first_misfit(each, value, path) for each in members if _may_be(each, value)]
    return None if None in found or not found else found[0]


def _misfit_of_names(schema: Schema, value: dict[str, JsonValue], path: str) -> str | None:
    unknown = _unknown_field(schema, value)
    if unknown is not None:
        return f"Object contains unknown field `{unknown}` - at `{path}`"
    names = schema.get("propertyNames")
    found = [_misfit_of_text(names, name, f"a key of {path}") for name in value if names]
    return next((misfit for misfit in found if misfit), None)


def _misfit_of_text(schema: Schema, value: str, path: str) -> str | None:
    pattern = schema.get("pattern")
    if pattern is None or _compiled(pattern).search(value):
        return None
    return f"Expected `str` matching regex {pattern!r} - at `{path}`"


def _unknown_field(schema: Schema, value: dict[str, JsonValue]) -> str | None:
    if schema.get("additionalProperties") is not False:
        return None
    return next((name for name in value if name not in schema["properties"]), None)


def _parts(schema: Schema, value: JsonValue) -> Iterator[tuple[str, Schema, JsonValue]]:
    if is_object(value):
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, part in value.items():
            part_schema = known.get(name, others)
            if is_object(part_schema):
                yield f".{name}", part_schema, part
    elif is_array(value):
        first, others = schema.get("prefixItems", []), schema.get("items")
        for index, part in enumerate(value):
            part_schema = first[index] if index < len(first) else others
            if is_object(part_schema):
                yield f"[{index}]", part_schema, part


def _may_be(schema: Schema, value: JsonValue) -> bool:
    """Whether this member of a union can be the one that msgspec chose."""
    if "enum" in schema and value not in schema["enum"]:
        return False
    kinds = _JSON_TYPES.get(schema.get("type", ""))
    if kinds is not None and not isinstance(value, kinds):
        return False
    if not is_object(value):
        return True
    tags = {
        name: each["enum"] for name, each in schema.get("properties", {}).items() if "enum" in each
    }
    return all(value[name] in allowed for name, allowed in tags.items() if name in value)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(local_pattern(pattern))


def local_pattern(pattern: str) -> str:
    r"""``pattern`` with every ``$`` that is an anchor written as ``\Z``."""
    result: list[str] = []
    is_escaped, class_start = False, -1
    for index, char in enumerate(pattern):
        is_inside = class_start >= 0
        result.append(r"\Z" if char == "$" and not is_escaped and not is_inside else char)
        if is_escaped:
            is_escaped = False
        elif char == "\\":
            is_escaped = True
        elif char == "[" and not is_inside:
            # A "]" right after "[" or "[^" is a character, not the end.
            class_start = index + (2 if pattern[index + 1 : index + 2] == "^" else 1)
        elif char == "]" and is_inside and index > class_start:
            class_start = -1
    return "".join(result)
