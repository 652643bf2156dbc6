"""The one cleaning point for values from tools and providers.

What leaves here is plain JSON that msgspec, SQLite, PostgreSQL and every provider can carry, and
that reads back equal; no secret of this process is in it. What had to change is said in notes the
model can see; what cannot be JSON at all is a ``Problem``. Pure: no I/O, no clock.
"""

import base64
import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, NoReturn, cast

import msgspec

from messages.canon import canonical
from messages.parts import JsonValue, Problem
from runtime.secrets import is_in, redact
from runtime.tools.fields import opened

MAX_DEPTH = 64
MAX_NODES = 250_000
"""Values inside one value; about half a second of cleaning."""
MAX_BYTES = 8 * 1024 * 1024
MAX_INT = 2**64 - 1
MIN_INT = -(2**63)
MAX_BITS = 4_096
"""A longer integer is named by its size: writing it out is quadratic in its digits."""

MAX_MESSAGE = 500
"""Characters of a foreign error's text that are kept."""

_ENCODE = msgspec.json.Encoder().encode
_UNSURE = re.compile(rb"\\u0000|\d{19}")
"""In JSON text: a NUL, or digits that may be a whole number of more than 64 bits."""
_REPLACEMENT = "\ufffd"
_PLAIN_HINT = "return a msgspec.Struct, a dataclass, a TypedDict or plain values"


class Cleaned(NamedTuple):
    """A value that is plain JSON.

    Attributes:
        value: None, bool, int, float, str, list and dict with str keys, and nothing else.
        notes: What had to change, in words the model can see.
        size: Bytes of its canonical form.
    """

    value: JsonValue
    notes: tuple[str, ...]
    size: int


def clean(value: object, *, max_bytes: int = MAX_BYTES) -> Cleaned | Problem:
    """Make a value plain JSON.

    Args:
        value: Anything a tool returned or a provider sent.
        max_bytes: Largest canonical form.

    Returns:
        The clean value, or why there is none: ``UNENCODABLE`` or ``RESULT_TOO_LARGE``.
    """
    plain = _plain(value, max_bytes)
    if plain is not None:
        return plain
    cleaner = _Cleaner(max_bytes)
    try:
        cleaned = cleaner.any(value, 0)
        size = len(canonical(cleaned))
        if size > max_bytes:
            cleaner.refuse_size()
    except _CannotCleanError as error:
        return error.problem
    except Exception as error:  # noqa: BLE001 -- somebody's own collection failed while it was read
        return cleaner.unreadable(error)
    return Cleaned(cleaned, cleaner.notes(), size)


def _plain(value: object, max_bytes: int) -> Cleaned | None:
    """The quick way for what is plain JSON already: it reads back equal. None: it may not be.

    What is returned is what was read back, so it is plain whatever ``value`` was.
    """
    try:
        text = _ENCODE(value)
        read = msgspec.json.decode(text)
        is_same = bool(read == value)
    except Exception:  # noqa: BLE001 -- foreign values; the long way says what is wrong with them
        return None
    is_small = len(text) <= min(max_bytes, MAX_NODES)
    is_flat = text.count(b"[") + text.count(b"{") <= MAX_DEPTH
    if not is_same or not is_small or not is_flat or _UNSURE.search(text) or is_in(text):
        return None
    return Cleaned(read, (), len(text))


def clean_text(text: str, limit: int) -> str:
    """Text without secrets, lone surrogates and NUL, cut to ``limit`` characters."""
    text = redact(text)
    kept = text if len(text) <= limit else text[: limit - 1] + "…"
    return _readable(kept)


def error_text(error: BaseException) -> str:
    """What may be kept of a foreign exception: its type and the start of its message, clean."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 -- an exception that cannot even be printed
        text = type(error).__name__
    return clean_text(text, MAX_MESSAGE)


class _CannotCleanError(Exception):
    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.problem = Problem(code=code, message=message, hint=hint)


class _Cleaner:
    """One pass over one value; remembers what it changed, how often and where first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._left = max_bytes
        self._nodes = 0
        self._path: list[str] = []
        self._changes: dict[str, tuple[int, str]] = {}

    def notes(self) -> tuple[str, ...]:
        return tuple(
            f"{change}, at {path}" + (f" and {times - 1} more" if times > 1 else "")
            for change, (times, path) in self._changes.items()
        )

    def any(self, value: object, depth: int) -> JsonValue:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self.refuse_size()
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int):
            return self._int(int(value))
        if isinstance(value, float):
            return self._float(float(value))
        return self._compound(value, depth)

    def _compound(self, value: object, depth: int) -> JsonValue:
        if isinstance(value, bytes | bytearray | memoryview):
            self._note("bytes became base64 text")
            return self._text(base64.b64encode(cast("bytes", value)).decode())
        if isinstance(value, Mapping):
            return self._dict(cast("Mapping[object, object]", value), depth)
        if isinstance(value, list | tuple):
            return self._list(cast("Iterable[object]", value), depth)
        if isinstance(value, set | frozenset):
            return sorted(self._list(cast("Iterable[object]", value), depth), key=canonical)
        return self.any(self._foreign(value), depth)

    def _foreign(self, value: object) -> object:
        try:
            return opened(value)
        except (TypeError, ValueError, OverflowError, RecursionError, AttributeError) as error:
            message = f"a {type(value).__name__} at {self._where()} cannot be kept as JSON: {error}"
            raise _CannotCleanError(
                "UNENCODABLE", clean_text(message, MAX_MESSAGE), _PLAIN_HINT
            ) from None

    def _text(self, text: str) -> str:
        self._left -= len(text)
        if self._left < 0:
            self.refuse_size()
        cleaned = _readable(text)
        if cleaned != text:
            self._note("characters that are no text (lone surrogate, NUL) were replaced")
        told = redact(cleaned)
        if told != cleaned:
            self._note("a secret was left out")
        return told

    def _int(self, number: int) -> int | str:
        if MIN_INT <= number <= MAX_INT:
            return number
        self._note("a whole number beyond 64 bits became text")
        if number.bit_length() > MAX_BITS:
            return f"a whole number of {number.bit_length()} bits"
        return str(number)

    def _float(self, number: float) -> float | None:
        if math.isfinite(number):
            return number
        self._note("a number that is not finite became null")
        return None

    def _list(self, values: Iterable[object], depth: int) -> list[JsonValue]:
        if self._is_too_deep(depth):
            return []
        result: list[JsonValue] = []
        for index, value in enumerate(values):
            self._path.append(f"[{index}]")
            result.append(self.any(value, depth + 1))
            self._path.pop()
        return result

    def _dict(self, values: Mapping[object, object], depth: int) -> dict[str, JsonValue]:
        if self._is_too_deep(depth):
            return {}
        result: dict[str, JsonValue] = {}
        for key, value in values.items():
            name = self._key(key, depth)
            self._path.append(f".{name[:40]}")
            cleaned = self.any(value, depth + 1)
            if name in result:  # whichever came first, the same one is kept
                self._note("two keys became one")
                cleaned = max(cleaned, result[name], key=canonical)
            result[name] = cleaned
            self._path.pop()
        return result

    def _key(self, key: object, depth: int) -> str:
        name = self.any(key, depth)
        if isinstance(name, str):
            return name
        if name is None or isinstance(name, bool | int | float):
            return canonical(name).decode()
        message = f"a key of type {type(key).__name__} at {self._where()} cannot be kept as JSON"
        code, hint = "UNENCODABLE", "use text as keys, or return a list of pairs"
        raise _CannotCleanError(code, message, hint)

    def _is_too_deep(self, depth: int) -> bool:
        if depth < MAX_DEPTH:
            return False
        self._note(f"nesting beyond {MAX_DEPTH} levels was left out")
        return True

    def _note(self, change: str) -> None:
        times, path = self._changes.get(change, (0, self._where()))
        self._changes[change] = (times + 1, path)

    def _where(self) -> str:
        return "$" + "".join(self._path)

    def unreadable(self, error: Exception) -> Problem:
        message = f"it could not be read at {self._where()}: {error_text(error)}"
        return Problem(
            code="UNENCODABLE", message=clean_text(message, MAX_MESSAGE), hint=_PLAIN_HINT
        )

    def refuse_size(self) -> NoReturn:
        code, hint = "RESULT_TOO_LARGE", "return less, such as one page or a summary"
        message = f"more than {self._max_bytes} bytes or {MAX_NODES} values"
        raise _CannotCleanError(code, message, hint)


def _readable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        # Through UTF-16 a surrogate pair in two halves becomes the character it means.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", _REPLACEMENT)
