"""Runs: created once, owned by one, released, held, due, published."""

from messages.events import AttemptFailed, StepLost
from messages.ledger import (
    Create,
    Created,
    Due,
    Existing,
    Held,
    Hold,
    HoldRow,
    Lift,
    ListRuns,
    Missing,
    Published,
    Refused,
    Release,
    Renew,
    RunEnded,
    Summary,
    Take,
    Taken,
)
from messages.parts import Amount, Attempt
from messages.status import Reason, Status
from tests.contract import ledger_kit
from tests.contract.ledger_kit import TENANT, Desk, Hand, born, finished, is_a, reserved

desk = ledger_kit.desk


async def due(
    desk: Desk, process: str = "p9", *, driving: tuple[str, ...] = (), stream: str = ""
) -> list[str]:
    answer = await desk.ask(Due(process=process, limit=10, driving=driving, stream=stream))
    return [f"{run.need} {run.run_id}" for run in answer.runs]


def release(hand: Hand, *, is_clean: bool) -> Release:
    return Release(
        tenant=TENANT,
        run_id=hand.run_id,
        version=hand.version,
        process=hand.process,
        take_id=hand.take_id,
        is_clean=is_clean,
    )


# ------------------------------------------------------------------ create
async def test_the_same_id_again_is_the_same_run(desk: Desk) -> None:
    first, again = await desk.group(born(), born())
    assert is_a(first, Created).run_id == "r1"
    assert is_a(again, Existing).version == 0
    loaded = await desk.loaded()
    assert len(loaded.entries) == 1
    assert loaded.row.origin == "r1"
    assert loaded.row.shown_status is Status.QUEUED


async def test_the_same_id_of_another_tenant_is_another_run(desk: Desk) -> None:
    await desk.ask(born())
    taken = await desk.ask(Take(tenant="other", run_id="r1", process="p", take_id="t"))
    assert is_a(taken, Missing).kind == "run"


async def test_a_run_that_does_not_fit_its_budget_ends_at_creation(desk: Desk) -> None:
    whole = born()
    ended = finished(Status.BUDGET_EXHAUSTED, Reason.MAX_TOKENS)
    summary = Summary(agent="refunds", status=Status.BUDGET_EXHAUSTED)
    op = Create(
        tenant=TENANT,
        run_id="r1",
        append_id="a",
        events=(whole.events[0], ended),
        summary=summary,
    )
    is_a(await desk.ask(op), Created)
    is_a(await desk.ask(desk.take()), RunEnded)
    assert await due(desk, stream="s1") == ["publish r1"]


async def test_version_0_begins_with_run_created_of_the_same_tenant(desk: Desk) -> None:
    good = born()
    headless = Create(
        tenant=TENANT, run_id="x", append_id="a", events=(reserved(1),), summary=good.summary
    )
    foreign = Create(
        tenant="other", run_id="x", append_id="a", events=good.events, summary=good.summary
    )
    for op in (headless, foreign):
        assert is_a(await desk.ask(op), Refused).why == "BAD_ENTRY"


# ------------------------------------------------------------------ take
async def test_the_first_take_is_clean_and_gets_the_journal(desk: Desk) -> None:
    hand = await desk.hand()
    assert hand.taken.is_clean
    assert hand.taken.deaths == 0
    assert [entry.version for entry in hand.taken.entries] == [0]
    assert hand.taken.head_hash == hand.taken.entries[0].hash
    assert hand.taken.now == desk.clock.now()


async def test_take_gives_the_entries_after_the_callers_version(desk: Desk) -> None:
    hand = await desk.hand()
    for _ in range(3):
        await hand.append()
    op = Take(tenant=TENANT, run_id="r1", process="p1", take_id=hand.take_id, after=1)
    taken = is_a(await desk.ask(op), Taken)
    assert [entry.version for entry in taken.entries] == [2, 3]


async def test_own_a_live_owner_keeps_its_run(desk: Desk) -> None:
    await desk.hand()
    assert is_a(await desk.ask(desk.take(process="p2", take_id="t2")), Held).why == "owned"
    desk.clock.advance(4.9)
    is_a(await desk.ask(desk.take(process="p2", take_id="t2")), Held)


async def test_expiry_a_dead_owners_run_is_taken_unclean_and_counts_a_death(desk: Desk) -> None:
    await desk.hand()
    desk.clock.advance(5.1)
    taken = (await desk.hand(process="p2", take_id="t2", is_new=False)).taken
    assert not taken.is_clean
    assert taken.deaths == 1


async def test_renew_sets_the_lease_of_a_process_and_take_keeps_to_it(desk: Desk) -> None:
    await desk.ask(Renew(process="p1", lease_s=60.0))
    await desk.hand()
    desk.clock.advance(59.0)
    is_a(await desk.ask(desk.take(process="p2")), Held)
    await desk.ask(Renew(process="p1", lease_s=60.0))
    desk.clock.advance(59.0)
    is_a(await desk.ask(desk.take(process="p2")), Held)
    desk.clock.advance(2.0)
    is_a(await desk.ask(desk.take(process="p2")), Taken)


async def test_renew_for_nothing_takes_the_process_row_away(desk: Desk) -> None:
    await desk.hand()
    await desk.ask(Renew(process="p1", lease_s=0.0))
    is_a(await desk.ask(desk.take(process="p2")), Taken)


async def test_take_id_a_repeated_take_is_answered_alike(desk: Desk) -> None:
    await desk.ask(born())
    first, again = await desk.group(desk.take(), desk.take())
    assert first == again


async def test_take_id_another_take_of_the_same_process_is_not_clean(desk: Desk) -> None:
    await desk.hand(take_id="t1")
    taken = (await desk.hand(take_id="t2", is_new=False)).taken
    assert not taken.is_clean
    assert taken.deaths == 0


async def test_a_terminal_run_cannot_be_taken(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.finish()
    ended = is_a(await desk.ask(desk.take(process="p2")), RunEnded)
    assert (ended.version, ended.status) == (1, Status.SUCCEEDED)


# ------------------------------------------------------------------ release
async def test_clean_a_clean_release_lets_the_next_take_use_the_reservation(desk: Desk) -> None:
    hand = await desk.hand()
    await desk.ask(release(hand, is_clean=True))
    taken = (await desk.hand(process="p2", is_new=False)).taken
    assert taken.is_clean
    assert taken.deaths == 0


async def test_clean_an_unclean_release_frees_the_run_without_a_death(desk: Desk) -> None:
    hand = await desk.hand()
    await desk.ask(release(hand, is_clean=False))
    assert await due(desk) == ["drive r1"]
    taken = (await desk.hand(process="p2", is_new=False)).taken
    assert not taken.is_clean
    assert taken.deaths == 0


async def test_release_version_a_late_release_does_not_unseat_anybody(desk: Desk) -> None:
    hand = await desk.hand(take_id="t1")
    late = release(hand, is_clean=True)
    await hand.append()
    await desk.ask(late)
    assert (await desk.row()).owner == "p1"
    other = await desk.hand(take_id="t2", is_new=False)
    await desk.ask(release(hand, is_clean=True))
    assert (await desk.row()).take_id == other.take_id


async def test_a_take_after_a_suspension_is_clean(desk: Desk) -> None:
    await desk.hand(take_id="t1")
    hand = await desk.hand(take_id="t2", is_new=False)
    assert not hand.taken.is_clean
    await hand.suspend()
    assert (await desk.row()).owner is None
    assert (await desk.hand(process="p2", is_new=False)).taken.is_clean


# ------------------------------------------------------------------ poison
async def test_due_says_how_many_owners_a_run_has_lost(desk: Desk) -> None:
    for number in range(1, 4):
        _ = await desk.hand(process=f"p{number}", take_id=f"t{number}", is_new=number == 1)
        desk.clock.advance(5.1)
        answer = await desk.ask(Due(process="p9", limit=10))
        assert [(run.run_id, run.deaths) for run in answer.runs] == [("r1", number)]
        own = await desk.ask(Due(process=f"p{number}", limit=10))
        assert [run.deaths for run in own.runs] == [number - 1]


async def test_poison_progress_reservations_do_not_reset_deaths(desk: Desk) -> None:
    hand = await desk.hand()
    for number in range(2, 5):
        lost = StepLost(step=1, charged=Amount(), why="dead")
        tried = Attempt(request_id="r", started_at=0.0)
        failed = AttemptFailed(step=2, charged=Amount(), attempt=tried)
        await hand.append(lost, reserved(2), failed, reserved(2))
        desk.clock.advance(6.0)
        hand = await desk.hand(process=f"p{number}", is_new=False)
        assert hand.taken.deaths == number - 1
    await hand.append()
    assert (await desk.row()).deaths == 0


# ------------------------------------------------------------------ holds
async def test_hold_row_take_and_due_pass_over_it_until_lifted(desk: Desk) -> None:
    for hold in (
        HoldRow(),
        HoldRow(tenant=TENANT),
        HoldRow(agent="refunds"),
        HoldRow(tenant=TENANT, agent="refunds"),
    ):
        await desk.ask(born())
        await desk.ask(Hold(hold=hold))
        assert is_a(await desk.ask(desk.take()), Held).why == "hold"
        assert await due(desk) == []
        await desk.ask(Lift(tenant=hold.tenant, agent=hold.agent))
        assert await due(desk) == ["drive r1"]


async def test_hold_row_counts_for_what_follows_in_the_same_group(desk: Desk) -> None:
    await desk.ask(born())
    hold, lift = Hold(hold=HoldRow()), Lift()
    _, held, _, taken = await desk.group(hold, desk.take(), lift, desk.take())
    is_a(held, Held)
    is_a(taken, Taken)


async def test_hold_row_of_another_agent_or_tenant_does_not_matter(desk: Desk) -> None:
    await desk.ask(Hold(hold=HoldRow(agent="other")))
    await desk.ask(Hold(hold=HoldRow(tenant="other")))
    await desk.hand()


async def test_hold_row_a_task_created_later_waits_too(desk: Desk) -> None:
    await desk.ask(Hold(hold=HoldRow(agent="refunds")))
    await desk.ask(born("late"))
    is_a(await desk.ask(desk.take("late")), Held)


async def test_hold_row_a_cancel_passes(desk: Desk) -> None:
    await desk.ask(born())
    await desk.ask(Hold(hold=HoldRow()))
    await desk.send("cancel")
    assert await due(desk) == ["drive r1"]
    is_a(await desk.ask(desk.take()), Taken)


async def test_committed_carries_a_hold(desk: Desk) -> None:
    hand = await desk.hand()
    assert not (await hand.append()).is_held
    await desk.ask(Hold(hold=HoldRow(agent="refunds")))
    assert (await hand.append()).is_held


# ------------------------------------------------------------------ due
async def test_due_open_lists_runs_without_a_live_owner(desk: Desk) -> None:
    await desk.ask(born())
    assert await due(desk) == ["drive r1"]
    await desk.hand(is_new=False)
    assert await due(desk) == []
    desk.clock.advance(6.0)
    assert await due(desk) == ["drive r1"]


async def test_undriven_lists_runs_the_asker_owns_and_does_not_drive(desk: Desk) -> None:
    await desk.hand()
    assert await due(desk, "p1") == ["drive r1"]
    assert await due(desk, "p1", driving=(f"{TENANT}/r1",)) == []


async def test_due_signal_and_until_wake_a_suspended_run(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.suspend(Status.WAITING, until=desk.clock.now() + 10)
    assert await due(desk) == []
    desk.clock.advance(10.0)
    assert await due(desk) == ["drive r1"]
    hand = await desk.hand(is_new=False)
    await hand.suspend(Status.PAUSED)
    assert await due(desk) == []
    await desk.send("resume")
    assert await due(desk) == ["drive r1"]


async def test_a_suspended_run_whose_last_taker_died_waits_for_its_reason(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.suspend(Status.WAITING, until=desk.clock.now() + 60)
    await desk.hand(process="p2", is_new=False)
    desk.clock.advance(6.0)
    assert await due(desk) == []
    assert await due(desk, "p2") == ["drive r1"]
    desk.clock.advance(60.0)
    assert await due(desk) == ["drive r1"]


async def test_due_changes_nothing(desk: Desk) -> None:
    await desk.hand()
    desk.clock.advance(6.0)
    before = await desk.row()
    await due(desk)
    assert await desk.row() == before


async def test_due_is_oldest_first_and_bounded(desk: Desk) -> None:
    for run_id in ("b", "a", "c"):
        await desk.ask(born(run_id))
        desk.clock.advance(1.0)
    answer = await desk.ask(Due(process="p", limit=2))
    assert [run.run_id for run in answer.runs] == ["b", "a"]


async def test_republish_a_result_counts_for_one_stream_only(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.finish()
    assert await due(desk, stream="s1") == ["publish r1"]
    assert await due(desk) == []
    await desk.ask(Published(tenant=TENANT, run_id="r1", stream="s1"))
    assert await due(desk, stream="s1") == []
    assert await due(desk, stream="s2") == ["publish r1"]
    assert await due(desk, stream="s0") == ["publish r1"]


async def test_published_means_nothing_for_an_open_run(desk: Desk) -> None:
    await desk.hand()
    await desk.ask(Published(tenant=TENANT, run_id="r1", stream="s1"))
    assert (await desk.row()).published == ""


# ------------------------------------------------------------------ the end
async def test_a_finished_run_has_no_owner_and_is_listed_among_all(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.finish()
    assert (await desk.row()).owner is None
    assert (await desk.ask(ListRuns(tenant=TENANT))).rows == ()
    ended = await desk.ask(ListRuns(tenant=TENANT, statuses=(Status.SUCCEEDED,)))
    assert [row.run_id for row in ended.rows] == ["r1"]


async def test_a_run_that_ends_while_it_waits_for_nothing_is_open_no_more(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.suspend()
    await hand.finish(Status.CANCELLED)
    assert (await desk.ask(ListRuns(tenant=TENANT))).rows == ()
    assert await due(desk, stream="s1") == ["publish r1"]


async def test_events_and_status_have_to_agree_about_the_end(desk: Desk) -> None:
    hand = await desk.hand()
    wrong = (
        hand.entry(finished(), status=Status.RUNNING),
        hand.entry(status=Status.SUCCEEDED),
        hand.entry(finished(), status=Status.FAILED),
    )
    for op in wrong:
        assert is_a(await desk.ask(op), Refused).why == "BAD_ENTRY"
    assert (await desk.row()).version == 0
