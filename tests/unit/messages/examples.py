"""One instance of every message, event and public body, with no field left at its default.

Built from the declared types, so a new field shows up here by itself, and deterministic, so the
bytes can be kept: see ``golden``.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import NODEFAULT, inspect

from messages import api, codec, task
from messages.events import AnyEvent
from messages.ledger import Entry

Struct = type[msgspec.Struct]

PUBLIC: dict[str, Struct] = {
    "task": task.Task,
    "task-accepted": task.Accepted,
    "task-refusal": task.Refusal,
    "task-result": task.Result,
    "api-error": api.ErrorReply,
    **{f"api-{verb}": body for verb, body in api.VERBS.items()},
}

FOREIGN: Any = {
    "text": "zwölf ✓",
    "count": 12,
    "share": 0.5,
    "list": [None, True, "x"],
    "nested": {},
}
"""Foreign JSON of every kind."""


def tag_of(cls: Struct) -> str:
    """The written tag, such as ``decide/1``."""
    return str(cls.__struct_config__.tag)


def everything() -> dict[str, Struct]:
    """Every class that is sent or stored on its own, by a name that can be a file's."""
    tagged = [*codec.wire_types(), *AnyEvent.__args__]
    named = {tag_of(cls).replace("/", "-"): cls for cls in tagged}
    return {**named, "entry": Entry, **PUBLIC}


def example(cls: Struct) -> Any:
    """The one instance of a class that its golden file holds."""
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    return _struct(info)


# ------------------------------------------------------------------ one of a type
def _struct(info: inspect.StructType) -> Any:
    return info.cls(**{field.name: _field(field) for field in info.fields})


def _field(field: inspect.Field) -> Any:
    value = _value(field.type, field.name)
    if value == field.default and isinstance(value, bool):
        return not value
    return value


def _value(info: inspect.Type, name: str) -> Any:
    match info:
        case inspect.StructType():
            return _struct(info)
        case inspect.UnionType(types=types):
            return _of_union(types, name)
        case inspect.VarTupleType(item_type=item):
            return (_value(item, name),)
        case inspect.ListType(item_type=item):
            return [_value(item, name)]
        case inspect.DictType(value_type=item):
            return {f"a-{name}": _value(item, name)}
        case inspect.LiteralType(values=values):
            return values[-1]
        case inspect.EnumType(cls=enum):
            return [*enum][-1]
        case _:
            return _leaf(info, name)


def _of_union(types: tuple[inspect.Type, ...], name: str) -> Any:
    """The first that is not None; of all events a short one."""
    members = [one for one in types if not isinstance(one, inspect.NoneType)]
    return _value(min(members, key=_size), name)


def _size(info: inspect.Type) -> int:
    return len(info.fields) if isinstance(info, inspect.StructType) else 0


def _leaf(info: inspect.Type, name: str) -> Any:
    number = 2 + sum(name.encode()) % 90
    match info:
        case inspect.StrType():
            return f"{name}-é"
        case inspect.BoolType():
            return True
        case inspect.IntType():
            return number
        case inspect.FloatType():
            return 1_790_000_000 + number + 0.25
        case inspect.BytesType():
            return bytes(range(0, 256, 17))
        case inspect.AnyType():
            return FOREIGN
        case _:
            raise AssertionError(f"{name}: the factory does not know {info}")


# ------------------------------------------------------------------ any of a type
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)

_LEAVES: dict[type[inspect.Type], Callable[[], st.SearchStrategy[Any]]] = {
    inspect.StrType: lambda: st.text(st.characters(codec="utf-8"), max_size=12),
    inspect.BoolType: st.booleans,
    inspect.IntType: lambda: st.integers(-(2**63), 2**63 - 1),
    inspect.FloatType: lambda: st.floats(allow_nan=False, allow_infinity=False),
    inspect.BytesType: lambda: st.binary(max_size=40),
    inspect.AnyType: lambda: json_values,
    inspect.NoneType: st.none,
}


def instances(cls: Struct) -> st.SearchStrategy[Any]:
    """Any instance of a class, defaults included."""
    return _any_of(inspect.type_info(cls))


def _any_of(info: inspect.Type) -> st.SearchStrategy[Any]:
    match info:
        case inspect.StructType(cls=cls, fields=fields):
            given = {f.name: _any_of(f.type) for f in fields if f.required}
            optional = {f.name: _any_of(f.type) for f in fields if not f.required}
            return st.fixed_dictionaries(given, optional=optional).map(lambda kw: cls(**kw))
        case inspect.UnionType(types=types):
            return st.one_of([_any_of(one) for one in types])
        case inspect.VarTupleType(item_type=item):
            return st.lists(_any_of(item), max_size=2).map(tuple)
        case inspect.ListType(item_type=item):
            return st.lists(_any_of(item), max_size=2)
        case inspect.DictType(value_type=item):
            return st.dictionaries(
                st.text(st.characters(codec="utf-8"), max_size=6), _any_of(item), max_size=2
            )
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.EnumType(cls=enum):
            return st.sampled_from([*enum])
        case _:
            return _LEAVES[type(info)]()


def has_default(cls: Struct, name: str) -> bool:
    """Whether a field may be left out."""
    fields = msgspec.structs.fields(cls)
    found = next(field for field in fields if field.name == name)
    return found.default is not NODEFAULT or found.default_factory is not NODEFAULT
