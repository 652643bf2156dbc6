"""How the end of a call counts: ok, error or unknown. Pure.

From a write only ``Transient``, ``Correctable`` and ``Unrecoverable``, raised by the tool itself,
say that nothing happened. Any other exception, a deadline, ``Unknown``, a tool that cancels itself
or exits: it may have happened. A read changes nothing, so all of that is an error there.
"""

import math
from typing import Literal

import msgspec

from messages.errors import Correctable, ToolError, Transient, Unknown, Unrecoverable
from messages.parts import Attempt, JsonValue, Problem
from runtime.breaker import Ended as BreakerEnded
from runtime.tools.clean import MAX_MESSAGE, clean, clean_text, error_text
from runtime.tools.ended import Ended, Late, Raised, Returned, Vanished

TOOL_FAILED = "TOOL_FAILED"
TOOL_DEADLINE = "TOOL_DEADLINE"
NOT_STARTED = "NOT_STARTED"
UNAVAILABLE = "UNAVAILABLE"

_NOTHING_HAPPENED = (Transient, Correctable, Unrecoverable)


class Called(msgspec.Struct, frozen=True):
    """How a call ended.

    Attributes:
        kind: ``unknown`` only from a write.
        value: The result as plain JSON.
        notes: What the cleaning point changed.
        size: Bytes of the result's canonical form.
        problem: Why it is no ok.
        request_id: Of the attempt that counts.
        attempts: Every attempt, that one included.
        started_at: When the first began, in epoch seconds.
        duration_s: All of it, pauses between attempts included.
    """

    kind: Literal["ok", "error", "unknown"]
    value: JsonValue = None
    notes: tuple[str, ...] = ()
    size: int = 0
    problem: Problem | None = None
    request_id: str = ""
    attempts: tuple[Attempt, ...] = ()
    started_at: float = 0.0
    duration_s: float = 0.0


class Found(Called, frozen=True):
    """What a lookup found: ``kind`` is ok for an answer, unknown where it cannot be decided.

    Attributes:
        is_there: It happened; ``value`` is the result.
    """

    is_there: bool = False


def outcome(kind: Literal["read", "write"], ended: Ended) -> Called:
    """How the end of a tool's call counts."""
    if isinstance(ended, Returned):
        return _returned(kind, ended.value)
    problem = problem_of(ended)
    if kind == "read" or _says_nothing_happened(ended):
        return Called("error", problem=problem)
    return Called("unknown", problem=problem)


def unavailable(wait_s: float) -> Called:
    """A call that is not made, since what it needs has been failing."""
    problem = Problem(
        code=UNAVAILABLE,
        message="It is temporarily unavailable: it has failed several times in a row, so it was not"
        " called.",
        hint=f"Try again in {math.ceil(wait_s)} s or later, or go another way.",
    )
    return Called("error", problem=problem)


def heard(called: Called) -> BreakerEnded:
    """What the end of a call tells the breaker of the tool; a refusal is an answer too."""
    if called.kind == "ok" or called.problem is None:
        return "ok"
    match called.problem.code:
        case Correctable.code | Unrecoverable.code:
            return "ok"
        case code if code == NOT_STARTED:
            return "unheard"
        case _:
            return "failed"


def found(ended: Ended) -> Found:
    """What the end of a lookup says: a value is "it happened", None is "it is not there"."""
    if not isinstance(ended, Returned):
        return Found("unknown", problem=problem_of(ended))
    value = ended.value
    if value is None:
        return Found("ok")
    result = _returned("write", value)
    return Found("ok", value=result.value, notes=result.notes, size=result.size, is_there=True)


def problem_of(ended: Raised | Late | Vanished) -> Problem:
    """Why a call came to nothing, without anything that user code did not say itself."""
    match ended:
        case Raised(ToolError() as error):
            return Problem(
                code=clean_text(str(error.code), MAX_MESSAGE),
                message=clean_text(str(error.message), MAX_MESSAGE),
                hint=clean_text(str(error.hint), MAX_MESSAGE),
            )
        case Raised(error):
            return Problem(code=TOOL_FAILED, message=error_text(error))
        case Late(has_started=False):
            return Problem(code=NOT_STARTED, message="its time was up before it could be called")
        case Late():
            return Problem(code=TOOL_DEADLINE, message="it did not answer within its deadline")
        case Vanished():
            return Problem(code=TOOL_FAILED, message="it cancelled itself")


def _says_nothing_happened(ended: Raised | Late | Vanished) -> bool:
    match ended:
        case Raised(error):
            return isinstance(error, _NOTHING_HAPPENED) and not isinstance(error, Unknown)
        case Late(has_started):
            return not has_started
        case Vanished():
            return False


def _returned(kind: Literal["read", "write"], value: object) -> Called:
    cleaned = clean(value)
    if not isinstance(cleaned, Problem):
        return Called("ok", value=cleaned.value, notes=cleaned.notes, size=cleaned.size)
    if kind == "read":
        return Called("error", problem=cleaned)
    # It happened, whatever is wrong with the words it came back with.
    note = clean_text(f"the result could not be kept: {cleaned.message}", MAX_MESSAGE)
    return Called("ok", notes=(note,), size=len(b"null"))
