"""Approvals as the inbox shows them, and as the run that waits for them does."""

from messages.canon import shown
from messages.ledger import ApprovalRow
from messages.parts import JsonValue
from messages.state import LoopState
from runtime.views.values import View, iso, iso_or_none


def approval_row(row: ApprovalRow) -> View:
    """One line of ``approvals``."""
    return {
        "id": row.id,
        "run_id": row.run_id,
        "agent": row.agent,
        "tool": row.tool,
        "action_hash": shown(row.action_hash),
        "group": row.group,
        "size": row.size,
        "expires_at": iso(row.expires_at),
        "state": row.state,
        "requested_at": iso(row.requested_at),
        "rule": row.rule,
        "why": row.why,
    }


def approval_detail(row: ApprovalRow, package: JsonValue = None) -> View:
    """``approvals show ID``: the line, who asked and decided, and the package an approver sees.

    Args:
        row: The approval as the ledger keeps it.
        package: What its package hash names, decoded; None where it cannot be fetched.
    """
    return {
        **approval_row(row),
        "action_sha256": row.action_hash,
        "key": row.key,
        "step": row.step,
        "principal": row.principal,
        "package": package,
        "package_sha256": row.package,
        "decision": _decision(row),
    }


def waiting_approvals(state: LoopState) -> list[View]:
    """The approvals of the open turn's calls that have no result yet, in the order of the calls."""
    calls = state.turn.calls if state.turn is not None else ()
    return [
        {
            "id": call.approval_id,
            "action_hash": shown(call.action.action_hash) if call.action else "",
            "expires_at": iso_or_none(call.approval_expires_at),
            "tool": call.tool,
            "group": call.group,
            "is_approved": call.phase not in {"asking", "waiting"},
        }
        for call in calls
        if call.approval_id is not None and call.phase != "observed"
    ]


def _decision(row: ApprovalRow) -> View | None:
    if row.decided_at is None and row.state == "pending":
        return None
    return {
        "state": row.state,
        "person": row.person,
        "channel": row.channel,
        "reason": row.reason,
        "decided_at": iso_or_none(row.decided_at),
    }
