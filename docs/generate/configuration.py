"""Settings and limits, read off their structs: keys, types, defaults, and what they mean."""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import inspect as types

from docs.generate.markdown import BY_HAND, codes, prose, sentence, table
from runtime import settings
from runtime.config import ENV_PREFIX, POLICY_FILE, SETTINGS_FILE

_INTRO: Final = (
    f"All keys of `{SETTINGS_FILE}`; every one has a default, and an unknown one is an error that"
    f" names the nearest known. `{ENV_PREFIX}<SECTION>__<KEY>` in the environment wins over the"
    " file, a flag over both. How to use them: [configure](../how-to/configure.md)."
)
_POLICY: Final = (
    f"Each table of `{POLICY_FILE}` is one limit that rules read with `req.limit(name)`; a name"
    ' with dots is quoted: `[limits."refund.auto_inr"]`.'
)
_HEADS: Final = ("key", "type", "default", "meaning")
Place = tuple[str, ...]


def configuration_page() -> str:
    """One table for each section, and that of policy.toml."""
    lines = ["# Configuration", "", BY_HAND, "", _INTRO]
    for field in msgspec.structs.fields(settings.Settings):
        lines += _section((field.name,), types.type_info(field.type))
    lines += ["", f"## {POLICY_FILE}", "", _POLICY, "", *_rows(settings.Limit, ("limits", "NAME"))]
    return "\n".join([*lines, ""])


def _section(place: Place, kind: types.Type) -> Iterator[str]:
    """A table of the file; where it is a table of tables, each goes by a name."""
    if isinstance(kind, types.DictType):
        place, kind = (*place, "NAME"), kind.value_type
    if not isinstance(kind, types.StructType):
        raise TypeError(f"{'.'.join(place)} is no table")
    yield from ("", f"## [{'.'.join(place)}]", "", sentence(kind.cls), "")
    yield from _rows(kind.cls, place)
    for field in kind.fields:
        if _is_table(field.type):
            yield from _section((*place, field.name), field.type)


def _is_table(kind: types.Type) -> bool:
    inner = kind.value_type if isinstance(kind, types.DictType) else kind
    return isinstance(inner, types.StructType)


def _rows(cls: type[Any], place: Place) -> Iterator[str]:
    meanings = _meanings()[cls.__name__]
    fields = [
        field for field in msgspec.structs.fields(cls) if not _is_table(types.type_info(field.type))
    ]
    rows = (
        (
            f"`{'.'.join((*place, field.name))}`",
            _type(types.type_info(field.type)),
            _default(field.default),
            meanings.get(field.name, ""),
        )
        for field in fields
    )
    if fields:
        yield from table(_HEADS, rows)


def _default(value: object) -> str:
    match value:
        case msgspec.NODEFAULT:
            return "has to be said"
        case None:
            return "not set"
        case str():
            return f'`"{value}"`'
        case tuple():
            return "`[]`"
        case bool():
            return f"`{str(value).lower()}`"
        case _:
            return f"`{value}`"


def _type(kind: types.Type) -> str:
    match kind:
        case types.UnionType():
            return " or ".join(_type(one) for one in kind.types if one != types.NoneType())
        case types.LiteralType():
            return " or ".join(codes(f'"{value}"' for value in kind.values).split(", "))
        case types.VarTupleType() | types.ListType():
            return f"list of {_type(kind.item_type)}"
        case types.IntType():
            return f"integer{_bounds(kind)}"
        case types.FloatType():
            return f"number{_bounds(kind)}"
        case types.BoolType():
            return "boolean"
        case _:
            return "text"


def _bounds(kind: types.IntType | types.FloatType) -> str:
    words = [
        word.format(f"{bound:g}")
        for word, bound in (("> {}", kind.gt), ("at least {}", kind.ge), ("at most {}", kind.le))
        if bound is not None
    ]
    return f", {', '.join(words)}" if words else ""


@cache
def _meanings() -> dict[str, dict[str, str]]:
    """What stands below each attribute, by class."""
    module = ast.parse(inspect.getsource(settings))
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    return {one.name: dict(_documented(one)) for one in classes}


def _documented(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for attribute, below in zip(node.body, node.body[1:], strict=False):
        match attribute, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, prose(text)
            case _:
                pass
