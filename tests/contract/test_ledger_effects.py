"""Idempotency keys: claim, void, settle, and what the end of a run does to them."""

import pytest

from messages.events import Finished, Reconciled
from messages.ledger import (
    Claimed,
    EffectResolved,
    Elsewhere,
    Happened,
    KeysTaken,
    ListEffects,
    Missing,
    Refused,
    ResolveEffect,
    Settled,
    Started,
    Voided,
)
from messages.status import Reason, Status
from tests.contract import ledger_kit
from tests.contract.ledger_kit import (
    TENANT,
    Desk,
    Hand,
    evidence,
    finished,
    intended,
    is_a,
    observed,
)

desk = ledger_kit.desk


async def with_intent(desk: Desk, effect: str = "replay", w: float = 40.0) -> Hand:
    hand = await desk.hand()
    await hand.append(intended(effect=effect, w=w))
    return hand


async def started_again(desk: Desk, hand: Hand, after_s: float) -> None:
    """A first claim that was never settled, and a replay claimed so much later."""
    is_a(await desk.ask(desk.claim("c1", "g1")), Claimed)
    desk.clock.advance(after_s)
    await hand.append(intended(grant="g2", w=0.0))
    is_a(await desk.ask(desk.claim("c2", "g2", is_replay=True)), Claimed)


def refusal(answer: object) -> str:
    return is_a(answer, Refused).why


# ------------------------------------------------------------------ claim
async def test_claim_starts_an_intended_key_once(desk: Desk) -> None:
    await with_intent(desk)
    claimed = is_a(await desk.ask(desk.claim("c1")), Claimed)
    assert claimed.at == desk.clock.now()
    assert refusal(await desk.ask(desk.claim("c2"))) == "NOT_INTENDED"
    row = await desk.key()
    assert row.state == "started"
    assert [(c.claim_id, c.grant_id) for c in row.claims] == [("c1", "g1")]


async def test_claim_of_one_grant_sent_twenty_times_is_claimed_once(desk: Desk) -> None:
    await with_intent(desk)
    answers = await desk.group(*(desk.claim(f"c{n}") for n in range(20)))
    assert sum(isinstance(answer, Claimed) for answer in answers) == 1


async def test_not_started_repeating_a_claim_id_repeats_the_answer(desk: Desk) -> None:
    await with_intent(desk)
    first = await desk.ask(desk.claim())
    desk.clock.advance(100.0)
    assert await desk.ask(desk.claim(lasts_s=-1.0)) == first


async def test_claim_latest_only_the_grant_of_the_latest_intent_claims(desk: Desk) -> None:
    hand = await with_intent(desk)
    await hand.append(intended(grant="g2"))
    assert refusal(await desk.ask(desk.claim("c1", "g1"))) == "NOT_LATEST_GRANT"
    is_a(await desk.ask(desk.claim("c1", "g2")), Claimed)


async def test_claim_needs_an_intent_of_this_very_run(desk: Desk) -> None:
    await with_intent(desk)
    await desk.hand("r2")
    assert refusal(await desk.ask(desk.claim(run_id="r2"))) == "NOT_INTENDED"
    assert refusal(await desk.ask(desk.claim(key="nobody's"))) == "NOT_INTENDED"
    assert refusal(await desk.ask(desk.claim(run_id="nobody"))) == "NOT_INTENDED"


async def test_claim_expiry_is_by_the_ledgers_clock(desk: Desk) -> None:
    await with_intent(desk)
    op = desk.claim(lasts_s=10.0)
    desk.clock.advance(10.1)
    assert refusal(await desk.ask(op)) == "EXPIRED"


async def test_claim_cancel_nothing_starts_while_a_cancel_is_pending(desk: Desk) -> None:
    await with_intent(desk)
    await desk.send("cancel")
    assert refusal(await desk.ask(desk.claim())) == "CANCEL_PENDING"


async def test_settle_reclaim_a_replay_of_a_claimed_key_may_start_despite_a_cancel(
    desk: Desk,
) -> None:
    hand = await with_intent(desk)
    await desk.ask(desk.claim("c1"))
    await desk.send("cancel")
    await hand.append(intended(grant="g2"))
    is_a(await desk.ask(desk.claim("c2", "g2", is_replay=True)), Claimed)


async def test_a_replay_that_replays_nothing_is_refused_while_a_cancel_is_pending(
    desk: Desk,
) -> None:
    await with_intent(desk)
    await desk.send("cancel")
    assert refusal(await desk.ask(desk.claim(is_replay=True))) == "CANCEL_PENDING"


@pytest.mark.parametrize("effect", ["lookup", "blind"])
async def test_blind_once_only_a_replayable_write_starts_again_unsettled(
    desk: Desk, effect: str
) -> None:
    hand = await with_intent(desk, effect)
    await desk.ask(desk.claim("c1"))
    await hand.append(intended(grant="g2", effect=effect))
    assert refusal(await desk.ask(desk.claim("c2", "g2", is_replay=True))) == "CLAIMED_BEFORE"


async def test_claim_open_nothing_starts_after_the_end(desk: Desk) -> None:
    hand = await with_intent(desk)
    await hand.finish(Status.FAILED)
    is_a(await desk.ask(desk.claim()), Refused)


# ------------------------------------------------------------------ void
async def test_void_frees_an_intent_that_was_never_claimed(desk: Desk) -> None:
    await with_intent(desk)
    first, again = await desk.group(desk.void(), desk.void())
    assert is_a(first, Voided) == is_a(again, Voided)
    assert (await desk.key()).state == "free"
    is_a(await desk.ask(desk.claim()), Refused)


async def test_void_of_a_claimed_key_says_when_it_was_claimed(desk: Desk) -> None:
    await with_intent(desk)
    claimed = is_a(await desk.ask(desk.claim()), Claimed)
    desk.clock.advance(3.0)
    started = is_a(await desk.ask(desk.void()), Started)
    assert started.last_claim_at == claimed.at
    assert started.now == desk.clock.now()
    assert (await desk.key()).state == "started"


async def test_ever_a_key_once_claimed_is_not_voided_through_a_later_intent(desk: Desk) -> None:
    hand = await with_intent(desk)
    await desk.ask(desk.claim())
    await hand.append(intended(grant="g2"))
    is_a(await desk.ask(desk.void("g2")), Started)
    assert (await desk.key()).state == "intended"


async def test_void_of_a_settled_key_gives_the_result(desk: Desk) -> None:
    await with_intent(desk)
    await desk.group(desk.claim(), desk.settle("ok"))
    assert is_a(await desk.ask(desk.void()), Happened).evidence == evidence()


async def test_void_leaves_what_others_hold(desk: Desk) -> None:
    hand = await with_intent(desk)
    is_a(await desk.ask(desk.void(run_id="r2")), Elsewhere)
    await hand.append(intended(grant="g2"))
    is_a(await desk.ask(desk.void("g1")), Elsewhere)
    assert (await desk.key()).state == "intended"
    is_a(await desk.ask(desk.void(key="nobody's")), Voided)


# ------------------------------------------------------------------ settle
async def test_settle_ok_makes_it_done_and_keeps_the_result(desk: Desk) -> None:
    await with_intent(desk)
    await desk.ask(desk.claim())
    assert is_a(await desk.ask(desk.settle("ok")), Settled).is_proof
    row = await desk.key()
    assert (row.state, row.evidence) == ("done", evidence())
    for outcome in ("error", "not_started", "ok"):
        await desk.ask(desk.settle(outcome))
    assert await desk.key() == row


async def test_ok_any_grant_an_ok_counts_whatever_grant_it_came_from(desk: Desk) -> None:
    hand = await with_intent(desk)
    await started_again(desk, hand, 1.0)
    await desk.ask(desk.settle("ok", "c1", "g1"))
    assert (await desk.key()).state == "done"


async def test_settle_ok_of_another_run_is_ignored(desk: Desk) -> None:
    await with_intent(desk)
    await desk.ask(desk.settle("ok", run_id="r2"))
    assert (await desk.key()).state == "intended"


async def test_first_error_of_the_only_claim_frees_the_key(desk: Desk) -> None:
    await with_intent(desk)
    await desk.ask(desk.claim())
    answers = await desk.group(desk.settle("error"), desk.settle("error"))
    assert [is_a(answer, Settled).is_proof for answer in answers] == [True, True]
    assert (await desk.key()).state == "free"


async def test_late_error_a_replays_error_is_no_proof_within_w(desk: Desk) -> None:
    hand = await with_intent(desk, w=40.0)
    await started_again(desk, hand, 39.0)
    assert not is_a(await desk.ask(desk.settle("error", "c2", "g2")), Settled).is_proof
    assert (await desk.key()).state == "started"


async def test_late_error_a_replays_error_is_proof_after_w(desk: Desk) -> None:
    hand = await with_intent(desk, w=4.0)
    await started_again(desk, hand, 4.5)
    assert is_a(await desk.ask(desk.settle("error", "c2", "g2")), Settled).is_proof
    assert (await desk.key()).state == "free"


async def test_by_grant_an_error_of_an_earlier_intent_proves_nothing(desk: Desk) -> None:
    hand = await with_intent(desk, w=4.0)
    await started_again(desk, hand, 4.5)
    assert not is_a(await desk.ask(desk.settle("error", "c1", "g1")), Settled).is_proof
    assert (await desk.key()).state == "started"


async def test_not_started_strikes_out_the_claim_and_frees_the_key(desk: Desk) -> None:
    await with_intent(desk)
    await desk.ask(desk.claim())
    await desk.ask(desk.settle("not_started"))
    row = await desk.key()
    assert (row.state, row.claims) == ("free", ())


async def test_not_started_leaves_an_earlier_claim_standing(desk: Desk) -> None:
    hand = await with_intent(desk)
    await started_again(desk, hand, 1.0)
    await desk.ask(desk.settle("not_started", "c2", "g2"))
    row = await desk.key()
    assert (row.state, [claim.claim_id for claim in row.claims]) == ("intended", ["c1"])


async def test_settle_of_a_key_nobody_holds_changes_nothing(desk: Desk) -> None:
    assert is_a(await desk.ask(desk.settle("ok")), Settled).is_proof
    assert not is_a(await desk.ask(desk.settle("error")), Settled).is_proof
    assert (await desk.ask(ListEffects(tenant=TENANT))).rows == ()


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
async def test_a_person_resolves_an_unknown_key_once(
    desk: Desk, finding: str, state: str
) -> None:
    await unknown_key(desk)
    op = ResolveEffect(
        tenant=TENANT,
        key="k",
        finding="happened" if finding == "happened" else "absent",
        person="kim",
        why="asked the bank",
    )
    row = is_a(await desk.ask(op), EffectResolved).effect
    assert (row.state, row.person, row.is_flagged) == (state, "kim", False)
    assert await desk.key() == row
    assert refusal(await desk.ask(op)) == "NOT_UNKNOWN"


async def test_only_an_unknown_key_can_be_resolved_by_hand(desk: Desk) -> None:
    op = ResolveEffect(tenant=TENANT, key="k", finding="absent", person="kim")
    is_a(await desk.ask(op), Missing)
    await with_intent(desk)
    assert refusal(await desk.ask(op)) == "NOT_UNKNOWN"
