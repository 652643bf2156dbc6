"""Defects of the ledger's rules."""

# Private parts are replaced by what is simpler than their types.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any

from msgspec.structs import replace

from actors.orchestrator import execute, reconcile
from messages.ledger import Claim, Claimed, ClaimRecord, Void, Voided
from runtime.ledger.rules import agree, append, derive, effects
from runtime.policy.grants import Verifier
from tests.simulation.plants.plant import Mix, Patch, Plant

PAUSED = Mix(faults={"freeze": 2, "slow": 2, "loss": 1})
SHARED = Mix(kinds=("shared",), faults={"kill": 1, "slow": 1})


def no_effects_table(patch: Patch) -> None:
    patch.put(append, "taken_keys", lambda *_: ())


def no_version_check(patch: Patch) -> None:
    patch.put(append, "_out_of_turn", lambda *_: None)


def absent_at_once(patch: Patch) -> None:
    patch.put(agree, "_is_absent", lambda *_: True)
    was = patch.put(reconcile, "tool_of", None)

    def impatient(hand: Any, call: Any) -> Any:
        spec = was(hand, call)
        return replace(spec, timeout_s=0.0, late_commit_s=0.0)

    patch.put(reconcile, "tool_of", impatient)


def claims_twice(patch: Patch) -> None:
    """Any grant of the run may claim, and as often as it is sent."""

    def claim(t: Any, op: Claim, now: float) -> Any:
        row = t.effect(op.tenant, op.key)
        if row is not None:
            record = ClaimRecord(claim_id=op.claim_id, grant_id=op.grant_id, at=now)
            t.put_effect(replace(row, state="started", claims=(*row.claims, record)))
        return Claimed(at=now)

    patch.put(effects, "claim", claim)


def claims_expired(patch: Patch) -> None:
    verify = patch.put(Verifier, "verify", None)

    def timeless(self: Any, grant: Any, *, now: float, skew_s: float, **more: Any) -> Any:
        del now, skew_s
        return verify(self, grant, now=0.0, skew_s=0.0, **more)

    patch.put(Verifier, "verify", timeless)
    refusal = patch.put(effects, "_claim_refusal", None)
    patch.put(
        effects,
        "_claim_refusal",
        lambda t, op, row, head, now: refusal(t, replace(op, expires_at=9e12), row, head, now),
    )


def claims_forgotten(patch: Patch) -> None:
    """A new intent of a claimed key looks as if it had never been claimed."""
    intend = patch.put(derive, "_intend", None)

    def anew(t: Any, head: Any, event: Any, now: float) -> None:
        intend(t, head, event, now)
        t.put_effect(replace(t.effect(head.tenant, event.key), claims=()))

    patch.put(derive, "_intend", anew)


def voids_claimed(patch: Patch) -> None:
    def void(t: Any, op: Void, now: float) -> Any:
        row = t.effect(op.tenant, op.key)
        if row is not None and row.run_id == op.run_id and row.state in {"intended", "started"}:
            effects.mark_free(t, row, None, now)
            return Voided()
        return true_void(t, op, now)

    true_void = patch.put(effects, "void", void)


def any_error_is_proof(patch: Patch) -> None:
    for owner in (effects, derive, agree):
        patch.put(owner, "is_error_proof", lambda _row: True)


def open_keys_stay(patch: Patch) -> None:
    patch.put(derive, "_close_key", lambda *_: None)


def cancelled_claims(patch: Patch) -> None:
    patch.put(effects, "has_cancel", lambda *_: False)
    source = execute._intend

    async def intend(hand: Any, ordinals: Any) -> bool:
        await source(hand, ordinals)
        return True

    patch.put(execute, "_intend", intend)


LEDGER = (
    Plant(
        name="no effects table",
        shows=("double_effect",),
        without="KeysTaken",
        breaks=no_effects_table,
        mix=SHARED,
    ),
    Plant(
        name="no version check",
        shows=("fork",),
        without="an append must follow the head",
        breaks=no_version_check,
        mix=PAUSED,
    ),
    Plant(
        name="reconcile without waiting W",
        shows=("double_effect", "free_but_done"),
        without="absent counts only later than W after the claim",
        breaks=absent_at_once,
        mix=Mix(kinds=("book", "parallel"), faults={"downstream": 2, "kill": 2, "loss": 1}),
    ),
    Plant(
        name="claimed by any grant",
        shows=("double_effect",),
        without="a write is claimed once",
        breaks=claims_twice,
        mix=Mix(kinds=("book", "gift"), faults={"repeat": 2, "slow": 2}, has_rogue=True),
    ),
    Plant(
        name="grant expiry ignored",
        shows=("claim_late",),
        without="a grant expires",
        breaks=claims_expired,
        mix=Mix(kinds=("pay", "book"), faults={"slow": 2, "freeze": 2}),
    ),
    Plant(
        name="a claim is forgotten by the next intent",
        shows=("free_but_done", "double_effect"),
        without="a key once claimed stays claimed",
        breaks=claims_forgotten,
        mix=Mix(kinds=("once",), faults={"downstream": 2, "kill": 1, "loss": 2, "slow": 0}),
    ),
    Plant(
        name="a claimed key is voided",
        shows=("double_effect", "free_but_done"),
        without="only what was never claimed is voided",
        breaks=voids_claimed,
        mix=Mix(kinds=("book", "gift"), faults={"downstream": 2, "loss": 2, "kill": 2}),
    ),
    Plant(
        name="any error is proof",
        shows=("free_but_done", "double_effect"),
        without="an error proves something only if no earlier request can still arrive",
        breaks=any_error_is_proof,
        mix=Mix(kinds=("once",), faults={"downstream": 2, "loss": 2, "slow": 0}),
    ),
    Plant(
        name="open keys stay open",
        shows=("open_key",),
        without="Finish flags open keys",
        breaks=open_keys_stay,
        mix=Mix(kinds=("gift", "book"), faults={"downstream": 2, "loss": 2}, job={"cancel_s": 1.0}),
    ),
    Plant(
        name="started after the cancel",
        shows=("claim_after_the_cancel",),
        without="a cancel stops at Committed(Intended) and at Claim",
        breaks=cancelled_claims,
        mix=Mix(faults={"slow": 2, "freeze": 1}, job={"cancel_s": 1.0}),
    ),
)
