"""Idempotency keys: claimed, voided, settled.

A key moves free → intended → started → done; intended and started become free where it is proven
that nothing happened, and unknown where the run ends before that is known. What is done stays done.
"""

import math

from msgspec.structs import replace

from messages.ledger import (
    Claim,
    Claimed,
    ClaimRecord,
    EffectResolved,
    EffectRow,
    Elsewhere,
    Happened,
    Missing,
    Refused,
    ResolveEffect,
    Settle,
    Settled,
    Started,
    Void,
    Voided,
)
from messages.parts import Evidence, Problem
from runtime.ledger.rules.signals import has_cancel
from runtime.ledger.tables import RunHead, Tables

OPEN = ("intended", "started")


def is_open(row: EffectRow) -> bool:
    """The key is held and its outcome not known yet."""
    return row.state in OPEN


def is_error_proof(row: EffectRow) -> bool:
    """A definite error proves that nothing happened: no other request can still arrive.

    It came from the only claim, or from one made later than W after every earlier claim.
    """
    if len(row.claims) <= 1:
        return True
    last = row.claims[-1].at
    return all(last >= claim.at + row.settle_after_s for claim in row.claims[:-1])


# ------------------------------------------------------------------ outcomes
def mark_done(t: Tables, row: EffectRow, evidence: Evidence | None, now: float) -> EffectRow:
    """It happened, with this result; final."""
    done = replace(
        row, state="done", evidence=evidence, problem=None, is_flagged=False, updated_at=now
    )
    t.put_effect(done)
    return done


def mark_free(t: Tables, row: EffectRow, problem: Problem | None, now: float) -> EffectRow:
    """It did not happen, and nothing in flight can make it happen."""
    free = replace(row, state="free", problem=problem, is_flagged=False, updated_at=now)
    t.put_effect(free)
    return free


def mark_unknown(t: Tables, row: EffectRow, problem: Problem | None, now: float) -> None:
    """Nobody can say; a person has to find out."""
    t.put_effect(replace(row, state="unknown", problem=problem, is_flagged=True, updated_at=now))


# ------------------------------------------------------------------ operations
def claim(t: Tables, op: Claim, now: float) -> Claimed | Refused:
    """The executor is about to start: at most one start per grant, and none after the end."""
    row = t.effect(op.tenant, op.key)
    head = t.run(op.tenant, op.run_id)
    if row is None or head is None or row.run_id != op.run_id:
        return Refused(why="NOT_INTENDED")
    for earlier in row.claims:
        if earlier.claim_id == op.claim_id:
            return Claimed(at=earlier.at)
    why = _claim_refusal(t, op, row, head, now)
    if why:
        return Refused(why=why)
    record = ClaimRecord(claim_id=op.claim_id, grant_id=op.grant_id, at=now)
    claims = (*row.claims, record)
    t.put_effect(replace(row, state="started", claims=claims, updated_at=now))
    return Claimed(at=now)


def _claim_refusal(t: Tables, op: Claim, row: EffectRow, head: RunHead, now: float) -> str | None:
    if row.grant_id != op.grant_id:
        return "NOT_LATEST_GRANT"
    if row.state != "intended":
        return "NOT_INTENDED"
    if head.status.is_terminal:
        return "ENDED"
    if now > op.expires_at:
        return "EXPIRED"
    if row.claims:
        # Only a replay, which the downstream recognises by its key, may follow a claim whose
        # outcome is unknown; and it may although a cancel is pending, since it settles the key.
        return None if op.is_replay and row.effect == "replay" else "CLAIMED_BEFORE"
    return "CANCEL_PENDING" if has_cancel(t, head) else None


def void(t: Tables, op: Void, now: float) -> Voided | Started | Happened | Elsewhere:
    """Take back an intent. A key once claimed stays claimed through later intents."""
    row = t.effect(op.tenant, op.key)
    if row is None:
        return Voided()
    if row.state == "free":
        is_asked_about = (row.run_id, row.grant_id) == (op.run_id, op.grant_id)
        return Voided(problem=row.problem if is_asked_about else None)
    if row.run_id != op.run_id:
        return Elsewhere()
    if row.state == "done":
        return Happened(evidence=row.evidence)
    if row.claims:
        return Started(first_claim_at=row.claims[0].at, last_claim_at=row.claims[-1].at, now=now)
    if row.state != "intended":
        return Started(first_claim_at=row.updated_at, last_claim_at=row.updated_at, now=now)
    if row.grant_id != op.grant_id:
        # A later intent of this run: the asker holds a stale copy and must not touch it.
        return Elsewhere()
    mark_free(t, row, None, now)
    return Voided()


def settle(t: Tables, op: Settle, now: float) -> Settled:
    """Record an outcome, even when nobody waits for it any more.

    An ok counts whatever grant of the run it came from. An error frees the key only as proof, and
    a claimant that did not start strikes its claim out; both only for the latest intent.
    """
    row = t.effect(op.tenant, op.key)
    is_proof = _settle(t, op, row, now) if row and row.run_id == op.run_id else op.outcome == "ok"
    return Settled(is_proof=is_proof, now=now)


def _settle(t: Tables, op: Settle, row: EffectRow, now: float) -> bool:
    if op.outcome == "ok":
        if row.state != "done":
            mark_done(t, row, op.evidence, now)
        return True
    if row.state == "done" or row.grant_id != op.grant_id:
        return False
    if op.outcome == "not_started":
        _unclaim(t, row, op.claim_id, now)
        return True
    is_latest = not row.claims or row.claims[-1].claim_id == op.claim_id
    if not is_latest or not is_error_proof(row):
        return False
    if row.state != "free":
        mark_free(t, row, op.problem, now)
    return True


def _unclaim(t: Tables, row: EffectRow, claim_id: str, now: float) -> None:
    claims = tuple(claim for claim in row.claims if claim.claim_id != claim_id)
    if claims == row.claims:
        return
    struck = replace(row, claims=claims, updated_at=now)
    if claims:
        state = "intended" if row.state == "started" else row.state
        t.put_effect(replace(struck, state=state))
        return
    # No request was ever sent under this key, so even an unknown one is known not to have happened.
    mark_free(t, struck, None, now)


def resolve(t: Tables, op: ResolveEffect, now: float) -> EffectResolved | Refused | Missing:
    """A person found out what became of an unknown key; the first finding stands."""
    row = t.effect(op.tenant, op.key)
    if row is None:
        return Missing(kind="key", name=op.key)
    if op.run_id and op.run_id != row.run_id:
        return Refused(why="NOT_HELD", message=f"run {row.run_id} holds the key by now")
    if row.state != "unknown":
        return Refused(why="NOT_UNKNOWN", message=f"the key is {row.state}")
    found = replace(row, person=op.person, why=op.why)
    if op.finding == "happened":
        return EffectResolved(effect=mark_done(t, found, op.evidence, now))
    settled_by = max((claim.at for claim in row.claims), default=0.0) + row.settle_after_s
    if row.claims and now < settled_by:
        left_s = math.ceil(settled_by - now)
        message = f"its request may still arrive: look again in {left_s} s, then say so"
        return Refused(why="TOO_EARLY", message=message)
    return EffectResolved(effect=mark_free(t, found, None, now))
