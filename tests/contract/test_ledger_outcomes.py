"""What an observation, a finding, the end of the run or a person makes of a key."""

import pytest

from messages.events import Finished, Reconciled
from messages.ledger import (
    Claimed,
    EffectResolved,
    KeysTaken,
    ListEffects,
    Missing,
    ResolveEffect,
)
from messages.status import Reason, Status
from tests.contract import ledger_kit
from tests.contract.ledger_kit import (
    TENANT,
    Desk,
    evidence,
    finished,
    intended,
    is_a,
    observed,
    refusal,
    with_intent,
)

desk = ledger_kit.desk


# ------------------------------------------------------------------ observed, reconciled
@pytest.mark.parametrize(
    ("kind", "claims", "state"),
    [
        ("ok", 1, "done"),
        ("error", 1, "free"),
        ("error", 2, "started"),
        ("not_started", 0, "free"),
        ("cancelled", 0, "free"),
        ("not_started", 1, "started"),
        ("cancelled", 1, "started"),
        ("refused", 0, "intended"),
        ("refused", 1, "started"),
        ("unknown", 1, "started"),
    ],
)
async def test_an_observation_closes_its_key_only_as_proof(
    desk: Desk, kind: str, claims: int, state: str
) -> None:
    hand = await with_intent(desk)
    if claims:
        await desk.ask(desk.claim())
    if claims == 2:
        await hand.append(intended(grant="g2"))
        await desk.ask(desk.claim("c2", "g2", is_replay=True))
    await hand.append(observed(kind))
    assert (await desk.key()).state == state


async def test_an_observation_of_another_call_leaves_the_key_alone(desk: Desk) -> None:
    hand = await with_intent(desk)
    await hand.append(observed("ok", ordinal=1), observed("ok", step=2))
    assert (await desk.key()).state == "intended"


async def test_a_first_settled_result_is_kept_by_a_later_observation(desk: Desk) -> None:
    hand = await with_intent(desk)
    await desk.group(desk.claim(), desk.settle("ok"))
    row = await desk.key()
    await hand.append(observed("error"))
    assert await desk.key() == row


@pytest.mark.parametrize(
    ("finding", "state"), [("happened", "done"), ("absent", "free"), ("undecidable", "unknown")]
)
async def test_a_finding_closes_its_key(desk: Desk, finding: str, state: str) -> None:
    hand = await with_intent(desk, "lookup", w=4.0)
    await desk.ask(desk.claim())
    desk.clock.advance(4.5)
    event = Reconciled(
        step=1,
        ordinal=0,
        key="k",
        finding=finding,  # pyright: ignore[reportArgumentType] -- parametrised
        how="lookup",
        evidence=evidence() if finding == "happened" else None,
    )
    await hand.append(event)
    row = await desk.key()
    assert (row.state, row.is_flagged) == (state, state == "unknown")


async def test_retry_intent_after_absent_starts_with_a_new_grant_and_no_claims(
    desk: Desk,
) -> None:
    hand = await with_intent(desk, "lookup", w=4.0)
    await desk.ask(desk.claim())
    desk.clock.advance(4.5)
    absent = Reconciled(step=1, ordinal=0, key="k", finding="absent", how="lookup")
    await hand.append(absent, intended(grant="g2", effect="lookup"))
    assert refusal(await desk.ask(desk.claim("c2", "g1"))) == "NOT_LATEST_GRANT"
    is_a(await desk.ask(desk.claim("c2", "g2")), Claimed)


# ------------------------------------------------------------------ the end of the run
async def test_flag_finish_flags_started_keys_and_frees_untouched_ones(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.append(
        intended("untouched", ordinal=0),
        intended("started", ordinal=1),
        intended("again", ordinal=2),
    )
    await desk.group(desk.claim("c1", key="started"), desk.claim("c2", key="again"))
    await hand.append(intended("again", "g2", ordinal=2))
    ended = Finished(status=Status.FAILED, reason=Reason.UNKNOWN_EFFECT)
    await hand.append(ended, status=Status.FAILED)
    states = {key: (await desk.key(key)).state for key in ("untouched", "started", "again")}
    assert states == {"untouched": "free", "started": "unknown", "again": "unknown"}
    unresolved = await desk.ask(ListEffects(tenant=TENANT, is_unresolved_only=True))
    assert {row.key for row in unresolved.rows} == {"started", "again"}
    assert all(row.is_flagged for row in unresolved.rows)


async def unknown_key(desk: Desk) -> None:
    hand = await with_intent(desk)
    await desk.ask(desk.claim())
    await hand.append(finished(Status.FAILED, Reason.UNKNOWN_EFFECT), status=Status.FAILED)
    assert (await desk.key()).state == "unknown"


async def test_an_unknown_key_is_busy_for_every_run(desk: Desk) -> None:
    await unknown_key(desk)
    other = await desk.hand("r2")
    (key,) = is_a(await desk.ask(other.entry(intended(grant="g2"))), KeysTaken).keys
    assert key.state == "busy"


@pytest.mark.parametrize(
    ("outcome", "state"), [("ok", "done"), ("error", "free"), ("not_started", "free")]
)
async def test_settle_counts_even_after_the_end(desk: Desk, outcome: str, state: str) -> None:
    await unknown_key(desk)
    await desk.ask(desk.settle(outcome))
    row = await desk.key()
    assert (row.state, row.is_flagged) == (state, False)


@pytest.mark.parametrize(("finding", "state"), [("happened", "done"), ("absent", "free")])
async def test_a_person_resolves_an_unknown_key_once(desk: Desk, finding: str, state: str) -> None:
    await unknown_key(desk)
    op = ResolveEffect(
        tenant=TENANT,
        key="k",
        finding="happened" if finding == "happened" else "absent",
        person="kim",
        why="asked the bank",
    )
    if finding == "absent":  # its request may still arrive
        assert refusal(await desk.ask(op)) == "TOO_EARLY"
        desk.clock.advance(41)
    row = is_a(await desk.ask(op), EffectResolved).effect
    assert (row.state, row.person, row.is_flagged) == (state, "kim", False)
    assert await desk.key() == row
    assert refusal(await desk.ask(op)) == "NOT_UNKNOWN"


async def test_only_an_unknown_key_can_be_resolved_by_hand(desk: Desk) -> None:
    op = ResolveEffect(tenant=TENANT, key="k", finding="absent", person="kim")
    is_a(await desk.ask(op), Missing)
    await with_intent(desk)
    assert refusal(await desk.ask(op)) == "NOT_UNKNOWN"
