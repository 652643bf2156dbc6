"""Append: single history, fencing, signals, and what an entry may not say."""

import pytest
from msgspec.structs import replace

from messages.events import (
    ApprovalExpired,
    ApprovalResolved,
    HumanAnswered,
    Observed,
    Reconciled,
    Resumed,
    RunCreated,
)
from messages.ledger import (
    Claimed,
    Committed,
    Conflicted,
    DecideApproval,
    KeysTaken,
    Missing,
    Refused,
    RunEnded,
    Stale,
)
from messages.status import Status
from tests.contract import ledger_kit
from tests.contract.ledger_kit import (
    HASH,
    TENANT,
    Desk,
    asked,
    born,
    evidence,
    finished,
    intended,
    is_a,
    observed,
    other_hash,
    question,
)

desk = ledger_kit.desk


# ------------------------------------------------------------------ single history
async def test_version_is_exactly_one_more(desk: Desk) -> None:
    hand = await desk.hand()
    good = hand.entry()
    for version in (0, 2, 7, -1):
        answer = await desk.ask(replace(good, version=version, append_id="x"))
        assert is_a(answer, Conflicted).version == 0
    assert is_a(await desk.ask(good), Committed).version == 1


async def test_an_entry_hangs_on_the_head(desk: Desk) -> None:
    hand = await desk.hand()
    is_a(await desk.ask(replace(hand.entry(), prev_hash="0" * 64)), Conflicted)
    committed = await hand.append()
    loaded = await desk.loaded()
    assert loaded.entries[1].prev_hash == loaded.entries[0].hash
    assert loaded.entries[1].hash == committed.hash == loaded.row.head_hash


async def test_two_writers_from_one_version_never_both_succeed(desk: Desk) -> None:
    hand = await desk.hand()
    one, two = hand.entry(), hand.entry()
    first, second = await desk.group(one, two)
    is_a(first, Committed)
    is_a(second, Conflicted)


async def test_append_id_a_repeat_is_committed_again_with_the_signals_pending_now(
    desk: Desk,
) -> None:
    hand = await desk.hand()
    op = hand.entry()
    first = is_a(await desk.ask(op), Committed)
    assert first.signals == ()
    sent = await desk.send("pause")
    again = is_a(await desk.ask(op), Committed)
    assert (again.version, again.hash) == (first.version, first.hash)
    assert [signal.id for signal in again.signals] == [sent.id]
    assert len((await desk.loaded()).entries) == 2


async def test_append_id_is_only_repeated_while_it_is_the_head(desk: Desk) -> None:
    hand = await desk.hand()
    op = hand.entry()
    hand.went_on(await desk.ask(op))
    await hand.append()
    is_a(await desk.ask(op), Conflicted)


async def test_append_id_the_last_entry_of_all_may_be_repeated(desk: Desk) -> None:
    hand = await desk.hand()
    op = hand.entry(finished(), status=Status.SUCCEEDED)
    first = await desk.ask(op)
    assert await desk.ask(op) == first


async def test_terminal_nothing_follows(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.finish()
    ended = is_a(await desk.ask(hand.entry()), RunEnded)
    assert ended.status is Status.SUCCEEDED
    assert (await desk.row()).version == 1


async def test_an_unknown_run_is_missing(desk: Desk) -> None:
    hand = await desk.hand()
    assert is_a(await desk.ask(replace(hand.entry(), run_id="nobody")), Missing).kind == "run"


# ------------------------------------------------------------------ fencing
async def test_a_fenced_owner_is_stopped_although_its_version_is_right(desk: Desk) -> None:
    old = await desk.hand(process="p1", take_id="t1")
    desk.clock.advance(6.0)
    new = await desk.hand(process="p2", take_id="t2", is_new=False)
    is_a(await desk.ask(old.entry()), Conflicted)
    await new.append()


async def test_an_older_take_of_the_same_process_is_stopped_too(desk: Desk) -> None:
    old = await desk.hand(take_id="t1")
    await desk.hand(take_id="t2", is_new=False)
    desk.clock.advance(60.0)
    is_a(await desk.ask(old.entry()), Conflicted)


async def test_an_owner_whose_lease_ran_out_unnoticed_goes_on(desk: Desk) -> None:
    hand = await desk.hand()
    desk.clock.advance(60.0)
    await hand.append()
    assert (await desk.row()).owner == "p1"


async def test_an_append_by_nobodys_owner_makes_it_the_owner(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.suspend()
    await hand.append(Resumed(why="changed its mind"))
    row = await desk.row()
    assert (row.owner, row.take_id) == ("p1", hand.take_id)


async def test_an_append_after_a_dead_owner_makes_the_appender_the_owner(desk: Desk) -> None:
    first = await desk.hand(process="p1", take_id="t1")
    desk.clock.advance(6.0)
    second = await desk.hand(process="p2", take_id="t2", is_new=False)
    desk.clock.advance(6.0)
    await first.append()
    assert (await desk.row()).owner == "p1"
    is_a(await desk.ask(second.entry()), Conflicted)


# ------------------------------------------------------------------ owner and signals
async def test_signal_named_it_stays_until_an_entry_names_it(desk: Desk) -> None:
    hand = await desk.hand()
    pause, resume = await desk.send("pause"), await desk.send("resume")
    assert resume.id > pause.id
    for _ in range(2):
        committed = await hand.append()
        assert [signal.id for signal in committed.signals] == [pause.id, resume.id]
    committed = await hand.append(named=(pause.id,))
    assert [signal.id for signal in committed.signals] == [resume.id]
    taken = await desk.hand(is_new=False)
    assert [signal.kind for signal in taken.taken.signals] == ["resume"]


async def test_signal_named_another_runs_signal_is_left_alone(desk: Desk) -> None:
    hand = await desk.hand()
    await desk.ask(born("r2"))
    sent = await desk.send("pause", "r2")
    await hand.append(named=(sent.id,))
    assert len((await desk.loaded("r2")).signals) == 1


async def test_keep_owner_suspending_with_a_signal_pending_keeps_the_owner(desk: Desk) -> None:
    hand = await desk.hand()
    sent = await desk.send("resume")
    committed = await hand.suspend()
    assert [signal.id for signal in committed.signals] == [sent.id]
    assert (await desk.row()).owner == "p1"
    await hand.suspend(named=(sent.id,))
    assert (await desk.row()).owner is None


async def test_the_end_leaves_no_signal_pending(desk: Desk) -> None:
    hand = await desk.hand()
    await desk.send("pause")
    assert (await hand.finish()).signals == ()
    assert (await desk.loaded()).signals == ()


async def test_a_refused_append_changes_nothing(desk: Desk) -> None:
    hand = await desk.hand()
    sent = await desk.send("pause")
    before = await desk.loaded()
    bad = hand.entry(intended(), asked(), Resumed(why="x"), named=(sent.id,))
    expired = ApprovalExpired(step=1, ordinal=0, approval_id="nobody's")
    is_a(await desk.ask(replace(bad, events=(*bad.events, expired))), Stale)
    assert replace(await desk.loaded(), now=0.0) == replace(before, now=0.0)
    assert (await desk.ask(desk.claim())) == Refused(why="NOT_INTENDED")


# ------------------------------------------------------------------ malformed entries
async def test_an_entry_without_events_or_with_a_second_birth_is_refused(desk: Desk) -> None:
    hand = await desk.hand()
    birth = born().events[0]
    assert isinstance(birth, RunCreated)
    for events in ((), (birth,)):
        answer = await desk.ask(replace(hand.entry(), events=events))
        assert is_a(answer, Refused).why == "BAD_ENTRY"


# ------------------------------------------------------------------ keys taken
async def test_keys_taken_busy_done_and_mismatch(desk: Desk) -> None:
    first, second = await desk.hand("r1"), await desk.hand("r2")
    await first.append(intended())
    answer = await desk.ask(second.entry(intended(grant="g2")))
    (key,) = is_a(answer, KeysTaken).keys
    assert (key.key, key.state, key.run_id, key.evidence) == ("k", "busy", "r1", None)
    (key,) = is_a(
        await desk.ask(second.entry(intended(grant="g2", action=other_hash()))), KeysTaken
    ).keys
    assert key.state == "mismatch"
    await first.append(observed("ok"))
    (key,) = is_a(await desk.ask(second.entry(intended(grant="g2"))), KeysTaken).keys
    assert (key.state, key.evidence) == ("done", evidence())
    assert (await desk.row("r2")).version == 0
    row = await desk.key()
    assert (row.run_id, row.grant_id) == ("r1", "g1")


async def test_keys_taken_by_an_earlier_call_of_the_same_run(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.append(intended(step=1))
    (key,) = is_a(await desk.ask(hand.entry(intended(grant="g2", step=2))), KeysTaken).keys
    assert (key.state, key.run_id, key.step) == ("busy", "r1", 2)
    await hand.append(observed("ok"))
    (key,) = is_a(await desk.ask(hand.entry(intended(grant="g2", step=2))), KeysTaken).keys
    assert key.state == "done"


async def test_keys_taken_by_another_call_of_the_same_entry_names_the_second(desk: Desk) -> None:
    hand = await desk.hand()
    twins = (intended(ordinal=0), intended(ordinal=1))
    (key,) = is_a(await desk.ask(hand.entry(*twins)), KeysTaken).keys
    assert (key.state, key.ordinal) == ("busy", 1)
    odd = (intended(ordinal=0), intended(ordinal=1, action=other_hash()))
    (key,) = is_a(await desk.ask(hand.entry(*odd)), KeysTaken).keys
    assert (key.state, key.ordinal) == ("mismatch", 1)


async def test_keys_taken_are_per_tenant(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.append(intended("theirs"))
    row = await desk.key("theirs")
    assert row.tenant == TENANT


async def test_keep_decision_after_keys_taken_the_rest_is_appended(desk: Desk) -> None:
    first, second = await desk.hand("r1"), await desk.hand("r2")
    await first.append(intended())
    taken = intended(grant="g2")
    fresh = intended("k2", "g2", ordinal=1)
    is_a(await desk.ask(second.entry(taken, fresh)), KeysTaken)
    refused = Observed(step=1, ordinal=0, kind="refused")
    await second.append(refused, fresh)
    assert (await desk.key("k2")).run_id == "r2"
    assert (await desk.key("k")).run_id == "r1"


async def test_an_own_open_intent_is_intended_again_and_keeps_its_claims(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.append(intended())
    is_a(await desk.ask(desk.claim()), Claimed)
    await hand.append(intended(grant="g2"))
    row = await desk.key()
    assert (row.state, row.grant_id) == ("intended", "g2")
    assert [claim.claim_id for claim in row.claims] == ["c1"]


async def test_an_own_open_intent_with_other_arguments_is_a_mismatch(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.append(intended())
    answer = await desk.ask(hand.entry(intended(grant="g2", action=other_hash())))
    assert is_a(answer, KeysTaken).keys[0].state == "mismatch"


async def test_a_freed_key_may_be_intended_by_anybody_with_any_arguments(desk: Desk) -> None:
    first, second = await desk.hand("r1"), await desk.hand("r2")
    await first.append(intended())
    await desk.ask(desk.void())
    await second.append(intended(grant="g2", action=other_hash()))
    row = await desk.key()
    assert (row.run_id, row.action_hash, row.claims) == ("r2", other_hash(), ())


# ------------------------------------------------------------------ stale
async def test_approval_cas_an_expiry_needs_a_pending_row_and_the_time(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.append(asked(expires_at=desk.clock.now() + 10))
    gone = ApprovalExpired(step=1, ordinal=0, approval_id="apr-1")
    assert is_a(await desk.ask(hand.entry(gone)), Stale).why == "ApprovalExpired"
    desk.clock.advance(10.0)
    await hand.append(gone)
    is_a(await desk.ask(hand.entry(gone)), Stale)


async def test_approval_cas_a_yes_in_time_is_never_overruled_by_the_clock(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.append(asked(expires_at=desk.clock.now() + 10))
    yes = DecideApproval(
        tenant=TENANT, approval_id="apr-1", decision="approved", person="lee", confirmed_hash=HASH
    )
    await desk.ask(yes)
    desk.clock.advance(60.0)
    gone = ApprovalExpired(step=1, ordinal=0, approval_id="apr-1")
    is_a(await desk.ask(hand.entry(gone)), Stale)


@pytest.mark.parametrize("said", ["approved", "denied"])
async def test_a_resolution_that_nobody_made_is_stale(desk: Desk, said: str) -> None:
    hand = await desk.hand()
    await hand.append(asked(expires_at=desk.clock.now() + 10))
    resolved = ApprovalResolved(
        step=1,
        ordinal=0,
        approval_id="apr-1",
        decision="approved" if said == "approved" else "denied",
        person="lee",
        decided_at=1.0,
    )
    is_a(await desk.ask(hand.entry(resolved)), Stale)


async def test_an_answer_that_nobody_gave_is_stale(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.append(question())
    made_up = HumanAnswered(question_id="q1", answer="yes", person="kim", answered_at=1.0)
    is_a(await desk.ask(hand.entry(made_up)), Stale)


async def test_an_approval_or_question_id_is_used_once(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.append(asked(expires_at=desk.clock.now() + 10), question())
    for event in (asked(expires_at=desk.clock.now() + 10), question()):
        is_a(await desk.ask(hand.entry(event)), Stale)


async def test_wait_w_absent_is_stale_while_a_claimed_request_may_arrive(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.append(intended(effect="lookup", w=40.0))
    await desk.ask(desk.claim())
    absent = Reconciled(step=1, ordinal=0, key="k", finding="absent", how="lookup")
    voided = Reconciled(step=1, ordinal=0, key="k", finding="absent", how="void")
    desk.clock.advance(39.9)
    await desk.ask(ledger_kit.renew("p1"))
    for event in (absent, voided):
        assert is_a(await desk.ask(hand.entry(event)), Stale).why == "Reconciled"
    desk.clock.advance(0.2)
    await hand.append(absent)
    assert (await desk.key()).state == "free"
