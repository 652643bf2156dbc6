"""Keys of treadle.toml: what is known, of which type, and the nearest known one to a misspelling.

The schema is ``runtime.settings.Settings`` itself; nothing about a key is written twice.
"""

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, cast, get_args, get_origin

import msgspec

from messages.errors import ConfigError
from runtime.settings import Settings

Key = tuple[str, ...]
"""A key, split at its dots: ``("nats", "url")``."""

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Leaf(NamedTuple):
    """One value of one layer."""

    key: Key
    value: object
    origin: str
    """The layer: a file's path, a variable, a flag."""
    where: str
    """The place within the layer, for an error."""
    is_text: bool
    """Numbers and booleans arrive as text: from the environment and from flags."""


def dotted(key: Key) -> str:
    """``nats.url``."""
    return ".".join(key)


def flatten(value: object, key: Key = ()) -> Iterator[tuple[Key, object]]:
    """Every leaf below a table, and every empty table, since naming one makes it exist."""
    if isinstance(value, dict) and (value or not key):
        for name, inner in cast("dict[str, object]", value).items():
            yield from flatten(inner, (*key, name))
    else:
        yield key, value


def typed(leaf: Leaf) -> object:
    """The leaf's value as its key's type.

    Raises:
        ConfigError: Nobody knows the key, or the value has another type.
    """
    expected = _type_of(leaf)
    try:
        return msgspec.convert(leaf.value, expected, strict=not leaf.is_text)
    except msgspec.ValidationError as error:
        problem = str(error)
        if "usd" in leaf.key[-1]:
            problem = 'money is a string of dollars, as in "0.50"'
        raise ConfigError(leaf.where, problem) from error


def build(leaves: Iterable[Leaf]) -> Settings:
    """Put merged leaves together.

    Raises:
        ConfigError: See ``typed``.
    """
    root: dict[str, object] = {}
    for leaf in leaves:
        value = typed(leaf)
        table = root
        for part in leaf.key[:-1]:
            table = cast("dict[str, object]", table.setdefault(part, {}))
        if leaf.value == {}:
            table.setdefault(leaf.key[-1], {})
        else:
            table[leaf.key[-1]] = value
    return msgspec.convert(root, Settings)


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant, or nothing."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)), "")


def _type_of(leaf: Leaf) -> object:
    current: object = Settings
    for depth, part in enumerate(leaf.key):
        fields = _fields(current)
        if fields is not None:
            if part not in fields:
                raise ConfigError(
                    leaf.where, "unknown key", nearest=_nearest_key(leaf.key, depth, fields)
                )
            current = fields[part]
        elif get_origin(current) is dict:
            if not NAME.fullmatch(part):
                raise ConfigError(
                    leaf.where, f"{part!r} is no name; use 1 to 64 of A-Z a-z 0-9 _ -"
                )
            current = cast("object", get_args(current)[1])
        else:
            raise ConfigError(leaf.where, f"{dotted(leaf.key[:depth])} is a value, not a table")
    return current


def _fields(kind: object) -> dict[str, object] | None:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {field.name: cast("object", field.type) for field in msgspec.structs.fields(kind)}
    return None


def _nearest_key(key: Key, depth: int, siblings: Iterable[str]) -> str:
    """A sibling that reads alike, else a key of that name in another section."""
    sibling = nearest(key[depth], siblings)
    if sibling:
        return dotted((*key[:depth], sibling))
    elsewhere = {name: f"{section}.{name}" for section, name in _section_keys()}
    return elsewhere.get(nearest(key[-1], elsewhere), "")


def _section_keys() -> Iterator[tuple[str, str]]:
    for section, kind in (_fields(Settings) or {}).items():
        for name in _fields(kind) or {}:
            yield section, name
