"""One run as ``trace`` prints it: its steps in order, what each took, cost and called.

Read off the journal alone, so a trace is the same for a running run, an ended one and a data
directory. Times are those of the record: a step ends with the last entry that speaks of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from messages.base import Timestamp
from messages.canon import shown
from messages.events import (
    Accepted,
    AnyEvent,
    AttemptFailed,
    Consulted,
    Decided,
    Finished,
    Resumed,
    StepLost,
    StepReserved,
    Suspended,
    Verified,
)
from messages.ledger import Entry, RunRow
from messages.state import LoopState
from runtime.views.run import usage_view
from runtime.views.trace_step import Step, see_call, shown_arguments
from runtime.views.values import View, iso, iso_or_none, limits_view, seconds


def trace_run(state: LoopState, row: RunRow, entries: Sequence[Entry], now: Timestamp) -> View:
    """The object of ``trace RUN -o json``.

    Args:
        state: The run, folded.
        row: The run as the ledger lists it.
        entries: Its whole journal.
        now: The ledger's clock: where what is still open is measured to.
    """
    tracer = _Tracer()
    for entry in entries:
        for event in entry.events:
            tracer.see(entry, event)
    ended_at = state.updated_at if state.status.is_terminal else None
    return {
        "v": 1,
        "run_id": state.run_id,
        "trace_id": state.trace_id,
        "agent": state.agent,
        "status": str(row.shown_status),
        "reason": state.reason,
        "version": state.version,
        "step_count": state.step_count,
        "limits": limits_view(state.limits),
        "usage": usage_view(state, now),
        "created_at": iso(state.created_at),
        "ended_at": iso_or_none(ended_at),
        "seconds": seconds(max(0.0, (now if ended_at is None else ended_at) - state.created_at)),
        "steps": [step.view(state.created_at) for step in tracer.steps.values()],
        "waits": [wait.view(state.created_at, now) for wait in tracer.waits],
    }


@dataclass(kw_only=True)
class _Wait:
    """A stretch in which the run had no worker."""

    status: str
    reason: str
    step: int | None
    since: Timestamp
    until: Timestamp | None = None

    def view(self, origin: Timestamp, now: Timestamp) -> View:
        return {
            "status": self.status,
            "reason": self.reason,
            "step": self.step,
            "started_at": iso(self.since),
            "offset_seconds": seconds(self.since - origin),
            "seconds": seconds(max(0.0, (now if self.until is None else self.until) - self.since)),
            "is_open": self.until is None,
        }


class _Tracer:
    """Sorts the events of a journal into steps and waits."""

    def __init__(self) -> None:
        self.steps: dict[tuple[int, bool], Step] = {}
        self.waits: list[_Wait] = []
        self._is_final = False
        """The tool-free final turn is under way; it bears the number of the last step."""

    def see(self, entry: Entry, event: AnyEvent) -> None:
        """One event, in order."""
        match event:
            case StepReserved(reservation=held):
                self._is_final = held.is_final
                _ = self._step(held.step, entry.at)
            case Consulted():
                newest = max(self.steps, default=None)
                if newest is not None:
                    self.steps[newest].consulted(event)
            case Suspended():
                self._end_wait(entry.at)
                step = max((number for number, _ in self.steps), default=None)
                self.waits.append(
                    _Wait(status=str(event.status), reason=event.reason, step=step, since=entry.at)
                )
            case Resumed() | Finished():
                self._end_wait(entry.at)
            case _:
                number: int | None = getattr(event, "step", None)
                if number is not None:
                    self._see_step(number, entry, event)

    def _step(self, number: int, at: Timestamp) -> Step:
        """The step of that number, begun if it is new."""
        key = (number, self._is_final)
        if key not in self.steps:
            self.steps[key] = Step(
                number=number, is_final=self._is_final, started_at=at, ended_at=at
            )
        return self.steps[key]

    def _end_wait(self, at: Timestamp) -> None:
        if self.waits and self.waits[-1].until is None:
            self.waits[-1].until = at

    def _see_step(self, number: int, entry: Entry, event: AnyEvent) -> None:
        step = self._step(number, entry.at)
        if not isinstance(event, Verified):  # looked at long after the step
            step.ended_at = max(step.ended_at, entry.at)
        match event:
            case Decided():
                if not step.failed:
                    step.started_at = event.started_at
                step.charge(event.charged)
                step.decided(event)
            case AttemptFailed():
                step.charge(event.charged)
                step.attempted(event.attempt)
            case StepLost():
                step.charge(event.charged)
                step.notes.append({"kind": "step_lost", "message": event.why})
            case Accepted():
                for action in event.actions:
                    step.call(action.ordinal).update(
                        tool=action.tool,
                        arguments=shown_arguments(action.arguments),
                        key=action.key,
                        action_hash=shown(action.action_hash),
                    )
            case _:
                see_call(step, event)
