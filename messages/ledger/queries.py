"""Artifacts and listings."""

from messages.base import Message, Timestamp
from messages.ledger.common import Done, LedgerRequest, Missing, Refused
from messages.ledger.rows import ApprovalRow, EffectRow, RunRow
from messages.status import Status


class Keep(LedgerRequest[Done | Refused], kw_only=True, tag="keep/1"):
    """One part of an artifact, named by the SHA-256 of the whole, which is checked at the last."""

    verb = "keep"

    tenant: str
    sha256: str
    part: int = 0
    parts: int = 1
    data: bytes


class Fetched(Message, kw_only=True, tag="fetched/1"):
    """One part of an artifact."""

    part: int
    parts: int
    data: bytes


class Fetch(LedgerRequest[Fetched | Missing], kw_only=True, tag="fetch/1"):
    """One part of an artifact."""

    verb = "fetch"

    tenant: str
    sha256: str
    part: int = 0


class RunRows(Message, kw_only=True, tag="run-rows/1"):
    """Runs, newest first."""

    rows: tuple[RunRow, ...]


class ListRuns(LedgerRequest[RunRows], kw_only=True, tag="list-runs/1"):
    """Runs that match all that is given; open ones only unless ``statuses`` says otherwise."""

    verb = "list-runs"

    tenant: str
    statuses: tuple[Status, ...] = ()
    is_open_only: bool = True
    agent: str | None = None
    labels: dict[str, str] = {}
    since: Timestamp | None = None
    limit: int = 50


class ApprovalRows(Message, kw_only=True, tag="approval-rows/1"):
    """Approvals, oldest first."""

    rows: tuple[ApprovalRow, ...]


class ListApprovals(LedgerRequest[ApprovalRows], kw_only=True, tag="list-approvals/1"):
    """Approvals of a tenant; the pending ones unless told otherwise."""

    verb = "list-approvals"

    tenant: str
    ids: tuple[str, ...] = ()
    """These, whatever their state."""
    run_id: str | None = None
    is_pending_only: bool = True
    limit: int = 100


class EffectRows(Message, kw_only=True, tag="effect-rows/1"):
    """Keys of the idempotency ledger, newest first."""

    rows: tuple[EffectRow, ...]


class ListEffects(LedgerRequest[EffectRows], kw_only=True, tag="list-effects/1"):
    """Keys of a tenant that match all that is given."""

    verb = "list-effects"

    tenant: str
    keys: tuple[str, ...] = ()
    run_id: str | None = None
    is_unresolved_only: bool = False
    """Flagged, or unknown."""
    limit: int = 100
