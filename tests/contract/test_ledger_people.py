"""Approvals, questions, signals, and the tree of runs a cancel goes through."""

import pytest
from msgspec.structs import replace

from messages.events import ApprovalExpired, ApprovalResolved, HumanAnswered
from messages.ledger import (
    AnswerQuestion,
    ApprovalDecided,
    Committed,
    DecideApproval,
    ListApprovals,
    Missing,
    Refused,
    RunEnded,
    SendSignal,
    Signal,
    SignalStored,
)
from messages.parts import Usage
from messages.status import Reason, Status
from tests.contract import ledger_kit
from tests.contract.ledger_kit import (
    HASH,
    TENANT,
    Desk,
    Hand,
    asked,
    born,
    child_started,
    finished,
    is_a,
    question,
)

desk = ledger_kit.desk


async def waiting(desk: Desk, expires_s: float = 60.0) -> Hand:
    """A run that waits for one approval."""
    hand = await desk.hand()
    event = asked(expires_at=desk.clock.now() + expires_s)
    await hand.append(event, status=Status.AWAITING_APPROVAL)
    return hand


def decide(decision: str = "approved", confirmed: str = "", person: str = "lee") -> DecideApproval:
    return DecideApproval(
        tenant=TENANT,
        approval_id="apr-1",
        decision="approved" if decision == "approved" else "denied",
        person=person,
        credential="cred",
        channel="cli",
        confirmed_hash=confirmed,
        reason="because",
    )


def reply(question_id: str = "q1", text: str = "yes") -> AnswerQuestion:
    return AnswerQuestion(
        tenant=TENANT, run_id="r1", question_id=question_id, answer=text, person="kim"
    )


def refusal(answer: object) -> str:
    return is_a(answer, Refused).why


# ------------------------------------------------------------------ approvals
async def test_an_approval_waits_with_what_the_run_is(desk: Desk) -> None:
    await waiting(desk)
    (row,) = (await desk.ask(ListApprovals(tenant=TENANT))).rows
    assert (row.id, row.agent, row.principal, row.state) == ("apr-1", "refunds", "sam", "pending")
    assert row.requested_at == desk.clock.now()


async def test_the_first_decision_wins_and_the_run_is_told(desk: Desk) -> None:
    hand = await waiting(desk)
    yes, no, again = await desk.group(decide(), decide("denied"), decide())
    row = is_a(yes, ApprovalDecided).approval
    assert (row.state, row.person, row.decided_at) == ("approved", "lee", desk.clock.now())
    assert refusal(no) == refusal(again) == "ALREADY_DECIDED"
    (signal,) = (await desk.loaded()).signals
    assert (signal.kind, signal.approval_id, signal.decision) == ("decision", "apr-1", "approved")
    resolved = ApprovalResolved(
        step=1,
        ordinal=0,
        approval_id="apr-1",
        decision="approved",
        person="lee",
        decided_at=signal.at,
    )
    await hand.append(resolved, named=(signal.id,))
    assert (await desk.loaded()).signals == ()


async def test_a_decision_at_the_expiry_is_too_late(desk: Desk) -> None:
    await waiting(desk, expires_s=10.0)
    desk.clock.advance(10.0)
    assert refusal(await desk.ask(decide())) == "EXPIRED"
    assert (await desk.loaded()).signals == ()


async def test_a_decision_after_the_run_noticed_the_expiry(desk: Desk) -> None:
    hand = await waiting(desk, expires_s=10.0)
    desk.clock.advance(10.0)
    await hand.append(ApprovalExpired(step=1, ordinal=0, approval_id="apr-1"))
    assert refusal(await desk.ask(decide())) == "EXPIRED"


@pytest.mark.parametrize(
    "confirmed",
    [HASH[:11], HASH[:12].upper(), "0" * 12, HASH + "0", HASH[:12] + "\n", " " + HASH[:12]],
)
async def test_a_confirmed_hash_that_is_not_the_actions_is_refused(
    desk: Desk, confirmed: str
) -> None:
    await waiting(desk)
    assert refusal(await desk.ask(decide(confirmed=confirmed))) == "HASH_MISMATCH"
    (row,) = (await desk.ask(ListApprovals(tenant=TENANT))).rows
    assert row.state == "pending"


@pytest.mark.parametrize("confirmed", ["", HASH[:12], HASH[:40], HASH])
async def test_a_confirmed_hash_may_be_given_in_part(desk: Desk, confirmed: str) -> None:
    await waiting(desk)
    is_a(await desk.ask(decide(confirmed=confirmed)), ApprovalDecided)


async def test_no_decision_counts_once_a_cancel_is_pending(desk: Desk) -> None:
    await waiting(desk)
    await desk.send("cancel")
    assert refusal(await desk.ask(decide())) == "CANCEL_PENDING"


async def test_finish_voids_what_waits_for_a_person(desk: Desk) -> None:
    hand = await waiting(desk)
    await hand.append(question(), status=Status.AWAITING_HUMAN)
    await hand.finish(Status.FAILED)
    assert refusal(await desk.ask(decide())) == "ENDED"
    assert refusal(await desk.ask(reply())) == "ENDED"
    everything = ListApprovals(tenant=TENANT, is_pending_only=False)
    assert [row.state for row in (await desk.ask(everything)).rows] == ["void"]
    assert (await desk.ask(ListApprovals(tenant=TENANT))).rows == ()


async def test_an_approval_nobody_asked_for_is_missing(desk: Desk) -> None:
    assert is_a(await desk.ask(decide()), Missing).kind == "approval"
    await waiting(desk)
    is_a(await desk.ask(replace(decide(), tenant="other")), Missing)


# ------------------------------------------------------------------ questions
async def test_answer_cas_a_question_is_answered_once(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.append(question(), status=Status.AWAITING_HUMAN)
    first, second = await desk.group(reply(text="a"), reply(text="b"))
    is_a(first, SignalStored)
    assert refusal(second) == "ALREADY_ANSWERED"
    (signal,) = (await desk.loaded()).signals
    assert (signal.kind, signal.question_id, signal.answer) == ("answer", "q1", "a")
    answered = HumanAnswered(question_id="q1", answer="a", person="kim", answered_at=signal.at)
    await hand.append(answered, named=(signal.id,))


async def test_answer_cas_an_answer_names_its_question(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.append(question("q1"), status=Status.AWAITING_HUMAN)
    assert is_a(await desk.ask(reply("q2")), Missing).kind == "question"
    is_a(await desk.ask(replace(reply(), run_id="r2")), Missing)


async def test_no_answer_counts_once_a_cancel_is_pending(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.append(question(), status=Status.AWAITING_HUMAN)
    await desk.send("cancel")
    assert refusal(await desk.ask(reply())) == "CANCEL_PENDING"


# ------------------------------------------------------------------ signals
async def test_signal_ids_rise_across_runs_and_are_never_given_again(desk: Desk) -> None:
    hand = await desk.hand("r1")
    await desk.ask(born("r2"))
    first = await desk.send("pause", "r1")
    await hand.append(named=(first.id,))
    second = await desk.send("pause", "r2")
    third = await desk.send("pause", "r1")
    assert first.id < second.id < third.id


@pytest.mark.parametrize("kind", ["cancel", "pause", "resume"])
async def test_a_control_that_is_pending_is_not_stored_again(desk: Desk, kind: str) -> None:
    await desk.ask(born())
    first, again = await desk.send(kind), await desk.send(kind)
    assert first.id == again.id
    assert len((await desk.loaded()).signals) == 1


async def test_the_last_of_pause_and_resume_is_always_stored(desk: Desk) -> None:
    await desk.ask(born())
    for kind in ("pause", "resume", "pause"):
        await desk.send(kind)
    assert [signal.kind for signal in (await desk.loaded()).signals] == ["pause", "resume", "pause"]


@pytest.mark.parametrize("kind", ["decision", "answer", "child"])
async def test_a_made_up_decision_cannot_be_sent(desk: Desk, kind: str) -> None:
    await desk.ask(born())
    forged = Signal(kind=kind, approval_id="apr-1", decision="approved")  # pyright: ignore[reportArgumentType] -- parametrised
    op = SendSignal(tenant=TENANT, run_id="r1", signal=forged)
    assert refusal(await desk.ask(op)) == "NOT_A_CONTROL"
    assert (await desk.loaded()).signals == ()


async def test_a_signal_needs_an_open_run(desk: Desk) -> None:
    cancel = SendSignal(tenant=TENANT, run_id="r1", signal=Signal(kind="cancel"))
    is_a(await desk.ask(cancel), Missing)
    hand = await desk.hand()
    await desk.send("pause")
    await hand.finish()
    assert is_a(await desk.ask(cancel), RunEnded).status is Status.SUCCEEDED
    assert (await desk.loaded()).signals == ()


# ------------------------------------------------------------------ children
async def family(desk: Desk) -> tuple[Hand, Hand]:
    """r1 with the child c1, which has the child g1."""
    parent = await desk.hand("r1")
    await parent.append(child_started("c1"), children=(born("c1", parent="r1"),))
    child = await desk.hand("c1", is_new=False)
    await child.append(child_started("g1"), children=(born("g1", parent="c1"),))
    return parent, child


async def kinds(desk: Desk, run_id: str) -> list[str]:
    return [signal.kind for signal in (await desk.loaded(run_id)).signals]


async def test_child_txn_children_are_born_with_the_entry_that_starts_them(desk: Desk) -> None:
    await family(desk)
    row = await desk.row("c1")
    assert (row.parent, row.version, row.summary.agent) == ("r1", 1, "refunds")


async def test_child_txn_an_entry_brings_exactly_the_children_it_names(desk: Desk) -> None:
    hand = await desk.hand()
    await desk.ask(born("taken"))
    stranger = born("c1", parent="r2")
    wrong = (
        hand.entry(child_started("c1")),
        hand.entry(children=(born("c1", parent="r1"),)),
        hand.entry(child_started("c1"), children=(stranger,)),
        hand.entry(child_started("taken"), children=(born("taken", parent="r1"),)),
        hand.entry(child_started("c1", "c1"), children=(born("c1", parent="r1"),) * 2),
    )
    for op in wrong:
        assert refusal(await desk.ask(op)) == "BAD_ENTRY"
    assert (await desk.row()).version == 0


async def test_child_end_txn_a_childs_finish_tells_its_parent(desk: Desk) -> None:
    parent, child = await family(desk)
    await parent.suspend(Status.AWAITING_CHILDREN)
    ended = child.entry(finished(Status.FAILED, Reason.MAX_STEPS), status=Status.FAILED)
    summary = replace(ended.summary, usage=Usage(input_tokens=7), cost_microusd=5, step_count=3)
    is_a(await desk.ask(replace(ended, summary=summary)), Committed)
    (signal,) = (await desk.loaded("r1")).signals
    assert (signal.kind, signal.child_run, signal.child_status) == ("child", "c1", Status.FAILED)
    assert (signal.child_reason, signal.child_result) == ("max_steps", {"answer": 42})
    spent = (signal.child_usage.input_tokens, signal.child_cost_microusd, signal.child_steps)
    assert spent == (7, 5, 3)


async def test_child_end_txn_a_child_that_ends_at_birth_tells_its_parent(desk: Desk) -> None:
    hand = await desk.hand()
    birth = born("c1", parent="r1")
    ended = replace(
        birth,
        events=(birth.events[0], finished(Status.BUDGET_EXHAUSTED, Reason.MAX_TOKENS)),
        summary=replace(birth.summary, status=Status.BUDGET_EXHAUSTED),
    )
    committed = await hand.append(
        child_started("c1"), status=Status.AWAITING_CHILDREN, children=(ended,)
    )
    assert [signal.kind for signal in committed.signals] == ["child"]
    assert (await desk.row()).owner == "p1"


async def test_cancel_tree_a_cancel_reaches_every_open_descendant_at_once(desk: Desk) -> None:
    await family(desk)
    stored = await desk.send("cancel", "r1")
    assert stored.also == ("c1", "g1")
    for run_id in ("r1", "c1", "g1"):
        assert await kinds(desk, run_id) == ["cancel"]
    (signal,) = (await desk.loaded("g1")).signals
    assert (signal.person, signal.reason) == ("kim", Reason.PARENT)


async def test_cancel_tree_a_repeated_cancel_finds_the_child_born_since(desk: Desk) -> None:
    parent, _child = await family(desk)
    await desk.send("cancel", "r1")
    again = await desk.send("cancel", "r1")
    assert again.also == ()
    assert await kinds(desk, "c1") == ["cancel"]
    assert parent.version == 1


async def test_cancel_born_a_child_of_a_cancelled_parent_is_born_cancelled(desk: Desk) -> None:
    hand = await desk.hand()
    await desk.send("cancel")
    await hand.append(child_started("c1"), children=(born("c1", parent="r1"),))
    assert await kinds(desk, "c1") == ["cancel"]


async def test_parent_end_txn_a_parents_finish_cancels_its_open_children(desk: Desk) -> None:
    parent, _child = await family(desk)
    await parent.finish(Status.FAILED)
    assert await kinds(desk, "c1") == ["cancel"]
    assert await kinds(desk, "g1") == ["cancel"]


async def test_parent_end_txn_an_ended_child_tells_an_ended_parent_nothing(desk: Desk) -> None:
    parent, child = await family(desk)
    await parent.finish(Status.FAILED)
    await child.finish(Status.CANCELLED)
    assert await kinds(desk, "r1") == []
    assert (await desk.row("r1")).version == 2
