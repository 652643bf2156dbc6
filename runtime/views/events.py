"""The journal as ``watch`` and the ``events`` verb print it: one small line per event.

A line says what happened and with which call, key, code or size; never arguments, results or model
text. Whoever wants those asks for ``show`` or ``trace``.
"""

from collections.abc import Iterable
from typing import assert_never

from messages.canon import shown
from messages.events import (
    Accepted,
    AnyEvent,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalResolved,
    Assessed,
    AttemptFailed,
    Authorised,
    ChildEnded,
    ChildStarted,
    CompletionAccepted,
    CompletionRejected,
    Consulted,
    Decided,
    Finished,
    HandedOver,
    HumanAnswered,
    HumanAsked,
    Intended,
    Judged,
    Observed,
    Planned,
    ProgressFlagged,
    ProposalRejected,
    Rechecked,
    Reconciled,
    Resumed,
    RunCreated,
    StepLost,
    StepReserved,
    Suspended,
    Verified,
    kind_of,
)
from messages.ledger import Entry
from messages.parts import Evidence
from runtime.views.events_step import of_step
from runtime.views.values import (
    View,
    hash_or_none,
    iso,
    iso_or_none,
    seconds,
    short,
    short_problem,
    usd,
)


def event_line(entry: Entry, event: AnyEvent) -> View:
    """One event as a line: ``{v, run_id, version, at, kind, step, …}``."""
    return _line(_head(entry), event)


def entry_lines(entry: Entry) -> list[View]:
    """Every event of an entry, in order."""
    head = _head(entry)
    return [_line(head, event) for event in entry.events]


def event_lines(entries: Iterable[Entry]) -> list[View]:
    """Every event of the entries, in order."""
    return [line for entry in entries for line in entry_lines(entry)]


def _head(entry: Entry) -> View:
    return {"v": 1, "run_id": entry.run_id, "version": entry.version, "at": iso(entry.at)}


def _line(head: View, event: AnyEvent) -> View:
    return {**head, "kind": kind_of(event), "step": _step(event), **_fields(event)}


def _step(event: AnyEvent) -> int | None:
    if isinstance(event, StepReserved):
        return event.reservation.step
    step: int | None = getattr(event, "step", None)
    return step


def _fields(event: AnyEvent) -> View:
    match event:
        case AttemptFailed(charged=charged, attempt=attempt):
            cost = {"tokens": charged.tokens, "usd": usd(charged.cost_microusd)}
            tried = {"request_id": attempt.request_id, "seconds": seconds(attempt.duration_s)}
            return {**cost, **tried, **short_problem(attempt.error)}
        case StepReserved() | StepLost() | Decided() | Consulted() | ProposalRejected():
            return of_step(event)
        case (
            Accepted()
            | ProgressFlagged()
            | Assessed()
            | Judged()
            | CompletionAccepted()
            | CompletionRejected()
        ):
            return _of_check(event)
        case Authorised() | Rechecked() | Intended() | Observed() | Reconciled() | Verified():
            return _of_effect(event)
        case ApprovalRequested() | ApprovalResolved() | ApprovalExpired():
            return _of_approval(event)
        case HumanAsked() | HumanAnswered():
            return _of_question(event)
        case Planned():
            return {"steps": len(event.plan)}
        case _:
            return _of_run(event)


def _of_check(
    event: Accepted | ProgressFlagged | Assessed | Judged | CompletionAccepted | CompletionRejected,
) -> View:
    match event:
        case Accepted(actions=actions):
            calls = [
                {
                    "ordinal": action.ordinal,
                    "tool": action.tool,
                    "key": action.key,
                    "action_hash": shown(action.action_hash),
                }
                for action in actions
            ]
            return {"calls": calls}
        case ProgressFlagged():
            return {"ordinal": event.ordinal, "flag": event.kind, "level": event.level}
        case Assessed() | CompletionAccepted():
            return {}
        case Judged():
            return {"unmet": short(event.unmet)}
        case CompletionRejected():
            return short_problem(event.problem)
        case _:
            assert_never(event)


def _of_effect(
    event: Authorised | Rechecked | Intended | Observed | Reconciled | Verified,
) -> View:
    match event:
        case Authorised():
            return _authorised(event)
        case Rechecked():
            return {"ordinal": event.ordinal, "unmet": short(event.unmet)}
        case Intended():
            call = {"ordinal": event.ordinal, "tool": event.tool, "key": event.key}
            return {**call, "action_hash": shown(event.action_hash)}
        case Observed():
            return {
                "ordinal": event.ordinal,
                "outcome": event.kind,
                **_evidence(event.evidence),
                **short_problem(event.problem),
            }
        case Reconciled():
            return {
                "ordinal": event.ordinal,
                "key": event.key,
                "finding": event.finding,
                "how": event.how,
                **_evidence(event.evidence),
                **short_problem(event.problem),
            }
        case Verified():
            return {
                "key": event.key,
                "is_there": None if event.problem else event.is_there,
                **_evidence(event.evidence),
                **short_problem(event.problem),
            }
        case _:
            assert_never(event)


def _authorised(event: Authorised) -> View:
    verdicts = [
        {
            "ordinal": verdict.ordinal,
            "decision": verdict.decision,
            "rule": verdict.rule,
            "group": verdict.group,
        }
        for verdict in event.verdicts
    ]
    grant = event.grant.id if event.grant else None
    return {"verdicts": verdicts, "policy": event.policy, "grant_id": grant}


def _of_approval(event: ApprovalRequested | ApprovalResolved | ApprovalExpired) -> View:
    call: View = {"ordinal": event.ordinal, "approval_id": event.approval_id}
    match event:
        case ApprovalRequested():
            return {
                **call,
                "tool": event.tool,
                "key": event.key,
                "action_hash": hash_or_none(event.action_hash),
                "group": event.group,
                "size": event.size,
                "rule": event.rule,
                "expires_at": iso(event.expires_at),
            }
        case ApprovalResolved():
            person = {"decision": event.decision, "person": event.person}
            return {**call, **person, "reason": short(event.reason)}
        case ApprovalExpired():
            return call
        case _:
            assert_never(event)


def _of_question(event: HumanAsked | HumanAnswered) -> View:
    match event:
        case HumanAsked():
            asked = {"question_id": event.question_id, "group": event.group}
            return {**asked, "text": short(event.text)}
        case HumanAnswered():
            return {"question_id": event.question_id, "person": event.person}
        case _:
            assert_never(event)


def _of_run(
    event: RunCreated | Suspended | Resumed | HandedOver | ChildStarted | ChildEnded | Finished,
) -> View:
    match event:
        case RunCreated():
            created = {"agent": event.agent, "principal": event.identity.principal}
            return {**created, "trace_id": event.trace_id, "continues": event.continues}
        case Suspended():
            reason = short(event.reason)
            return {"status": event.status, "reason": reason, "until": iso_or_none(event.until)}
        case Resumed():
            return {"why": short(event.why)}
        case HandedOver():
            return {"source": event.source, "target": event.target}
        case ChildStarted():
            return {"children": [child.run_id for child in event.children]}
        case ChildEnded():
            return {"child": event.run_id, "status": event.status, "reason": event.reason}
        case Finished():
            end = {"status": event.status, "reason": event.reason, "person": event.person}
            return {**end, "why": short(event.why)}
        case _:
            assert_never(event)


def _evidence(evidence: Evidence | None) -> View:
    if evidence is None:
        return {}
    return {
        "tool": evidence.tool,
        "evidence_id": evidence.id,
        "request_id": evidence.request_id,
        "source": evidence.source,
        "seconds": seconds(evidence.duration_s),
        **({"reused": evidence.reused} if evidence.reused else {}),
    }
