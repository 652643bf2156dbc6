"""Wait-and-recheck: what ``wait(seconds, why)`` may ask for, and how it becomes a timer of the run.

A wait has a budget of its own, ``Limits.max_wait_s``, since it uses none of the others: no worker,
no active seconds, one step however long it is. Nothing of it is rounded or cut down: a wait is as
asked for, or it is turned down and the model is told what would fit.
"""

import math

from messages.events import ProposalRejected
from messages.parts import Arguments, JsonValue, Problem
from messages.state import LoopState, Proposal, Turn
from messages.status import Reason, Status
from runtime.loop.directives import Moment, Record, Suspend

SHORTEST_S = 1.0
"""A shorter wait costs a step and brings nothing."""
_TAKES = ("seconds", "why")
_SHOWN_CHARS = 40


def proposed(given: Arguments, control_id: str) -> Proposal:
    """The wait that a call asks for, or what is wrong with its arguments."""
    seconds, why = _number(given.get("seconds")), given.get("why")
    wrong = _misfit(given, seconds)
    return Proposal(
        kind="wait",
        text=why if isinstance(why, str) else "",
        seconds=0.0 if wrong or seconds is None else seconds,
        control_id=control_id,
        problem=_turned_down("BAD_ARGUMENTS", wrong, _HINT) if wrong else None,
    )


def next_of(state: LoopState, turn: Turn, now: Moment) -> Suspend | Record | None:
    """What becomes of the wait that a turn asks for; None once it is over."""
    if turn.is_waited:
        if now.at >= turn.waits_until:
            return None
        until = turn.waits_until  # a pause in between does not shorten it
        return Suspend(status=Status.WAITING, reason=Reason.TIMER, until=until)
    problem = turn.proposal.problem or _beyond(state, turn.proposal.seconds)
    if problem is not None:
        return Record(events=(ProposalRejected(step=turn.step, problem=problem),))
    until = now.at + turn.proposal.seconds
    return Suspend(status=Status.WAITING, reason=Reason.TIMER, until=until)


def left_s(state: LoopState) -> float:
    """Seconds that the run may still wait."""
    return max(state.limits.max_wait_s - state.waited_s, 0.0)


_HINT = "call wait with seconds, a number of at least 1, and why, what you wait for"


def _misfit(given: Arguments, seconds: float | None) -> str:
    """The first thing that does not fit the schema of the call, or nothing."""
    if unknown := sorted(given.keys() - set(_TAKES)):
        return f"it takes {' and '.join(_TAKES)}, not {unknown[0][:_SHOWN_CHARS]!r}"
    if seconds is None:
        return f"seconds is not a number: {_shown(given.get('seconds'))}"
    if not math.isfinite(seconds):
        return "seconds is not a finite number"
    if seconds < SHORTEST_S:
        return f"seconds is {seconds:g}, less than {SHORTEST_S:g}"
    why = given.get("why")
    if not isinstance(why, str) or not why.strip():
        return "why is missing or blank"
    return ""


def _number(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _shown(value: JsonValue) -> str:
    return "there is none" if value is None else repr(value)[:_SHOWN_CHARS]


def _beyond(state: LoopState, seconds: float) -> Problem | None:
    left = left_s(state)
    if seconds <= left:
        return None
    whole = math.floor(left)
    if whole < SHORTEST_S:
        hint = "look again now, go another way, finish, or give up"
    else:
        hint = f"wait {whole} s or less, or go on without waiting"
    most = state.limits.max_wait_s
    wrong = f"{seconds:g} s are more than the {whole} s that are left of {most:g} s in all"
    return _turned_down("WAIT_BUDGET", wrong, hint)


def _turned_down(code: str, wrong: str, hint: str) -> Problem:
    return Problem(code=code, message=f"nothing was waited: {wrong}", hint=hint)
