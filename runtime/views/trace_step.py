"""One step of a trace: what was asked and answered, its calls, and what was said of it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from messages.base import Timestamp
from messages.canon import canonical
from messages.events import (
    AnyEvent,
    ApprovalRequested,
    ApprovalResolved,
    Authorised,
    CompletionRejected,
    Consulted,
    Decided,
    Judged,
    Observed,
    ProgressFlagged,
    ProposalRejected,
    Rechecked,
    Reconciled,
    Verified,
)
from messages.parts import Amount, Attempt, Evidence, JsonValue
from runtime.loop.strategies.loop import read_turn
from runtime.views.values import View, iso, problem_view, seconds, usd

_ARGUMENT_BYTES = 2048
"""Larger arguments are left out of a trace; ``effects show`` has them."""


@dataclass(kw_only=True)
class Step:
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
        self._note_over(event)
        for call in calls:
            asked = {"tool": call.tool, "arguments": shown_arguments(call.arguments)}
            self.call(call.ordinal).update(asked)

    def attempted(self, attempt: Attempt) -> None:
        """The model was asked and failed; the step goes on."""
        if not self.failed:
            self.started_at = attempt.started_at
        self.failed += 1
        message = attempt.error.message if attempt.error else ""
        tried = {"request_id": attempt.request_id, "seconds": seconds(attempt.duration_s)}
        self.notes.append({"kind": "attempt_failed", "message": message, **tried})

    def consulted(self, event: Consulted) -> None:
        """The model was asked beside the steps, before this one."""
        self.charge(event.charged)
        told = f"{event.purpose} by {event.model}, {event.usage.tokens:,} tokens"
        took = {"request_id": event.request_id, "seconds": seconds(event.duration_s)}
        self.notes.append({"kind": "consulted", "message": told, **took})
        self._note_over(event)

    def _note_over(self, event: Decided | Consulted) -> None:
        if event.is_over_reservation:
            message = f"{event.charged.tokens:,} tokens were charged, more than was reserved"
            self.notes.append({"kind": "over_reservation", "message": message})

    def charge(self, amount: Amount) -> None:
        """What it cost so far, this included."""
        self.tokens += amount.tokens
        self.cost_microusd += amount.cost_microusd

    def view(self, origin: Timestamp) -> View:
        """As it is printed; ``origin``: when the run was created."""
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


def shown_arguments(arguments: JsonValue) -> JsonValue:
    """Arguments, unless they are too large for a trace."""
    return arguments if len(canonical(arguments)) <= _ARGUMENT_BYTES else {"omitted": "too_large"}


def see_call(step: Step, event: AnyEvent) -> None:
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
