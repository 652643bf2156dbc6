"""The one table of legal status changes and of the reasons each status may carry.

``docs/reference/statuses.md`` is generated from it. A change that is not in it raises, wherever it
comes from.
"""

from typing import Final

from messages.errors import IllegalTransition
from messages.status import SUSPENDED, TERMINAL, Reason, Status

_OPEN_ENDS: Final = frozenset(TERMINAL)

LEGAL: Final[dict[Status, frozenset[Status]]] = {
    Status.QUEUED: frozenset({Status.RUNNING}) | SUSPENDED | _OPEN_ENDS,
    Status.RUNNING: SUSPENDED | _OPEN_ENDS,
    # a suspended run first runs again; only a pause may replace one wait by another, and a wait
    # goes on as it is when a signal changes nothing
    Status.AWAITING_APPROVAL: frozenset({Status.RUNNING, Status.PAUSED, Status.AWAITING_APPROVAL}),
    Status.AWAITING_HUMAN: frozenset({Status.RUNNING, Status.PAUSED, Status.AWAITING_HUMAN}),
    Status.AWAITING_CHILDREN: frozenset({Status.RUNNING, Status.PAUSED, Status.AWAITING_CHILDREN}),
    Status.WAITING: frozenset({Status.RUNNING, Status.PAUSED, Status.WAITING}),
    Status.PAUSED: frozenset({Status.RUNNING, Status.PAUSED}),
} | {status: frozenset[Status]() for status in TERMINAL}

REASONS: Final[dict[Status, frozenset[Reason]]] = {
    Status.SUCCEEDED: frozenset({Reason.VERIFIED, Reason.UNVERIFIED}),
    Status.NEEDS_INPUT: frozenset({Reason.QUESTION, Reason.APPROVAL_EXPIRED}),
    Status.DENIED: frozenset({Reason.POLICY}),
    Status.BUDGET_EXHAUSTED: frozenset(
        {Reason.MAX_STEPS, Reason.MAX_TOKENS, Reason.MAX_USD, Reason.MAX_SECONDS}
    ),
    Status.NO_PROGRESS: frozenset(
        {
            Reason.REPEATED_ACTION,
            Reason.NO_STATE_CHANGE,
            Reason.OSCILLATION,
            Reason.NEAR_DUPLICATE,
        }
    ),
    Status.FAILED: frozenset(
        {
            Reason.NO_ACTION,
            Reason.UNKNOWN_EFFECT,
            Reason.UNPRICED_MODEL,
            Reason.MODEL_UNAVAILABLE,
            Reason.REFUSED,
            Reason.OUTPUT_LIMIT,
            Reason.TOO_MANY_ERRORS,
            Reason.BAD_OUTPUT,
            Reason.CHILD_FAILED,
            Reason.AGENT_CHANGED,
            Reason.POISON,
        }
    ),
    Status.CANCELLED: frozenset({Reason.BY_PERSON, Reason.PARENT, Reason.EFFECT_UNSETTLED}),
}

DOCUMENT_STATES: Final[dict[str, tuple[Status, ...]]] = {
    "IDLE": (Status.QUEUED,),
    "PLANNING": (Status.RUNNING,),
    "EXECUTING": (Status.RUNNING,),
    "OBSERVING": (Status.RUNNING,),
    "COMPLETING": (Status.RUNNING, Status.SUCCEEDED),
    "AWAITING_HUMAN": (Status.AWAITING_HUMAN, Status.AWAITING_APPROVAL),
    "ERROR": (Status.FAILED, Status.NO_PROGRESS, Status.BUDGET_EXHAUSTED, Status.DENIED),
    "ABORTED": (Status.CANCELLED,),
}
"""The states of the source documents (seeds/d) and where they are here."""


def change(run_id: str, old: Status, new: Status, reason: str = "") -> Status:
    """``new``, if the table allows it after ``old``.

    Args:
        run_id: for the message.
        old: status before.
        new: status after.
        reason: of a terminal status: must be one of its own.

    Raises:
        IllegalTransition: it does not.
    """
    if new not in LEGAL[old]:
        raise IllegalTransition(run_id, old, new)
    if new in TERMINAL and reason not in REASONS[new]:
        raise IllegalTransition(run_id, old, f"{new} because of {reason!r}")
    return new
