"""Faults that the payments service can be told to show, per path.

Set at start through ``PAYMENTS_<FIELD>`` environment variables (``PAYMENTS_LOSE_REPLY=1``), later
through ``POST /control`` with a JSON object of the same fields in lower case. Each ``path`` has its
own settings; a request obeys the longest path that fits it. ``{"reset": true}`` forgets them all.
"""

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Final, cast, final

_ENV_PREFIX: Final = "PAYMENTS_"
_RANGES: Final = {
    "delay_before_s": (0, 3600),
    "delay_after_s": (0, 3600),
    "delay_times": (-1, 1_000_000),
    "lose_reply": (0, 1_000_000),
    "error": (0, 1_000_000),
    "error_status": (400, 599),
}
_FRACTIONS: Final = frozenset({"delay_before_s", "delay_after_s"})
_FALSE_WORDS: Final = frozenset({"", "0", "false", "no", "off"})


@final
class BadFaultError(ValueError):
    """A setting that does not exist or has a value it cannot have."""

    def __init__(self, name: str, wanted: str, value: object) -> None:
        """Args: name: the field; wanted: what it must be; value: what it is."""
        super().__init__(f"{name} must be {wanted}, not {value!r:.80}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Faults:
    """How requests to one path misbehave. The default misbehaves in no way."""

    #: Requests this is for: ``/refunds``, or with a method ``POST /refunds``; "" is all.
    path: str = ""
    #: Wait this long, then do the effect (even if the caller has gone by then).
    delay_before_s: float = 0.0
    #: Do the effect, wait this long, then answer.
    delay_after_s: float = 0.0
    #: So many next requests are delayed; -1 is every one.
    delay_times: int = -1
    #: So many next requests are carried out and then closed without an answer.
    lose_reply: int = 0
    #: So many next requests are answered with ``error_status`` and not carried out.
    error: int = 0
    error_status: int = 503
    #: False: a downstream that knows no idempotency keys; each request is a new effect, and
    #: nothing can be asked by key.
    honour_keys: bool = True

    def fits(self, method: str, path: str) -> bool:
        """Whether a request obeys these settings."""
        return path.startswith(self.path) or f"{method} {path}".startswith(self.path)

    def split(self) -> tuple["Faults", "Faults"]:
        """What one request suffers, and what is left for the ones after it."""
        is_error = self.error > 0
        is_lost = self.lose_reply > 0 and not is_error
        now = replace(self, error=int(is_error), lose_reply=int(is_lost))
        if self.delay_times == 0:
            now = replace(now, delay_before_s=0.0, delay_after_s=0.0)
        left = replace(
            self,
            error=self.error - is_error,
            lose_reply=self.lose_reply - is_lost,
            delay_times=self.delay_times - (self.delay_times > 0),
        )
        return now, left


@final
class FaultBoard:
    """The settings of all paths. Safe to use from many threads."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Start with what the environment asks for.

        Raises:
            BadFaultError: a ``PAYMENTS_…`` variable has a value its field cannot have.
        """
        self._lock = threading.Lock()
        self._by_path: dict[str, Faults] = {}
        settings = {
            field.name: _from_text(field.name, environ[name])
            for field in fields(Faults)
            if (name := _ENV_PREFIX + field.name.upper()) in environ
        }
        if settings:
            self.update(settings)

    def update(self, settings: Mapping[str, object]) -> None:
        """Change the given fields of one path's settings, and no others.

        Args:
            settings: fields of ``Faults``; ``path`` says whose; ``reset`` forgets all first.

        Raises:
            BadFaultError: an unknown field or a wrong value; nothing was changed.
        """
        changes = {name: value for name, value in settings.items() if name != "reset"}
        for name, value in changes.items():
            _check(name, value)
        path = str(changes.get("path", ""))
        with self._lock:
            if settings.get("reset") is True:
                self._by_path.clear()
            if changes:
                known = self._by_path.get(path, Faults(path=path))
                self._by_path[path] = replace(known, **changes)  # types: see _check

    def take(self, method: str, path: str) -> Faults:
        """What this request must suffer; counted faults are used up by one.

        Returns:
            Settings whose ``error`` and ``lose_reply`` are 0 or 1, never both 1.
        """
        with self._lock:
            fitting = [faults for faults in self._by_path.values() if faults.fits(method, path)]
            if not fitting:
                return Faults()
            found = max(fitting, key=lambda faults: len(faults.path))
            now, left = found.split()
            self._by_path[found.path] = left
            return now

    def show(self) -> list[dict[str, object]]:
        """All settings, with what is left of the counted ones."""
        with self._lock:
            return [asdict(faults) for faults in self._by_path.values()]


def _from_text(name: str, text: str) -> object:
    default: object = getattr(Faults(), name)
    try:
        match default:
            case bool():
                return text.strip().lower() not in _FALSE_WORDS
            case int():
                return int(text)
            case float():
                return float(text)
            case _:
                return text
    except ValueError:
        raise BadFaultError(_ENV_PREFIX + name.upper(), "a number", text) from None


def _check(name: str, value: object) -> None:
    """Refuse a field that does not exist, has another type, or is out of range."""
    if name in _RANGES:
        lower, upper = _RANGES[name]
        is_number = type(value) is int or (type(value) is float and name in _FRACTIONS)
        if not is_number or not lower <= cast("float", value) <= upper:
            raise BadFaultError(name, f"a number from {lower} to {upper}", value)
    elif name == "honour_keys":
        if not isinstance(value, bool):
            raise BadFaultError(name, "true or false", value)
    elif name != "path" or not isinstance(value, str):
        raise BadFaultError(name, "a field of a fault, with a value of its type", value)
