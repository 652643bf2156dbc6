"""People: approvals in any order, expiry, cancel, pause and resume at odd moments, escalations."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import anyio
import pytest

from messages import events as e
from messages.ledger import (
    AnswerQuestion,
    ApprovalRow,
    DecideApproval,
    Happened,
    SendSignal,
    Signal,
    Void,
)
from messages.state import LoopState
from messages.status import Reason, Status
from runtime.model.port import ModelRequest
from runtime.model.scripted import Turn
from tests.flow.desk import LOST, Desk, agent, look, pay, post, shout
from tests.flow.stage import RUN, TENANT, Stage, no, nothing, yes
from treadle import Agent, Ctx, Request, Ruling, Unmet, allow, write
from treadle.testing import call, finish, turn


def stage(*turns: Turn, desk: Desk | None = None, **options: Any) -> tuple[Stage, Desk]:
    desk = desk or Desk()
    return Stage(agent(**options), script=list(turns), deps=desk), desk


def is_waiting(state: LoopState) -> bool:
    return state.status is Status.AWAITING_APPROVAL


BIG = call(pay, key="a", amount=2000)


# ------------------------------------------------------------------ approvals
async def test_an_approval_is_asked_for_and_used() -> None:
    on, desk = stage(BIG, finish("ok"))
    await on.create()
    state = await on.play(yes)
    assert state.status is Status.SUCCEEDED
    assert desk.effects == {"pay:a:v1": 1}
    events = await on.events()
    order = [type(x).__name__ for x in events if isinstance(x, WRITE_STORY) and x.step == 1]
    assert order == [
        "Accepted",
        "Authorised",
        "Rechecked",
        "ApprovalRequested",
        "ApprovalResolved",
        "Accepted",
        "Authorised",
        "Rechecked",
        "Intended",
        "Observed",
    ]


WRITE_STORY = (
    e.Accepted,
    e.Authorised,
    e.Rechecked,
    e.ApprovalRequested,
    e.ApprovalResolved,
    e.Intended,
    e.Observed,
)


async def test_a_denied_action_goes_back_to_the_model_with_the_reason() -> None:
    on, desk = stage(BIG, finish("not paid"))
    await on.create()
    state = await on.play(no)
    assert (state.status, desk.requests) == (Status.SUCCEEDED, [])
    told = on.model.requests[1].messages[-1]["content"][0]["content"]
    assert "approver said no: said in a test" in told


async def test_an_approval_left_open_waits_without_a_worker() -> None:
    on, desk = stage(BIG, finish("ok"))
    await on.create()
    state = await on.play(nothing)
    assert (state.status, desk.requests, len(on.model.requests)) == (
        Status.AWAITING_APPROVAL,
        [],
        1,
    )
    row = on.ledger.inner.tables.runs[(TENANT, RUN)]
    assert row.owner is None


async def test_an_expired_approval_executes_nothing_and_a_late_yes_is_refused() -> None:
    on, desk = stage(call(pay, key="a", amount=600), finish("not paid"))
    await on.create()
    async with on.life() as life:
        assert await life.rest(nothing) is not None
        on.late_s += 100
        state = await life.rest(nothing, until=lambda s: s.step_count > 1)
        assert state is not None
        assert await on.decide(yes) == 0
        state = await life.rest()
    assert state is not None
    assert (state.status, desk.requests) == (Status.SUCCEEDED, [])
    told = on.model.requests[1].messages[-1]["content"][0]["content"]
    assert "APPROVAL_EXPIRED" in told
    [row] = await on.approvals(is_pending_only=False)
    assert row.state == "expired"


async def test_an_expired_approval_can_need_input() -> None:
    on, _ = stage(call(pay, key="a", amount=600), on_expired_approval="needs_input")
    await on.create()
    async with on.life() as life:
        assert await life.rest(nothing) is not None
        on.late_s += 100
        state = await life.rest(nothing, until=lambda s: s.status.is_terminal)
    assert state is not None
    assert (state.status, state.reason) == (Status.NEEDS_INPUT, Reason.APPROVAL_EXPIRED)


async def test_an_approval_that_will_expire_soon_is_used_while_it_lasts() -> None:
    """Its grant ends with it, so its short life must be no reason to ask for another."""
    on, desk = stage(call(pay, key="a", amount=600), finish("ok"))
    await on.create()
    state = await on.play(yes)
    assert (state.status, desk.effects) == (Status.SUCCEEDED, {"pay:a:v1": 1})
    authorised = [event for event in await on.events() if isinstance(event, e.Authorised)]
    assert len(authorised) == 2, "once to ask, once with the approval"


async def test_a_yes_that_is_too_old_when_the_run_goes_on_is_asked_for_again() -> None:
    """Nobody drove it in between; the old approval must not shorten the new grant either."""
    on, desk = stage(call(pay, key="a", amount=600), finish("ok"))
    await on.create()
    assert (await on.play(nothing)).status is Status.AWAITING_APPROVAL
    assert await on.decide(yes) == 1
    on.late_s += 100
    state = await on.play(yes)
    assert (state.status, desk.effects) == (Status.SUCCEEDED, {"pay:a:v1": 1})
    assert len(await on.approvals(is_pending_only=False)) == 2
    assert [line.outcome for line in state.tool_history] == ["ok"]


async def test_three_approvals_decided_out_of_order() -> None:
    """Case B10: each runs as it is decided; the results stand in the order of the request."""
    calls = [call(pay, key=key, amount=2000) for key in "abc"]
    on, desk = stage(turn(*calls), finish("two paid"))
    await on.create()

    def out_of_order(row: ApprovalRow) -> str | None:
        if row.key == "pay:c:v1":
            return "approved"
        if desk.requests != ["pay:c:v1"]:
            return None
        return "denied" if row.key == "pay:a:v1" else "approved"

    state = await on.play(out_of_order)
    assert state.status is Status.SUCCEEDED
    assert desk.requests == ["pay:c:v1", "pay:b:v1"]
    blocks = on.model.requests[1].messages[-1]["content"]
    assert [b["tool_use_id"] for b in blocks] == ["toolu_01_0", "toolu_01_1", "toolu_01_2"]
    assert ["PERSON_DENIED" in b["content"] for b in blocks] == [True, False, False]


async def test_other_calls_of_the_turn_run_before_anybody_is_waited_for() -> None:
    on, desk = stage(turn(BIG, call(post, key="b"), call(look, key="c")), finish("ok"))
    await on.create()
    async with on.life() as life:
        waiting = await life.rest(nothing)
        assert waiting is not None
        assert is_waiting(waiting)
        assert desk.effects == {"post:b:v1": 1}
        assert [line.tool for line in waiting.tool_history] == ["post", "look"]
        state = await life.rest(yes)
    assert state is not None
    assert state.status is Status.SUCCEEDED


async def test_a_person_who_may_not_approve_is_asked_after_again() -> None:
    """The authoriser reads who approved; an approval that does not count asks anew, once each."""
    on, desk = stage(BIG, finish("ok"))
    await on.create()
    rows: list[str] = []

    def requester_first(row: ApprovalRow) -> str:
        rows.append(row.id)
        return "approved"

    async with on.life() as life:
        assert await life.rest(nothing) is not None
        [row] = await on.approvals()
        await on.ask(_as_requester(row))
        state = await life.rest(requester_first)
    assert state is not None
    assert (state.status, len(rows)) == (Status.SUCCEEDED, 1)
    assert desk.effects == {"pay:a:v1": 1}


def _as_requester(row: ApprovalRow) -> DecideApproval:
    return DecideApproval(
        tenant=TENANT, approval_id=row.id, decision="approved", person="submitter"
    )


# ------------------------------------------------------------------ cancel
async def test_a_cancel_ends_what_waits() -> None:
    on, desk = stage(turn(BIG, call(look, key="b")))
    await on.create()
    async with on.life() as life:
        assert await life.rest(nothing) is not None
        await on.signal("cancel")
        await life.nudge()
        state = await life.rest(nothing, until=lambda s: s.status.is_terminal)
    assert state is not None
    assert (state.status, state.reason) == (Status.CANCELLED, Reason.BY_PERSON)
    assert [line.outcome for line in state.tool_history] == ["ok", "cancelled"]
    assert desk.requests == []
    end = (await on.events())[-1]
    assert isinstance(end, e.Finished)
    assert end.person == "eve"
    [row] = await on.approvals(is_pending_only=False)
    assert row.state == "void"


async def test_a_cancel_cuts_a_model_call_short_and_its_reservation_is_paid() -> None:
    on, _ = stage(call(look, key="a"), finish("never"))
    thinking = anyio.Event()

    async def think(request: ModelRequest) -> None:
        if request.turn == 1:
            thinking.set()
            await anyio.sleep_forever()

    on.model.gate = think
    await on.create()
    async with on.life() as life:
        await thinking.wait()
        before = await on.state()
        await on.signal("cancel")
        await life.nudge()
        state = await life.rest()
    assert state is not None
    assert state.status is Status.CANCELLED
    assert before.reservation is not None
    assert state.spent.tokens == before.spent.tokens + before.reservation.most.tokens
    assert state.step_count == before.step_count + 1


async def test_a_cancel_that_comes_with_the_intent_starts_nothing() -> None:
    on, desk = stage(call(post, key="a"), finish("never"))

    def cancel_first(op: Any) -> None:
        is_intent = getattr(op, "events", None) and isinstance(op.events[-1], e.Intended)
        if is_intent:
            signal = Signal(kind="cancel", person="eve")
            on.ledger.inner.apply_now([SendSignal(tenant=TENANT, run_id=RUN, signal=signal)])

    on.ledger.answers = cancel_first
    await on.create()
    state = await on.play()
    assert (state.status, desk.requests) == (Status.CANCELLED, [])
    assert [line.outcome for line in state.tool_history] == ["not_started"]
    assert (await on.effects())["post:a:v1"].state == "free"


async def test_a_cancel_waits_for_a_started_write_and_says_if_it_did_not_settle() -> None:
    on, desk = stage(call(post, key="a"), desk=Desk(faults={"post": ["hang"]}))
    await on.create()
    async with on.life() as life:
        await desk.started.wait()
        await on.signal("cancel")
        await life.nudge()
        state = await life.rest()
    assert state is not None
    assert (state.status, state.reason) == (Status.CANCELLED, Reason.EFFECT_UNSETTLED)
    assert [line.outcome for line in state.tool_history] == ["unknown"]
    assert (await on.effects())["post:a:v1"].is_flagged


async def test_a_cancel_that_gives_up_looks_at_every_open_key_once_more() -> None:
    desk = Desk(faults={"post": ["hang", "hang"]})
    on, _ = stage(turn(call(post, key="a"), call(post, key="b")), desk=desk)

    def b_is_settled(op: Any) -> Happened | None:
        return Happened() if isinstance(op, Void) and op.key == "post:b:v1" else None

    on.ledger.answers = b_is_settled
    await on.create()
    async with on.life() as life:
        await desk.started.wait()
        await on.signal("cancel")
        await life.nudge()
        state = await life.rest()
    assert state is not None
    assert (state.status, state.reason) == (Status.CANCELLED, Reason.EFFECT_UNSETTLED)
    assert {o.key: o.status for o in state.outstanding} == {
        "post:a:v1": "unknown",
        "post:b:v1": "executed",
    }


async def test_a_cancel_keeps_what_a_started_write_did() -> None:
    on, desk = stage(call(post, key="a"), desk=Desk(faults={"post": ["hang"]}))
    await on.create()
    async with on.life() as life:
        await desk.started.wait()
        await on.signal("cancel")
        desk.go_on.set()
        state = await life.rest()
    assert state is not None
    assert (state.status, state.reason) == (Status.CANCELLED, Reason.BY_PERSON)
    assert [line.outcome for line in state.tool_history] == ["ok"]


async def test_a_cancel_cuts_reads_short_and_lets_a_started_write_settle() -> None:
    desk = Desk(faults={"look": ["hang", "hang"], "post": [0.1]})
    on, _ = stage(turn(call(look, key="a"), call(post, key="b"), call(look, key="c")), desk=desk)
    await on.create()
    async with on.life() as life:
        with anyio.fail_after(5):
            while desk.faults["look"] or not desk.requests:
                await anyio.lowlevel.checkpoint()
        await on.signal("cancel")
        await life.nudge()
        state = await life.rest()
    assert state is not None
    assert (state.status, state.reason) == (Status.CANCELLED, Reason.BY_PERSON)
    assert state.turn is not None
    kinds = [call.result.kind for call in state.turn.calls if call.result]
    assert kinds == ["cancelled", "ok", "cancelled"]
    assert desk.effects == {"post:b:v1": 1}


@write(key="ship:{key}", timeout_s=30.0)
async def ship(ctx: Ctx[Desk], key: str) -> str:
    """Ship once."""
    return await ctx.deps.take("ship", ctx.idempotency_key)


@ship.rule
def may_ship(req: Request, key: str) -> Ruling:
    return allow()


@ship.precondition
async def is_packed(ctx: Ctx[Desk], key: str) -> Unmet | None:
    return await ctx.deps.fault("is_packed")


@ship.lookup
async def find_shipment(ctx: Ctx[Desk], key: str) -> str | None:
    return None


async def test_a_cancel_cuts_a_precondition_short() -> None:
    desk = Desk(faults={"is_packed": ["hang"]})
    shipping = Agent("shipping", model="m", instructions="Ship it.", tools=[ship])
    on = Stage(shipping, script=[call(ship, key="a")], deps=desk)
    await on.create()
    async with on.life() as life:
        await desk.started.wait()
        await on.signal("cancel")
        await life.nudge()
        state = await life.rest()
    assert state is not None
    assert (state.status, state.reason) == (Status.CANCELLED, Reason.BY_PERSON)
    assert [line.outcome for line in state.tool_history] == ["cancelled"]
    assert desk.requests == []


async def test_a_cancel_that_is_heard_between_two_asks_is_not_lost() -> None:
    """Before a read nothing is committed whose answer would carry it."""
    on, _ = stage(call(look, key="a"), desk=Desk(faults={"look": ["hang"]}))
    await on.create()
    async with on.life() as life, life.bus.subscribe("treadle.rpc.validator.validate") as asked:
        await asked.receive()
        await on.signal("cancel")
        await life.nudge()
        state = await life.rest()
    assert state is not None
    assert state.status is Status.CANCELLED


# ------------------------------------------------------------------ pause and resume
async def test_a_pause_holds_a_running_run_between_two_steps() -> None:
    on, _ = stage(call(look, key="a"), finish("ok"))
    await on.create()
    await on.signal("pause")
    async with on.life() as life:
        state = await life.rest()
        assert state is not None
        assert (state.status, len(on.model.requests)) == (Status.PAUSED, 0)
        await on.signal("resume")
        await life.nudge()
        state = await life.rest(until=lambda s: s.status.is_terminal)
    assert state is not None
    assert (state.status, state.step_count) == (Status.SUCCEEDED, 2)


async def test_a_paused_run_waits_for_its_approval_again_after_the_resume() -> None:
    on, desk = stage(BIG, finish("ok"))
    await on.create()
    async with on.life() as life:
        assert await life.rest(nothing) is not None
        await on.signal("pause")
        await life.nudge()
        await until(on, lambda s: s.status is Status.PAUSED)
        assert await on.decide(yes) == 1
        await life.nudge()
        await until(on, lambda s: s.turn is not None and s.turn.calls[0].phase == "approved")
        assert (await on.state()).status is Status.PAUSED
        await on.signal("resume")
        await life.nudge()
        await until(on, lambda s: s.status.is_terminal)
    assert desk.effects == {"pay:a:v1": 1}


async def until(on: Stage, holds: Callable[[LoopState], bool]) -> LoopState:
    """Wait for a state, whatever rest lies on the way."""
    with anyio.fail_after(8):
        while True:
            changed = on.ledger.changed
            state = await on.state()
            if holds(state):
                return state
            await changed.wait()


@pytest.mark.parametrize("kind", ["pause", "resume"])
async def test_a_signal_that_changes_nothing_is_dealt_with_once(kind: Any) -> None:
    """A resume of what is not paused, a pause of what is: Due must not list the run for ever."""
    on, _ = stage(BIG, finish("ok"))
    await on.create()
    async with on.life() as life:
        assert await life.rest(nothing) is not None
        if kind == "pause":
            await on.signal("pause")
            await until(on, lambda s: s.status is Status.PAUSED)
        await on.signal(kind)
        await life.nudge()
        with anyio.fail_after(5):
            while on.ledger.inner.tables.pending.get((TENANT, RUN)):
                await on.ledger.changed.wait()
        version = (await on.state()).version
        row = on.ledger.inner.tables.runs[(TENANT, RUN)]
        assert row.owner is None
        for _ in range(20):
            await on.ledger.changed.wait()
        assert (await on.state()).version == version, "nobody takes it again and again"
    assert (await on.state()).status in {Status.PAUSED, Status.AWAITING_APPROVAL}


# ------------------------------------------------------------------ escalation
async def test_an_escalation_waits_for_an_answer_which_the_model_sees_after_its_results() -> None:
    desk = Desk(faults={"look": [ValueError("down")]})
    on, _ = stage(
        call(look, key="a"),
        finish("ok"),
        desk=desk,
        escalate_to="lead",
        max_consecutive_errors=1,
    )
    await on.create()
    async with on.life() as life:
        state = await life.rest()
        assert state is not None
        assert (state.status, state.escalations) == (Status.AWAITING_HUMAN, 1)
        assert state.question is not None
        answer = AnswerQuestion(
            tenant=TENANT,
            run_id=RUN,
            question_id=state.question.id,
            answer="use the other shelf",
            person="lead-1",
        )
        await on.ask(answer)
        await life.nudge()
        await until(on, lambda s: s.status.is_terminal)
    content = on.model.requests[1].messages[-1]["content"]
    assert [block["type"] for block in content] == ["tool_result", "text"]
    assert "lead-1 answers" in content[1]["text"]
    assert (await on.state()).status is Status.SUCCEEDED


# ------------------------------------------------------------------ the end of what waits
async def test_a_waiting_run_whose_agent_is_gone_ends_when_it_is_woken() -> None:
    on, _ = stage(BIG, finish("ok"))
    await on.create()
    assert (await on.play(nothing)).status is Status.AWAITING_APPROVAL
    other = Stage(agent(), script=[], deps=Desk())
    other.agent.name = "another"
    other.app.agents = {"another": other.agent}
    other.ledger = on.ledger
    assert await on.decide(yes) == 1
    async with other.life():
        state = await until(on, lambda s: s.status.is_terminal)
    assert (state.status, state.reason) == (Status.FAILED, Reason.AGENT_CHANGED)


async def test_a_waiting_run_that_kills_its_owners_is_set_aside() -> None:
    """Its decision makes every owner die; the third death ends it although it is suspended."""
    on, desk = stage(BIG, finish("ok"))
    await on.create()
    assert (await on.play(nothing)).status is Status.AWAITING_APPROVAL
    on.ledger.die = lambda _append: "before" if on.deaths < 3 else ""
    await on.decide(yes)
    state = await on.play(nothing, until=lambda s: s.status.is_terminal)
    assert (state.status, state.reason) == (Status.FAILED, Reason.POISON)
    assert desk.requests == []


async def test_an_approval_lasts_over_a_crash_in_the_effect() -> None:
    desk = Desk(faults={"shout afterwards": [LOST]})
    on, _ = stage(call(shout, key="a"), desk=desk)
    await on.create()
    state = await on.play(yes)
    assert state.reason == Reason.UNKNOWN_EFFECT
    assert len(await on.approvals(is_pending_only=False)) == 1


async def test_ttl_is_the_rules_or_the_agents() -> None:
    on, _ = stage(call(shout, key="a"), approval_ttl=timedelta(seconds=33))
    await on.create()
    await on.play(nothing)
    [row] = await on.approvals()
    assert 30 < row.expires_at - row.requested_at <= 33
