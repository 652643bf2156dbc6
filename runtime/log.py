"""Log lines: a closed list of events, one line each, with the run on every line of a drive.

JSON where a program reads (stderr is no terminal, or ``TREADLE_LOG=json``), text where a person
does. Nothing is written before ``set_up``: a library inside somebody's program stays silent.
Values are cut at 500 characters; callers log names, ids, sizes and durations, never arguments,
results or secrets. structlog is imported by ``set_up`` alone, so ``treadle --help`` does not pay.
"""

import os
import sys
import traceback
from collections.abc import Callable, Generator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import Literal, Protocol, TextIO

import msgspec

from runtime.clock import Clock
from runtime.secrets import redact

Fields = MutableMapping[str, object]

MAX_VALUE_CHARS = 500


class Level(IntEnum):
    """How much somebody should care."""

    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


class Line(StrEnum):
    """Every event that is ever logged. What is not here does not happen in a log."""

    # the process
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"
    CONFIG_WARNING = "config_warning"
    FAULT_ARMED = "fault_armed"
    # supervision
    ACTOR_STARTED = "actor_started"
    ACTOR_CRASHED = "actor_crashed"
    ACTOR_DRAIN_FAILED = "actor_drain_failed"
    GAVE_UP = "gave_up"
    # the bus
    BUS_CONNECTED = "bus_connected"
    BUS_DISCONNECTED = "bus_disconnected"
    BUS_ERROR = "bus_error"
    SERVER_STARTED = "server_started"
    SERVER_EXITED = "server_exited"
    ASK_FAILED = "ask_failed"
    HANDLER_FAILED = "handler_failed"
    LATE_MESSAGE_DROPPED = "late_message_dropped"
    BAD_MESSAGE = "bad_message"
    DEAD_LETTERED = "dead_lettered"
    # the ledger
    LEDGER_FAILED = "ledger_failed"
    LEDGER_SLOW = "ledger_slow"
    # runs
    TASK_REFUSED = "task_refused"
    EVENTS_LOST = "events_lost"
    RUN_CREATED = "run_created"
    RUN_TAKEN = "run_taken"
    RUN_RELEASED = "run_released"
    RUN_LOST = "run_lost"
    RUN_SUSPENDED = "run_suspended"
    RUN_FINISHED = "run_finished"
    RUN_POISONED = "run_poisoned"
    STEP_DECIDED = "step_decided"
    # effects
    TOOL_CALLED = "tool_called"
    GRANT_REFUSED = "grant_refused"
    EFFECT_INTENDED = "effect_intended"
    EFFECT_OBSERVED = "effect_observed"
    EFFECT_UNKNOWN = "effect_unknown"
    EFFECT_RECONCILED = "effect_reconciled"
    # people
    APPROVAL_REQUESTED = "approval_requested"
    APPROVAL_RESOLVED = "approval_resolved"
    QUESTION_ASKED = "question_asked"
    NOTIFIED = "notified"
    NOTIFY_FAILED = "notify_failed"
    CONTROL = "control"
    # the model
    MODEL_CALLED = "model_called"
    MODEL_FAILED = "model_failed"
    BREAKER_OPENED = "breaker_opened"
    BREAKER_CLOSED = "breaker_closed"
    # doors
    HTTP_SERVED = "http_served"
    HTTP_REFUSED = "http_refused"


class _Write(Protocol):
    def __call__(self, level: Level, event: str, fields: Mapping[str, object], /) -> None: ...


_scope: ContextVar[Mapping[str, str]] = ContextVar("treadle_log_scope", default={})  # noqa: B039 -- never changed in place
_write: _Write | None = None


def log(line: Line, level: Level = Level.INFO, /, **fields: object) -> None:
    """Write one line, with everything that ``scope`` says around it.

    Args:
        line: What happened.
        level: How much somebody should care.
        **fields: Ids, names, sizes, durations with their unit in the name. None is left out.
    """
    if _write is not None:
        known = {key: value for key, value in fields.items() if value is not None}
        _write(level, line.value, {**_scope.get(), **known})


@contextmanager
def scope(**fields: str) -> Generator[None]:
    """Put these fields on every line logged inside, tasks started inside included.

    A drive uses ``scope(tenant=…, run_id=…)``.
    """
    token = _scope.set({**_scope.get(), **fields})
    try:
        yield
    finally:
        _scope.reset(token)


def describe(error: BaseException) -> dict[str, object]:
    """An exception as fields: its type, its first line, and where it came from.

    No local values and no chained messages: those may hold payloads.
    """
    text = str(error).partition("\n")[0]
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    places = [f"{os.path.basename(f.filename)}:{f.lineno} {f.name}" for f in frames]  # noqa: PTH119 -- text, not a path
    return {"error": type(error).__name__, "message": text, "at": " > ".join(places)}


def set_up(
    clock: Clock,
    *,
    stream: TextIO | None = None,
    level: Level = Level.INFO,
    form: Literal["json", "text"] | None = None,
) -> None:
    """Start writing; called once by a process's main, again only by tests.

    Args:
        clock: Where the time on each line comes from.
        stream: Where to write; None is stderr.
        level: Lines below it are dropped.
        form: None looks at ``TREADLE_LOG`` and then at whether ``stream`` is a terminal.
    """
    global _write  # noqa: PLW0603 -- one log per process, as there is one stderr
    _write = _make_writer(clock, stream or sys.stderr, level, form)


def silence() -> None:
    """Stop writing."""
    global _write  # noqa: PLW0603 -- see set_up
    _write = None


def _make_writer(
    clock: Clock, stream: TextIO, lowest: Level, form: Literal["json", "text"] | None
) -> _Write:
    import structlog  # noqa: PLC0415 -- 40 ms that only a process that logs should pay

    render = _as_json if _is_json(form, stream) else _as_text

    def stamp(_logger: object, method: str, fields: Fields) -> Fields:
        event = fields.pop("event")
        at = datetime.fromtimestamp(clock.now(), UTC).isoformat(timespec="milliseconds")
        shown = {key: _short(value) for key, value in fields.items()}
        return {"ts": at.replace("+00:00", "Z"), "level": method, "event": event, **shown}

    logger: structlog.typing.FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(stream),
        processors=[stamp, render],
        wrapper_class=structlog.make_filtering_bound_logger(lowest),
    )

    def write(level: Level, event: str, fields: Mapping[str, object], /) -> None:
        logger.log(level, event, **fields)

    return write


def _is_json(form: Literal["json", "text"] | None, stream: TextIO) -> bool:
    chosen = form or os.environ.get("TREADLE_LOG", "").lower()
    return chosen == "json" or (chosen != "text" and not stream.isatty())


def _short(value: object) -> object:
    if isinstance(value, bool | int | float):
        return value
    text = redact(str(value))
    return text if len(text) <= MAX_VALUE_CHARS else text[: MAX_VALUE_CHARS - 1] + "…"


_encode: Callable[[object], bytes] = msgspec.json.Encoder().encode


def _as_json(_logger: object, _method: str, fields: Fields) -> str:
    return _encode(fields).decode()


def _as_text(_logger: object, _method: str, fields: Fields) -> str:
    head = f"{str(fields.pop('ts'))[11:19]} {fields.pop('level'):<7} {fields.pop('event')}"
    return " ".join([head, *(f"{key}={_printable(value)}" for key, value in fields.items())])


def _printable(value: object) -> str:
    """No control characters: what a tool or a model said must not drive somebody's terminal."""
    text = str(value)
    return text if text.isprintable() and text and " " not in text else repr(text)
