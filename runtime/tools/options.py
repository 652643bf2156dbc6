"""The options of ``@read`` and ``@write``, checked at import time."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from messages.base import Part
from messages.errors import DeclarationError

DEFAULT_TIMEOUT_S = 30.0
DEFAULT_LATE_COMMIT_S = 10.0
MAX_TIMEOUT_S = 3600.0


class EachCall:
    """``key=each_call``: every accepted call is its own effect."""

    def __repr__(self) -> str:
        return "each_call"


each_call: Final = EachCall()
"""The key of a write of which every accepted call is its own effect, such as a chat message."""


class Options(Part, frozen=True, kw_only=True):
    """What a decorator was given; defaults where it said nothing."""

    scope: str = ""
    source: str = ""
    timeout_s: float = DEFAULT_TIMEOUT_S
    cache_s: float = 0.0
    polling: bool = False
    key: str | None = None
    is_each_call: bool = False
    replay_for_s: float | None = None
    late_commit_s: float = DEFAULT_LATE_COMMIT_S


_SHARED = ("scope", "source", "timeout_s")
_TAKES = {
    "read": (*_SHARED, "cache_s", "polling"),
    "write": (*_SHARED, "key", "replay_for", "late_commit_s"),
}
_INSTEAD = {
    ("read", "key"): "a read has no effect to name; make it a @write if it has one",
    ("read", "replay_for"): "only a @write is replayed; a read is simply read again",
    ("read", "late_commit_s"): "only a @write can commit late",
    ("write", "cache_s"): "a write is never answered from a cache",
    ("write", "polling"): "only a @read may be asked again and again",
}
_KEY_HINT = (
    "say what makes two calls the same effect: key='refund:{payment_id}:v1', or key=each_call if "
    "every call is its own"
)


def read_options(kind: str, tool: str, given: Mapping[str, object]) -> Options:
    """Check what a decorator was given.

    Args:
        kind: ``read`` or ``write``.
        tool: How messages name the tool.
        given: Its keyword arguments.

    Raises:
        DeclarationError: An option that this kind does not take, a value that it cannot have, or
            a write without ``key``.
    """
    for name in given:
        if name not in _TAKES[kind]:
            reason = _INSTEAD.get((kind, name), f"it takes {', '.join(_TAKES[kind])}")
            message = f"{tool}: @{kind} has no option {name!r}: {reason}"
            raise DeclarationError(message)
    if kind == "write" and given.get("key") is None:
        message = f"{tool}: a write needs a key; {_KEY_HINT}"
        raise DeclarationError(message)
    key = given.get("key")
    return Options(
        scope=_text(tool, "scope", given),
        source=_text(tool, "source", given),
        timeout_s=_seconds(tool, "timeout_s", given, DEFAULT_TIMEOUT_S, least=0.001),
        cache_s=_seconds(tool, "cache_s", given, 0.0),
        polling=_flag(tool, "polling", given),
        key=_template(tool, key),
        is_each_call=isinstance(key, EachCall),
        replay_for_s=_replay(tool, given.get("replay_for")),
        late_commit_s=_seconds(tool, "late_commit_s", given, DEFAULT_LATE_COMMIT_S),
    )


def _text(tool: str, name: str, given: Mapping[str, object]) -> str:
    value = given.get(name, "")
    if not isinstance(value, str):
        message = f"{tool}: {name}= is text, such as {name}='orders:read', not {value!r:.60}"
        raise DeclarationError(message)
    return value


def _flag(tool: str, name: str, given: Mapping[str, object]) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        message = f"{tool}: {name}= is True or False, not {value!r:.60}"
        raise DeclarationError(message)
    return value


def _seconds(
    tool: str, name: str, given: Mapping[str, object], default: float, *, least: float = 0.0
) -> float:
    value = given.get(name, default)
    is_number = not isinstance(value, bool)
    if not isinstance(value, int | float) or not is_number or not least <= value <= MAX_TIMEOUT_S:
        message = (
            f"{tool}: {name}= is a number of seconds from {least:g} to {MAX_TIMEOUT_S:g}, "
            f"not {value!r:.60}"
        )
        raise DeclarationError(message)
    return float(value)


def _replay(tool: str, value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, timedelta) or value <= timedelta():
        message = (
            f"{tool}: replay_for= says how long the downstream honours our key, such as "
            f"timedelta(days=30), not {value!r:.60}"
        )
        raise DeclarationError(message)
    return value.total_seconds()


def _template(tool: str, key: object) -> str | None:
    if key is None or isinstance(key, EachCall):
        return None
    if not isinstance(key, str):
        message = f"{tool}: key= is text or each_call, not {key!r:.60}; {_KEY_HINT}"
        raise DeclarationError(message)
    return key
