"""What a run does next that waits, or is told to end."""

from messages import events as e
from messages.parts import Problem
from messages.state import CallState, LoopState
from messages.status import Reason, Status
from runtime.loop.directives import Directive, Finish, LetGo, Moment, Reconcile, Record, Suspend

_OVER = frozenset({"unknown", "observed"})
"""Phases of calls of which the record says already how they stand."""


def suspended(state: LoopState, now: Moment) -> Directive:
    """What a run that waits does: go on where there is a reason to, else wait on."""
    if now.cancel is not None:
        return Record(events=(e.Resumed(why="cancel"),))
    if now.pause is not None and state.status is not Status.PAUSED:
        return Suspend(status=Status.PAUSED, reason=Reason.BY_PERSON)
    expired = _expired(state, now) if state.status is Status.AWAITING_APPROVAL else ()
    if expired:
        return Record(events=(*expired, e.Resumed(why="approval expired")))
    why = _wakes(state, now)
    if why:
        return Record(events=(e.Resumed(why=why),))
    if now.is_signalled:  # what was said changes nothing: an entry names it and the wait goes on
        return Suspend(status=state.status, reason=state.reason, until=state.until)
    return LetGo()


def _expired(state: LoopState, now: Moment) -> tuple[e.AnyEvent, ...]:
    return tuple(
        e.ApprovalExpired(
            step=state.step_count, ordinal=call.ordinal, approval_id=call.approval_id or ""
        )
        for call in _calls(state, frozenset({"waiting"}))
        if call.approval_expires_at is not None and call.approval_expires_at <= now.at
    )


def _wakes(state: LoopState, now: Moment) -> str:
    """Why the run goes on now, or nothing."""
    match state.status:
        case Status.PAUSED:
            return "resumed" if now.is_resumed else ""
        case Status.AWAITING_APPROVAL:
            ready = frozenset({"proposed", "accepted", "allowed", "asking", "approved"})
            is_all_done = not _calls(state, frozenset({"waiting"}))
            return "approval decided" if is_all_done or _calls(state, ready) else ""
        case Status.AWAITING_HUMAN:
            return "answered" if state.question is None else ""
        case Status.AWAITING_CHILDREN:
            return "" if state.children else "children ended"
        case _:
            is_due = state.until is not None and state.until <= now.at
            return "timer" if is_due else ""


def cancelled(state: LoopState, now: Moment, open_calls: list[CallState]) -> Directive:
    """Give every call that cannot have happened its result, settle the others, end."""
    turn, open_ = state.turn, {call.ordinal for call in open_calls}
    unfinished = [
        call
        for call in (turn.calls if turn else ())
        if call.phase != "observed" and call.ordinal not in open_
    ]
    if turn is not None and unfinished:
        problem = Problem(code="CANCELLED", message="The run was cancelled before this had ended.")
        return Record(
            events=tuple(
                e.Observed(step=turn.step, ordinal=c.ordinal, kind="cancelled", problem=problem)
                for c in unfinished
            )
        )
    if open_calls:
        return Reconcile(ordinal=open_calls[0].ordinal, is_cancelling=True)
    signal = now.cancel
    is_parent = signal is not None and signal.person == "" and state.parent is not None
    reason = Reason.PARENT if is_parent else Reason.BY_PERSON
    why = signal.reason if signal else ""
    return Finish(status=Status.CANCELLED, reason=reason, signal=signal, why=why)


def left_over(state: LoopState) -> tuple[e.AnyEvent, ...]:
    """What becomes of the calls that the end of a run leaves without a result.

    A write that may have started is unknown, whatever the reason of the end; the others never ran.
    """
    turn = state.turn
    unfinished = [c for c in turn.calls if c.phase not in _OVER] if turn else []
    problem = Problem(code="RUN_ENDED", message="The run ended before this ran.")
    return tuple(
        e.Observed(step=turn.step, ordinal=c.ordinal, kind="unknown")
        if c.phase == "intended"
        else e.Observed(step=turn.step, ordinal=c.ordinal, kind="not_started", problem=problem)
        for c in unfinished
        if turn is not None
    )


def _calls(state: LoopState, phases: frozenset[str]) -> tuple[CallState, ...]:
    calls = state.turn.calls if state.turn else ()
    return tuple(call for call in calls if call.phase in phases)
