"""What goes to stdout: a table for people; json, jsonl and names for programs.

JSON keeps every field and ISO or epoch times; a table rounds, and says times relative to now.
Colour decorates and never carries meaning: a status is its own word, with a symbol before it.
"""

import json
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TextIO, cast

from treadle.cli.options import Options

Row = Mapping[str, Any]
"""One object of a reply, as JSON."""

SYMBOLS: Final = {
    "QUEUED": "○",
    "RUNNING": "●",
    "AWAITING_APPROVAL": "◐",
    "AWAITING_HUMAN": "◐",
    "AWAITING_CHILDREN": "◌",
    "WAITING": "◌",
    "PAUSED": "‖",
    "SUCCEEDED": "✓",
    "NEEDS_INPUT": "?",
    "DENIED": "⊘",
    "BUDGET_EXHAUSTED": "$",
    "NO_PROGRESS": "~",
    "FAILED": "✗",
    "CANCELLED": "⊘",
}
_GREEN, _YELLOW, _RED, _DIM = "32", "33", "31", "2"
_COLORS: Final = {
    "SUCCEEDED": _GREEN,
    "AWAITING_APPROVAL": _YELLOW,
    "AWAITING_HUMAN": _YELLOW,
    "NEEDS_INPUT": _YELLOW,
    "PAUSED": _YELLOW,
    "FAILED": _RED,
    "DENIED": _RED,
    "NO_PROGRESS": _RED,
    "BUDGET_EXHAUSTED": _RED,
    "CANCELLED": _DIM,
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    title: str
    cell: Callable[[Row], str]
    is_number: bool = False


def emit(
    options: Options,
    reply: Row,
    *,
    rows: Sequence[Row],
    name: str,
    text: Callable[[], str],
) -> None:
    """Print one reply in the format that was asked for.

    Args:
        options: says which format.
        reply: the whole reply; printed by json as it is.
        rows: its items; printed by jsonl, one a line, and by name.
        name: the field that is an item's name.
        text: what a person reads.
    """
    match options.output:
        case "json":
            print(as_json({"v": 1, **reply}, indent=2))
        case "jsonl":
            for row in rows:
                print(as_json({"v": 1, **row}))
        case "name":
            for row in rows:
                print(plain(row[name]))
        case "table":
            print(text())


def as_json(value: object, *, indent: int | None = None) -> str:
    """JSON text; escapes what the terminal's encoding cannot hold."""
    return json.dumps(value, indent=indent, ensure_ascii=not _is_utf8(sys.stdout))


def table(columns: Sequence[Column], rows: Iterable[Row], options: Options) -> str:
    """Aligned columns without wrapping; the last one is not padded."""
    lines = [[column.title for column in columns]]
    lines += [[column.cell(row) for column in columns] for row in rows]
    widths = [max(map(_width, cells)) for cells in zip(*lines, strict=True)]
    printed: list[str] = []
    for line in lines:
        padded = [
            _pad(cell, width, is_number=column.is_number)
            for cell, width, column in zip(line, widths, columns, strict=True)
        ]
        printed.append("  ".join(padded).rstrip())
    return "\n".join(_decorate(line, options) for line in printed)


def facts(pairs: Iterable[tuple[str, str]], options: Options) -> str:
    """``Label  value`` lines; empty values are left out."""
    kept = [(label, value) for label, value in pairs if value]
    width = max((len(label) for label, _ in kept), default=0)
    return "\n".join(_decorate(f"{label:<{width}}  {value}", options) for label, value in kept)


def note(options: Options, text: str) -> None:
    """A line for people on stderr; ``-q`` drops it."""
    if not options.is_quiet:
        print(text, file=sys.stderr, flush=True)


def status_text(status: object) -> str:
    """A status with its symbol, where the terminal has such characters."""
    word = plain(status)
    symbol = SYMBOLS.get(word)
    return f"{symbol} {word}" if symbol and _is_utf8(sys.stdout) else word


def plain(value: object) -> str:
    """A value as one line of text that cannot steer a terminal or hide what it says.

    Control characters and bidirectional overrides are shown as escapes, so that a tool result can
    neither move the cursor nor reorder the amount a person is about to approve.
    """
    text = value if isinstance(value, str) else short_json(value)
    return "".join(
        character if _is_harmless(character) else _escaped(character) for character in text
    )


def short_json(value: object) -> str:
    """JSON on one line, as short as it gets."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def clipped(text: str, width: int) -> str:
    """At most so many characters; what is missing is shown as an ellipsis."""
    return text if len(text) <= width else text[: width - 1] + "…"


def call_text(tool: object, arguments: object, width: int = 70) -> str:
    """``issue_refund(order_id="8472", …)``."""
    pairs = as_mapping(arguments)
    inner = ", ".join(f"{plain(name)}={plain(short_json(value))}" for name, value in pairs.items())
    return clipped(f"{plain(tool)}({inner})", width)


def as_mapping(value: object) -> Row:
    """A JSON object as it is; anything else as an empty one."""
    return cast("Row", value) if isinstance(value, Mapping) else {}


def seconds_text(seconds: float) -> str:
    """A span in its largest unit: ``12s``, ``9m``, ``3h``, ``2d``."""
    size = abs(seconds)
    for limit, unit, mark in ((90, 1, "s"), (5400, 60, "m"), (172_800, 3600, "h")):
        if size < limit:
            return f"{size / unit:.0f}{mark}"
    return f"{size / 86_400:.0f}d"


def took(seconds: float) -> str:
    """How long something took, finer than ``seconds_text``: ``63ms``, ``1.25s``, ``9m``."""
    if seconds < 0.1:  # noqa: PLR2004 -- below, milliseconds say more
        return f"{seconds * 1000:.0f}ms"
    return f"{seconds:.2f}s" if seconds < 10 else seconds_text(seconds)  # noqa: PLR2004


def drawn(picture: str, plain_text: str) -> str:
    """The picture, where the terminal has such characters."""
    return picture if _is_utf8(sys.stdout) else plain_text


def ago(at: object, now: float) -> str:
    """How long since a time, or ``-`` where there is none."""
    moment = epoch(at)
    return "-" if moment is None else seconds_text(max(0.0, now - moment))


def left(until: object, now: float) -> str:
    """How long until a time."""
    moment = epoch(until)
    if moment is None:
        return "-"
    return f"{seconds_text(moment - now)} left" if moment > now else "expired"


def epoch(at: object) -> float | None:
    """A time of a reply, which is ISO text or epoch seconds."""
    if isinstance(at, int | float):
        return float(at)
    if not isinstance(at, str) or not at:
        return None
    moment = datetime.fromisoformat(at)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def clock_text(at: object) -> str:
    """Time of day with milliseconds, UTC."""
    moment = epoch(at)
    if moment is None:
        return "-"
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")[11:23]


def count(number: object) -> str:
    """``8,400``."""
    return f"{number:,}" if isinstance(number, int) else plain(number)


def _is_harmless(character: str) -> bool:
    category = unicodedata.category(character)
    return category not in {"Cc", "Cs", "Zl", "Zp"} and character not in _BIDI


_BIDI: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1]


def _width(text: str) -> int:
    """Terminal cells: wide characters count two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.combining(character)
        else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def _pad(cell: str, width: int, *, is_number: bool) -> str:
    fill = " " * (width - _width(cell))
    return fill + cell if is_number else cell + fill


def _decorate(line: str, options: Options) -> str:
    if not options.has_color(is_terminal=sys.stdout.isatty()):
        return line
    for word, color in _COLORS.items():
        shown = status_text(word)
        if shown in line:
            return line.replace(shown, f"\x1b[{color}m{shown}\x1b[0m", 1)
    return line


def _is_utf8(stream: TextIO) -> bool:
    return (stream.encoding or "").lower().replace("-", "") == "utf8"
