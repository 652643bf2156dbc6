"""Operations on idempotency keys: claim, void, settle, resolve."""

from typing import Literal

from messages.base import Message, Timestamp
from messages.ledger.common import LedgerRequest, Missing, Refused
from messages.ledger.rows import EffectRow
from messages.parts import Evidence, Problem


class Claimed(Message, kw_only=True, tag="claimed/1"):
    """The write may start."""

    at: Timestamp


class Claim(LedgerRequest[Claimed | Refused], kw_only=True, tag="claim/1"):
    """The executor is about to start this write."""

    verb = "claim"

    tenant: str
    run_id: str
    key: str
    grant_id: str
    claim_id: str
    expires_at: Timestamp
    """The grant's."""
    is_replay: bool = False


class Voided(Message, kw_only=True, tag="voided/1"):
    """The key is free: the write never started, or is known not to have happened."""

    problem: Problem | None = None
    """The definite error that freed it, settled by its executor and not observed yet."""


class Started(Message, kw_only=True, tag="started/1"):
    """The key was claimed; its outcome is not known."""

    first_claim_at: Timestamp = 0.0
    last_claim_at: Timestamp
    now: Timestamp


class Happened(Message, kw_only=True, tag="happened/1"):
    """The outcome has been settled: it happened."""

    evidence: Evidence | None = None


class Elsewhere(Message, kw_only=True, tag="elsewhere/1"):
    """Another run holds the key."""


class Void(LedgerRequest[Voided | Started | Happened | Elsewhere], kw_only=True, tag="void/1"):
    """By the run that holds the key: intended and never claimed becomes free."""

    verb = "void"

    tenant: str
    run_id: str
    key: str
    grant_id: str


class Settled(Message, kw_only=True, tag="settled/1"):
    """Recorded. ``is_proof`` false: an error that does not prove that nothing happened."""

    is_proof: bool
    now: Timestamp


class Settle(LedgerRequest[Settled], kw_only=True, tag="settle/1"):
    """The executor's outcome of a write; durable even if the orchestrator is gone."""

    verb = "settle"

    tenant: str
    run_id: str
    key: str
    grant_id: str
    claim_id: str
    outcome: Literal["ok", "error", "not_started"]
    evidence: Evidence | None = None
    problem: Problem | None = None


class EffectResolved(Message, kw_only=True, tag="effect-resolved/1"):
    """A person said what became of a flagged key; it is done or free now."""

    effect: EffectRow


class ResolveEffect(
    LedgerRequest[EffectResolved | Refused | Missing], kw_only=True, tag="resolve-effect/1"
):
    """Settle an unknown key by hand, compare-and-set on its row."""

    verb = "resolve-effect"

    tenant: str
    key: str
    run_id: str = ""
    """Whose attempt was looked at; another run's is not settled by it. Empty: whoever holds it."""
    finding: Literal["happened", "absent"]
    person: str
    evidence: Evidence | None = None
    why: str = ""
