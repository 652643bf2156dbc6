"""One effect: its row in the idempotency ledger, and the whole chain of who allowed what.

``effect_chain`` answers G23 for one key: decision, validation, authorisation, approval and what the
approver saw, intent, execution, record, each read off the journal of the run that holds the key.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from messages.base import Timestamp
from messages.canon import shown
from messages.events import (
    Accepted,
    AnyEvent,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalResolved,
    Authorised,
    Decided,
    Intended,
    Observed,
    Rechecked,
    Reconciled,
    Verified,
)
from messages.ledger import ApprovalRow, ClaimRecord, EffectRow, Entry
from messages.parts import Action, JsonValue
from runtime.views.approvals import approval_detail
from runtime.views.events import event_line
from runtime.views.values import View, evidence_view, iso, problem_view, seconds

EventT = TypeVar("EventT", bound=AnyEvent)
Placed = tuple[Entry, EventT]


def effect_row(row: EffectRow) -> View:
    """One line of ``effects ls``."""
    return {
        "key": row.key,
        "state": row.state,
        "run_id": row.run_id,
        "step": row.step,
        "tool": row.tool,
        "action_hash": shown(row.action_hash),
        "effect": row.effect,
        "claims": len(row.claims),
        "is_flagged": row.is_flagged,
        "resolved_by": row.person or None,
        "resolved_why": row.why or None,
        "updated_at": iso(row.updated_at),
    }


def effect_chain(
    row: EffectRow,
    entries: Sequence[Entry],
    approvals: Iterable[ApprovalRow] = (),
    packages: dict[str, JsonValue] | None = None,
) -> View:
    """``effects show KEY``: the row and everything that led to it and came of it.

    Args:
        row: The key as the ledger keeps it.
        entries: The whole journal of the run that holds it.
        approvals: Approvals of that run.
        packages: What approvers were shown, by its hash, as far as it could be fetched.
    """
    journal = [(entry, event) for entry in entries for event in entry.events]
    action = _action(row, journal)
    place = (row.step, row.ordinal if action is None else action.ordinal)
    return {
        **effect_row(row),
        "action_sha256": row.action_hash,
        "settle_after_seconds": row.settle_after_s,
        "decision": _decision(row, journal),
        "validation": _validation(action),
        "authorisation": _authorisation(place, journal),
        "approval": _approval(row, approvals, packages or {}),
        "approval_events": _lines_of_approval(place, journal),
        "recheck": _lines(journal, Rechecked, lambda e: (e.step, e.ordinal) == place),
        "intent": _lines(journal, Intended, lambda e: e.key == row.key),
        "execution": [_claim(claim) for claim in row.claims],
        "record": _record(row, place, journal),
    }


def _of_kind(journal: Iterable[Placed[AnyEvent]], kind: type[EventT]) -> list[Placed[EventT]]:
    return [(entry, event) for entry, event in journal if isinstance(event, kind)]


def _lines(
    journal: Iterable[Placed[AnyEvent]], kind: type[EventT], is_wanted: Callable[[EventT], bool]
) -> list[View]:
    found = _of_kind(journal, kind)
    return [_line(entry, event) for entry, event in found if is_wanted(event)]


def _line(entry: Entry, event: AnyEvent) -> View:
    """A link of the chain: the event's line without what the chain has said already."""
    line = event_line(entry, event)
    return {name: value for name, value in line.items() if name not in {"v", "run_id"}}


def _action(row: EffectRow, journal: Iterable[Placed[AnyEvent]]) -> Action | None:
    """The last accepted action of that key: an approved call is accepted twice."""
    found = [
        action
        for _, event in _of_kind(journal, Accepted)
        for action in event.actions
        if action.key == row.key and event.step == row.step
    ]
    return found[-1] if found else None


def _decision(row: EffectRow, journal: Iterable[Placed[AnyEvent]]) -> View | None:
    for entry, event in _of_kind(journal, Decided):
        if event.step == row.step:
            calls = [block for block in event.content if block.get("type") == "tool_use"]
            proposal = calls[row.ordinal] if row.ordinal < len(calls) else None
            return {**_line(entry, event), "request_id": event.request_id, "proposal": proposal}
    return None


def _validation(action: Action | None) -> View | None:
    if action is None:
        return None
    return {
        "tool": action.tool,
        "arguments": action.arguments,
        "key": action.key,
        "action_hash": shown(action.action_hash),
        "size": action.size,
    }


def _authorisation(place: tuple[int, int], journal: Iterable[Placed[AnyEvent]]) -> list[View]:
    step, ordinal = place
    return [
        {
            "version": entry.version,
            "at": iso(entry.at),
            "decision": verdict.decision,
            "rule": verdict.rule,
            "why": verdict.why,
            "group": verdict.group,
            "size": verdict.size,
            "policy": event.policy,
            "grant_id": event.grant.id if event.grant else None,
        }
        for entry, event in _of_kind(journal, Authorised)
        if event.step == step
        for verdict in event.verdicts
        if verdict.ordinal == ordinal
    ]


def _approval(
    row: EffectRow, approvals: Iterable[ApprovalRow], packages: dict[str, JsonValue]
) -> View | None:
    """The approval this effect ran under; the newest, where an expired one was asked again."""
    found = [
        approval
        for approval in approvals
        if (approval.step, approval.ordinal) == (row.step, row.ordinal)
        and approval.action_hash == row.action_hash
    ]
    if not found:
        return None
    newest = max(found, key=_requested)
    return approval_detail(newest, packages.get(newest.package))


def _requested(approval: ApprovalRow) -> Timestamp:
    return approval.requested_at


def _lines_of_approval(place: tuple[int, int], journal: list[Placed[AnyEvent]]) -> list[View]:
    kinds = (ApprovalRequested, ApprovalResolved, ApprovalExpired)
    return [
        _line(entry, event)
        for entry, event in journal
        if isinstance(event, kinds) and (event.step, event.ordinal) == place
    ]


def _claim(claim: ClaimRecord) -> View:
    return {"claim_id": claim.claim_id, "grant_id": claim.grant_id, "at": iso(claim.at)}


def _record(row: EffectRow, place: tuple[int, int], journal: list[Placed[AnyEvent]]) -> View:
    return {
        "state": row.state,
        "observed": _lines(journal, Observed, lambda e: (e.step, e.ordinal) == place),
        "reconciled": _lines(journal, Reconciled, lambda e: e.key == row.key),
        "verified": _lines(journal, Verified, lambda e: e.key == row.key),
        "evidence": evidence_view(row.evidence) if row.evidence else None,
        "problem": problem_view(row.problem),
        "is_flagged": row.is_flagged,
        "settled_seconds": _settled(row),
    }


def _settled(row: EffectRow) -> float | None:
    """From the first claim to the last change of the row."""
    return seconds(row.updated_at - row.claims[0].at) if row.claims else None
