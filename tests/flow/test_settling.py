"""What became of a write: a settled outcome is used, and unknown is resolved in its order."""

from datetime import timedelta
from typing import Any

import pytest

from messages import events as e
from messages.ledger import Append
from messages.status import Reason, Status
from runtime.agent import Agent
from runtime.model.port import ModelRequest
from runtime.model.scripted import Turn
from tests.flow.desk import DAY, LOST, Desk, pay, post, shout
from tests.flow.stage import Stage, no, yes
from tests.flow.test_effects import kinds, results, stage
from treadle import Ctx, Request, Ruling, Transient, Unrecoverable, allow, ask, write
from treadle.testing import call, finish


# ------------------------------------------------------------------ what is settled is used
@pytest.mark.parametrize("error", [Transient("later"), Unrecoverable("never")])
async def test_an_error_that_was_settled_is_told_by_the_next_owner_and_not_tried_again(
    error: Exception,
) -> None:
    """Nobody retries a write: that nothing happened is for the model to hear."""
    on, desk = stage(call(post, key="a"), finish("ok"), desk=Desk(faults={"post": [error]}))

    def die(append: Append) -> str:
        is_result = any(isinstance(event, e.Observed) for event in append.events)
        return "before" if is_result and on.deaths == 0 else ""

    on.ledger.die = die
    await on.create()
    state = await on.play()
    assert (on.deaths, desk.requests, desk.effects) == (1, ["post:a:v1"], {})
    assert kinds(state) == ["error"]
    assert (await on.effects())["post:a:v1"].state == "free"


async def test_what_is_done_is_given_although_its_precondition_holds_no_more() -> None:
    """Its own effect is why nothing is owed: G11, the same key and arguments give the result."""
    on, desk = stage(call(pay, key="a"), finish("ok"))
    for run_id in ("run-1", "run-2"):
        await on.create(run_id)
        async with on.life() as life:
            state = await life.rest(run_id=run_id)
        assert state is not None
        assert kinds(state) == ["ok"]
        assert state.evidence[-1].payload == "done pay:a:v1"
        desk.owed = False
    assert (desk.requests, desk.effects) == (["pay:a:v1"], {"pay:a:v1": 1})


async def test_another_action_under_a_done_key_is_given_nothing_by_its_precondition() -> None:
    on, desk = stage(call(pay, key="a"), call(pay, key="a", amount=2), finish("ok"))

    def spent(op: Any) -> None:
        desk.owed = desk.owed and "pay:a:v1" not in desk.effects

    on.ledger.answers = spent
    await on.create()
    assert (kinds(await on.play()), desk.requests) == (["ok", "unmet"], ["pay:a:v1"])


# ------------------------------------------------------------------ what resumes is checked again
async def test_a_precondition_that_held_before_a_drain_is_asked_again_after_it() -> None:
    """That it held is in the journal, from an owner that did not get to run the action."""
    desk = Desk(faults={"still_owed": ["hang"]})
    on, _ = stage(call(pay, key="a"), finish("ok"), desk=desk)
    await on.create()
    async with on.life() as life:
        await desk.started.wait()
        life.supervisor.stop()
        desk.go_on.set()
        await on.owned(is_owned=False)
    held = [event for event in await on.events() if isinstance(event, e.Rechecked)]
    assert [event.unmet for event in held] == [None]
    turn_ = (await on.state()).turn
    assert turn_ is not None
    assert turn_.calls[0].is_rechecked
    desk.owed = False
    state = await on.play()
    assert (kinds(state), desk.requests) == (["unmet"], [])


async def test_a_retry_after_a_crash_is_checked_again() -> None:
    """Window B before the claim: the intent is voided, and the world may have moved on."""
    on, desk = stage(call(pay, key="a"), finish("ok"))

    def die(append: Append) -> str:
        is_intent = any(isinstance(event, e.Intended) for event in append.events)
        return "after" if is_intent and on.deaths == 0 else ""

    on.ledger.die = die
    await on.create()
    async with on.life() as life:
        assert await life.rest() is None
    on.deaths, desk.owed = 1, False
    state = await on.play()
    assert (kinds(state), desk.requests) == (["unmet"], [])


# ------------------------------------------------------------------ how unknown is resolved
@write(key="wire:{key}", replay_for=DAY, timeout_s=0.2, late_commit_s=0.2)
async def wire(ctx: Ctx[Desk], key: str) -> str:
    """Wire once; the bank honours the key for a day, and can be asked."""
    return await ctx.deps.take("wire", ctx.idempotency_key)


@wire.rule
def may_wire(req: Request, key: str) -> Ruling:
    return ask("lead", "always", ttl=timedelta(seconds=60)) if key == "dear" else allow()


@wire.lookup
async def find_wire(ctx: Ctx[Desk], key: str) -> str | None:
    ctx.deps.lookups += 1
    return f"found {key}" if ctx.deps.effects.get(f"wire:{key}") else None


def wiring(*turns: Turn, desk: Desk) -> Stage:
    agent_ = Agent("wiring", model="m", instructions="Wire.", tools=[wire])
    return Stage(agent_, script=list(turns), deps=desk)


def unknown_then_dead(on: Stage) -> None:
    """The process dies before it can write the intent of a replay."""

    def die(append: Append) -> str:
        intents = [event for event in append.events if isinstance(event, e.Intended)]
        is_replay = bool(intents) and any(
            isinstance(event, e.Intended) for op in on.ledger.appends for event in op.events
        )
        return "before" if is_replay and on.deaths == 0 else ""

    on.ledger.die = die


@pytest.mark.parametrize(
    ("late_s", "requests", "how"), [(0.0, 2, "replay"), (2 * DAY.total_seconds(), 1, "lookup")]
)
async def test_a_replay_is_sent_only_while_the_downstream_honours_the_key(
    late_s: float, requests: int, how: str
) -> None:
    desk = Desk(faults={"wire afterwards": [LOST]})
    on = wiring(call(wire, key="a"), finish("ok"), desk=desk)
    unknown_then_dead(on)
    await on.create()
    async with on.life() as life:
        assert await life.rest() is None
    on.deaths, on.late_s = 1, late_s
    state = await on.play()
    assert state.status is Status.SUCCEEDED
    assert (len(desk.requests), desk.effects) == (requests, {"wire:a": 1})
    found = [event.how for event in await on.events() if isinstance(event, e.Reconciled)]
    assert found == ([] if how == "replay" else ["lookup"])


async def test_a_replay_is_not_bounded_by_the_expiry_of_the_approval() -> None:
    """It settles what was approved in time; the approval has run out by then."""
    desk = Desk(faults={"wire afterwards": [LOST]})
    on = wiring(call(wire, key="dear"), finish("ok"), desk=desk)
    unknown_then_dead(on)
    await on.create()
    async with on.life() as life:
        assert await life.rest(yes) is None
    on.deaths, on.late_s = 1, 3600.0
    state = await on.play(no)
    assert (state.status, state.escalations) == (Status.SUCCEEDED, 1)
    assert (desk.requests, desk.effects) == (["wire:dear"] * 2, {"wire:dear": 1})


async def test_a_blind_write_is_flagged_only_after_w() -> None:
    """Until then its executor may still settle it."""
    desk = Desk(faults={"shout": ["hang"]})
    on, _ = stage(call(shout, key="a"), finish("ok"), desk=desk)
    await on.create()
    state = await on.play(yes)
    assert state.reason == Reason.UNKNOWN_EFFECT
    claimed = (await on.effects())["shout:a"].claims[0].at
    waits = [event for event in await on.events() if isinstance(event, e.Suspended)]
    until = [event.until for event in waits if event.status is Status.WAITING]
    assert until[-1] is not None
    assert until[-1] >= claimed + 0.3, "W: deadline and late commit"


async def test_a_call_is_intended_at_most_five_times_however_often_it_is_absent() -> None:
    """Each attempt is lost and each lookup finds nothing: it is observed as not started."""
    desk = Desk(faults={"post": [LOST] * 9})
    on, _ = stage(call(post, key="a"), finish("ok"), desk=desk)
    await on.create()
    state = await on.play()
    assert (len(desk.requests), desk.lookups, desk.effects) == (5, 5, {})
    assert (await results(on))[-1] == ("not_started", "INTENTS")
    assert (state.status, (await on.effects())["post:a:v1"].state) == (Status.SUCCEEDED, "free")


# ------------------------------------------------------------------ told to wait in the meantime
async def test_a_pause_that_comes_before_an_unknown_outcome_is_not_forgotten_over_it() -> None:
    """The wait for W answers no pause: once it is over the run stands still all the same."""
    on, desk = stage(
        call(post, key="a"), finish("ok"), desk=Desk(faults={"post afterwards": [LOST]})
    )

    async def think(request: ModelRequest) -> None:
        if request.turn == 0:
            await on.signal("pause")

    on.model.gate = think
    await on.create()
    async with on.life() as life:
        state = await life.rest(yes)
        assert state is not None
        assert (state.status, desk.effects) == (Status.PAUSED, {"post:a:v1": 1})
        waits = [event for event in await on.events() if isinstance(event, e.Suspended)]
        assert next(event.status for event in waits) is Status.WAITING
        await on.signal("resume")
        await life.nudge()
        state = await life.rest(yes, until=lambda s: s.status.is_terminal)
    assert state is not None
    assert (state.status, desk.effects) == (Status.SUCCEEDED, {"post:a:v1": 1})
