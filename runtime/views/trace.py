"""One run as ``trace`` prints it: its steps in order, what each took, cost and called.

Read off the journal alone, so a trace is the same for a running run, an ended one and a data
directory. Times are those of the record: a step ends with the last entry that speaks of it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from messages.base import Timestamp
from messages.canon import canonical, shown
from messages.events import (
    Accepted,
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    AttemptFailed,
    Authorised,
    CompletionRejected,
    Decided,
    Finished,
    Judged,
    Observed,
    ProgressFlagged,
    ProposalRejected,
    Rechecked,
    Reconciled,
    Resumed,
    StepLost,
    StepReserved,
    Suspended,
    Verified,
)
from messages.ledger import Entry, RunRow
from messages.parts import Amount, Attempt, Evidence, JsonValue
from messages.state import LoopState
from runtime.loop.strategies.loop import read_turn
from runtime.views.run import usage_view
from runtime.views.values import View, iso, iso_or_none, limits_view, problem_view, seconds, usd

_ARGUMENT_BYTES = 2048
"""Larger arguments are left out of a trace; ``effects show`` has them."""


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


@dataclass(kw_only=True)
class _Step:
    """One step, or the final turn, while its events come by."""

    number: int
    is_final: bool
    started_at: Timestamp
    ended_at: Timestamp
    tokens: int = 0
    cost_microusd: int = 0
    failed: int = 0
    model: View | None = None
    calls: dict[int, View] = field(default_factory=dict[int, View])
    notes: list[View] = field(default_factory=list[View])

    def call(self, ordinal: int) -> View:
        """The call of that ordinal, begun if it is new."""
        return self.calls.setdefault(ordinal, {"ordinal": ordinal, "tool": None, "outcome": None})

    def decided(self, event: Decided) -> None:
        """The turn: what it asks for, before anybody has looked at it."""
        proposal, calls = read_turn(event.content, event.stop_reason, is_final=self.is_final)
        tried = self.failed + (len(event.attempts) or 1)
        self.model = {**_model(event), "attempts": tried, "proposes": proposal.kind}
        for call in calls:
            asked = {"tool": call.tool, "arguments": _arguments(call.arguments)}
            self.call(call.ordinal).update(asked)

    def attempted(self, attempt: Attempt) -> None:
        """The model was asked and failed; the step goes on."""
        if not self.failed:
            self.started_at = attempt.started_at
        self.failed += 1
        message = attempt.error.message if attempt.error else ""
        tried = {"request_id": attempt.request_id, "seconds": seconds(attempt.duration_s)}
        self.notes.append({"kind": "attempt_failed", "message": message, **tried})

    def charge(self, amount: Amount) -> None:
        self.tokens += amount.tokens
        self.cost_microusd += amount.cost_microusd

    def view(self, origin: Timestamp) -> View:
        calls = [_offset(call, origin) for _, call in sorted(self.calls.items())]
        return {
            "step": None if self.is_final else self.number,
            "is_final": self.is_final,
            "started_at": iso(self.started_at),
            "offset_seconds": seconds(self.started_at - origin),
            "seconds": seconds(max(0.0, self.ended_at - self.started_at)),
            "tokens": self.tokens,
            "usd": usd(self.cost_microusd),
            "model": self.model,
            "calls": calls,
            "notes": self.notes,
        }


def _offset(call: View, origin: Timestamp) -> View:
    started = call.pop("started", None)
    if started is None:
        return call
    times = {"started_at": iso(started), "offset_seconds": seconds(max(0.0, started - origin))}
    return {**call, **times}


class _Tracer:
    """Sorts the events of a journal into steps and waits."""

    def __init__(self) -> None:
        self.steps: dict[tuple[int, bool], _Step] = {}
        self.waits: list[_Wait] = []
        self._is_final = False
        """The tool-free final turn is under way; it bears the number of the last step."""

    def see(self, entry: Entry, event: AnyEvent) -> None:
        """One event, in order."""
        match event:
            case StepReserved(reservation=held):
                self._is_final = held.is_final
                _ = self._step(held.step, entry.at)
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

    def _step(self, number: int, at: Timestamp) -> _Step:
        """The step of that number, begun if it is new."""
        key = (number, self._is_final)
        if key not in self.steps:
            self.steps[key] = _Step(
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
                        arguments=_arguments(action.arguments),
                        key=action.key,
                        action_hash=shown(action.action_hash),
                    )
            case _:
                _see_call(step, event)


def _model(event: Decided) -> View:
    return {
        "model": event.model,
        "seconds": seconds(event.duration_s),
        "stop_reason": event.stop_reason,
        "input_tokens": event.usage.input_tokens,
        "output_tokens": event.usage.output_tokens,
        "cache_read_tokens": event.usage.cache_read_tokens,
        "request_id": event.request_id,
    }


def _arguments(arguments: JsonValue) -> JsonValue:
    return arguments if len(canonical(arguments)) <= _ARGUMENT_BYTES else {"omitted": "too_large"}


def _see_call(step: _Step, event: AnyEvent) -> None:
    """What became of the calls of a step, and what was said of the step as a whole."""
    match event:
        case Authorised():
            for verdict in event.verdicts:
                verdict_view = {"decision": verdict.decision, "rule": verdict.rule}
                step.call(verdict.ordinal).update(verdict_view)
        case ApprovalRequested() | ApprovalResolved():
            call = step.call(event.ordinal)
            call["approval"] = {**call.get("approval", {}), **_approval(event)}
        case Observed():
            step.call(event.ordinal).update(
                outcome=event.kind, problem=problem_view(event.problem), **_seen(event.evidence)
            )
        case Reconciled():
            found = {"finding": event.finding, "how": event.how}
            step.call(event.ordinal).update(found, **_seen(event.evidence))
        case ProposalRejected(ordinal=int(ordinal)):
            step.call(ordinal).update(outcome="rejected", problem=problem_view(event.problem))
        case Rechecked(unmet=str(unmet)):
            step.call(event.ordinal)["unmet"] = unmet
        case _:
            step.notes.extend(_notes(event))


def _approval(event: ApprovalRequested | ApprovalResolved) -> View:
    if isinstance(event, ApprovalRequested):
        return {"id": event.approval_id, "group": event.group, "decision": None, "person": None}
    return {"id": event.approval_id, "decision": event.decision, "person": event.person}


def _seen(evidence: Evidence | None) -> View:
    """Where the observation comes from; its time is when the answer was there."""
    if evidence is None:
        return {}
    seen = {"tool": evidence.tool, "evidence_id": evidence.id, "source": evidence.source}
    if evidence.reused:  # nothing was started
        return {**seen, "reused": evidence.reused, "seconds": 0.0}
    return {
        **seen,
        "started": evidence.fetched_at - evidence.duration_s,
        "seconds": seconds(evidence.duration_s),
    }


def _notes(event: AnyEvent) -> Iterable[View]:
    match event:
        case ProposalRejected() | CompletionRejected():
            kind = "rejected" if isinstance(event, ProposalRejected) else "not_complete"
            yield {"kind": kind, "message": event.problem.message}
        case Judged():
            yield {"kind": "not_complete", "message": event.unmet}
        case ProgressFlagged():
            yield {"kind": event.kind, "message": event.message}
        case Verified():
            yield {"kind": "verified", "message": f"{event.key} {_finding(event)}"}
        case _:
            return


def _finding(event: Verified) -> str:
    if event.problem is not None:
        return f"could not be looked up: {event.problem.message}"
    return "is there" if event.is_there else "is not there"
