"""Idempotency keys: claim, void, settle, and what the end of a run does to them."""

import pytest
from msgspec.structs import replace

from messages.ledger import (
    Claimed,
    Elsewhere,
    Happened,
    ListEffects,
    Refused,
    Settled,
    Started,
    Voided,
)
from messages.parts import Problem
from messages.status import Status
from tests.contract import ledger_kit
from tests.contract.ledger_kit import (
    TENANT,
    Desk,
    evidence,
    intended,
    is_a,
    refusal,
    started_again,
    with_intent,
)

desk = ledger_kit.desk


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


async def test_first_attempt_only_a_claimed_key_is_not_claimed_again_unknowingly(
    desk: Desk,
) -> None:
    hand = await with_intent(desk)
    await desk.ask(desk.claim("c1"))
    await hand.append(intended(grant="g2"))
    assert refusal(await desk.ask(desk.claim("c2", "g2"))) == "CLAIMED_BEFORE"


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
    desk.clock.advance(3.0)
    is_a(await desk.ask(desk.claim("c2", "g2", is_replay=True)), Claimed)
    await hand.append(intended(grant="g3"))
    started = is_a(await desk.ask(desk.void("g3")), Started)
    assert started.last_claim_at - started.first_claim_at == 3.0
    assert (await desk.key()).state == "intended"


async def test_void_of_a_settled_key_gives_the_result(desk: Desk) -> None:
    await with_intent(desk)
    await desk.group(desk.claim(), desk.settle("ok"))
    assert is_a(await desk.ask(desk.void()), Happened).evidence == evidence()


async def test_void_of_a_settled_error_tells_it_to_who_asks_about_that_intent(desk: Desk) -> None:
    await with_intent(desk)
    error = Problem(code="UNRECOVERABLE", message="never")
    await desk.group(desk.claim(), replace(desk.settle("error"), problem=error))
    assert is_a(await desk.ask(desk.void()), Voided).problem == error
    assert is_a(await desk.ask(desk.void("g2")), Voided).problem is None
    assert is_a(await desk.ask(desk.void(run_id="r2")), Voided).problem is None


async def test_an_error_of_an_earlier_intent_is_forgotten_with_it(desk: Desk) -> None:
    hand = await with_intent(desk)
    error = Problem(code="TRANSIENT", message="later")
    await desk.group(desk.claim(), replace(desk.settle("error"), problem=error))
    await hand.append(intended(grant="g2"))
    assert is_a(await desk.ask(desk.void("g2")), Voided).problem is None


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


async def test_by_grant_an_error_that_comes_after_a_new_intent_proves_nothing(
    desk: Desk,
) -> None:
    hand = await with_intent(desk)
    await desk.ask(desk.claim("c1"))
    await hand.append(intended(grant="g2"))
    assert not is_a(await desk.ask(desk.settle("error", "c1", "g1")), Settled).is_proof
    assert (await desk.key()).state == "intended"


async def test_an_error_of_a_claim_that_was_struck_out_proves_nothing(desk: Desk) -> None:
    hand = await with_intent(desk, w=0.0)
    await started_again(desk, hand, 1.0)
    await desk.ask(desk.settle("not_started", "c2", "g2"))
    is_a(await desk.ask(desk.claim("c3", "g2", is_replay=True)), Claimed)
    assert not is_a(await desk.ask(desk.settle("error", "c2", "g2")), Settled).is_proof
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
