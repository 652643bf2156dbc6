"""Before SUCCEEDED the downstream is asked whether the effects are there (DESIGN.md section 8)."""

from typing import Any

import anyio
import pytest

from messages import events as e
from messages.ledger import Append, Loaded, RunRow
from messages.ledger import Load as LoadRun
from messages.state import LoopState
from messages.status import Reason, Status
from runtime.agent import Agent
from runtime.model.scripted import Turn
from runtime.tools.draft import Draft
from runtime.views.run import show_run
from tests.flow.desk import BUSY, LOST, Desk, agent, look, pay, post
from tests.flow.stage import RUN, TENANT, Stage, nothing, yes
from treadle import Ctx, Request, Ruling, Unmet, allow, ask, deny, write
from treadle.testing import call, finish, turn


def stage(*turns: Turn, desk: Desk | None = None, **options: Any) -> tuple[Stage, Desk]:
    desk = desk or Desk()
    return Stage(agent(**options), script=list(turns), deps=desk), desk


def give_up(why: str) -> Turn:
    """The model sees no way."""
    return call("give_up", why=why)


async def verified(on: Stage, run_id: str = RUN) -> list[tuple[str, bool, str | None]]:
    """What each lookup before success said: key, is it there, why it could not be said."""
    found = [event for event in await on.events(run_id) if isinstance(event, e.Verified)]
    return [(v.key, v.is_there, v.problem.code if v.problem else None) for v in found]


def life(state: LoopState) -> dict[str, tuple[str, str | None]]:
    return {o.key: (o.status, o.verification) for o in state.outstanding}


# ------------------------------------------------------------------ found
async def test_an_executed_write_is_looked_up_once_before_success() -> None:
    on, desk = stage(call(post, key="a"), call(look, key="b"), finish("ok"))
    await on.create()
    state = await on.play()
    assert (state.status, state.output, desk.lookups) == (Status.SUCCEEDED, "ok", 1)
    assert await verified(on) == [("post:a:v1", True, None)]
    assert isinstance((await on.events())[-1], e.Finished)


async def test_show_says_verified_after_it() -> None:
    on, _ = stage(call(post, key="a"), call(pay, key="a"), finish("ok"))
    await on.create()
    state = await on.play()
    loaded = await on.ask_quietly(LoadRun(tenant=TENANT, run_id=RUN))
    assert isinstance(loaded, Loaded)
    assert isinstance(loaded.row, RunRow)
    shown = {o["key"]: o["status"] for o in show_run(state, loaded.row)["outstanding"]}
    assert shown == {"post:a:v1": "verified", "pay:a:v1": "executed"}


async def test_it_costs_no_entry_and_those_without_a_lookup_nothing() -> None:
    for tool, asked in ((post, 1), (pay, 0)):
        on, desk = stage(call(tool, key="a"), finish("ok"))
        await on.create()
        state = await on.play()
        assert (state.version, desk.lookups) == (3, asked)
        assert len(await verified(on)) == asked


async def test_several_are_looked_up_side_by_side() -> None:
    """Both are in flight at once: the first is answered only after the second was asked."""
    second = anyio.Event()
    tools = gated(second)
    on = Stage(
        Agent("gated", model="m", instructions="Do.", tools=tools),
        script=[turn(call("place", key="a"), call("place", key="b")), finish("ok")],
        deps=Desk(),
    )
    await on.create()
    state = await on.play()
    assert state.status is Status.SUCCEEDED
    assert {key for key, is_there, _ in await verified(on) if is_there} == {"place:a", "place:b"}


def gated(second: anyio.Event) -> list[Any]:
    """A write whose first lookup waits for the second one."""
    asked: list[str] = []

    @write(key="place:{key}")
    async def place(ctx: Ctx[Desk], key: str) -> str:
        """Place once."""
        return await ctx.deps.take("place", ctx.idempotency_key)

    @place.rule
    def may_place(req: Request, key: str) -> Ruling:
        return allow()

    @place.lookup
    async def find_place(ctx: Ctx[Desk], key: str) -> str | None:
        asked.append(key)
        if len(asked) == 2:
            second.set()
        await second.wait()
        return key

    return [place]


async def test_what_another_run_did_is_looked_up_by_the_run_that_rests_on_it() -> None:
    """Its recorded result may be old; and no second approval is asked for, to look."""
    on = Stage(
        Agent("sending", model="m", instructions="Send.", tools=[send]),
        script=lambda view: finish("ok") if view.turn else call(send, key="a"),
        deps=(desk := Desk()),
    )
    for run_id in ("run-1", "run-2"):
        await on.create(run_id)
        async with on.life() as life_:
            state = await life_.rest(yes if run_id == "run-1" else nothing, run_id=run_id)
        assert state is not None
        assert state.status is Status.SUCCEEDED
        assert await verified(on, run_id) == [("send:a", True, None)]
    assert (desk.requests, desk.lookups) == (["send:a"], 2)


@write(key="send:{key}")
async def send(ctx: Ctx[Desk], key: str) -> str:
    """Send once."""
    return await ctx.deps.take("send", ctx.idempotency_key)


@send.rule
def may_send(req: Request, key: str) -> Ruling:
    return ask("lead", "always")


@send.lookup
async def find_sent(ctx: Ctx[Desk], key: str) -> str | None:
    ctx.deps.lookups += 1
    return key if ctx.deps.effects.get(f"send:{key}") else None


# ------------------------------------------------------------------ not found
async def test_what_is_not_there_rejects_the_completion_and_the_model_is_told() -> None:
    desk = Desk(answers={"find_post": [None]})
    on, _ = stage(call(post, key="a"), finish("ok"), finish("ok"), give_up("gone"), desk=desk)
    await on.create()
    state = await on.play()
    assert (state.status, state.reason) == (Status.FAILED, Reason.NO_ACTION)
    assert desk.lookups == 1, "the second proposal is turned down by the record"
    rejected = [event for event in await on.events() if isinstance(event, e.CompletionRejected)]
    assert [event.problem.code for event in rejected] == ["EFFECT_NOT_FOUND"] * 2
    for request in on.model.requests[2:4]:
        [told] = request.messages[-1]["content"]
        assert (told["type"], told["is_error"]) == ("tool_result", True)
        assert "post (post:a:v1)" in told["content"]
    assert life(state) == {"post:a:v1": ("executed", "absent")}
    assert "not found: post (post:a:v1)" in state.summary
    assert (await on.effects())["post:a:v1"].state == "done", "what is done stays done"


async def test_proposing_it_again_does_not_do_it_again() -> None:
    desk = Desk(answers={"find_post": [None]})
    on, _ = stage(
        call(post, key="a"), finish("ok"), call(post, key="a"), give_up("gone"), desk=desk
    )
    await on.create()
    await on.play()
    assert (desk.requests, desk.effects) == (["post:a:v1"], {"post:a:v1": 1})


def posting() -> Agent[Any]:
    """An agent without ``output=`` that is done once it has posted."""
    early = agent()

    @early.done
    def posted(draft: Draft[Any]) -> Unmet | None:
        return None if draft.results(post) else Unmet("nothing was posted")

    return early


async def test_an_early_end_is_verified_too() -> None:
    on = Stage(posting(), script=[call(post, key="a")], deps=(desk := Desk()))
    await on.create()
    state = await on.play()
    assert (state.status, state.reason, state.step_count) == (
        Status.SUCCEEDED,
        Reason.VERIFIED,
        1,
    )
    assert desk.lookups == 1
    assert life(state) == {"post:a:v1": ("verified", "happened")}


async def test_an_early_end_that_is_rejected_is_told_behind_the_results() -> None:
    desk = Desk(answers={"find_post": [None]})
    on = Stage(posting(), script=[call(post, key="a"), give_up("gone")], deps=desk)
    await on.create()
    state = await on.play()
    assert (state.status, state.reason) == (Status.FAILED, Reason.NO_ACTION)
    result, told = on.model.requests[1].messages[-1]["content"]
    assert (result["type"], told["type"]) == ("tool_result", "text")
    assert "EFFECT_NOT_FOUND" in told["text"]


# ------------------------------------------------------------------ undecidable
@pytest.mark.parametrize(
    ("faults", "code", "lookups"),
    [
        ([LOST], "UNKNOWN", 1),
        ([RuntimeError("boom")], "TOOL_FAILED", 1),
        (["hang"], "TOOL_DEADLINE", 1),
        ([BUSY, BUSY, BUSY], "TRANSIENT", 3),
    ],
    ids=["Unknown", "RuntimeError", "hang", "away"],
)
async def test_a_lookup_that_cannot_decide_does_not_undo_a_recorded_result(
    faults: list[Any], code: str, lookups: int
) -> None:
    """Bounded: it is asked once, and once is what a read is retried within its deadline."""
    on, desk = stage(call(post, key="a"), finish("ok"), desk=Desk(faults={"find_post": faults}))
    await on.create()
    state = await on.play()
    assert state.status is Status.SUCCEEDED
    assert (await verified(on), desk.lookups) == ([("post:a:v1", False, code)], lookups)
    assert life(state) == {"post:a:v1": ("executed", "undecidable")}
    assert "not verified: post (post:a:v1)" in state.summary


async def test_a_lookup_that_fails_at_first_is_retried_like_a_read() -> None:
    on, desk = stage(call(post, key="a"), finish("ok"), desk=Desk(faults={"find_post": [BUSY]}))
    await on.create()
    state = await on.play()
    assert (life(state), desk.lookups) == ({"post:a:v1": ("verified", "happened")}, 2)


async def test_what_policy_has_come_to_deny_cannot_be_looked_up() -> None:
    is_denied: list[bool] = []

    @write(key="note:{key}")
    async def note(ctx: Ctx[Desk], key: str) -> str:
        """Note once."""
        is_denied.append(True)
        return await ctx.deps.take("note", ctx.idempotency_key)

    @note.rule
    def may_note(req: Request, key: str) -> Ruling:
        return deny("POL-9") if is_denied else allow()

    @note.lookup
    async def find_note(ctx: Ctx[Desk], key: str) -> str | None:
        raise AssertionError("asked without authority")

    on = Stage(
        Agent("noting", model="m", instructions="Note.", tools=[note]),
        script=[call(note, key="a"), finish("ok")],
        deps=Desk(),
    )
    await on.create()
    assert (await on.play()).status is Status.SUCCEEDED
    assert await verified(on) == [("note:a", False, "POLICY_DENIED")]


# ------------------------------------------------------------------ crashes and people
@pytest.mark.parametrize("where", ["before", "after"])
async def test_a_crash_between_lookup_and_end_may_look_again_and_nothing_else(where: str) -> None:
    on, desk = stage(call(post, key="a"), finish("ok"))

    def die(append: Append) -> str:
        is_end = any(isinstance(event, e.Finished) for event in append.events)
        return where if is_end and on.deaths == 0 else ""

    on.ledger.die = die
    await on.create()
    state = await on.play()
    assert (state.status, on.deaths) == (Status.SUCCEEDED, 1)
    assert desk.effects == {"post:a:v1": 1}
    assert desk.lookups == (2 if where == "before" else 1)
    assert len(await verified(on)) == 1


async def test_a_cancel_cuts_a_hung_lookup_short() -> None:
    # the deadline of the tool is far longer than the test's patience
    desk = Desk(faults={"find": ["hang"]})
    on = Stage(patient(), script=[call("ship", key="a"), finish("ok")], deps=desk)
    await on.create()
    async with on.life() as life_:
        await desk.started.wait()
        await on.signal("cancel")
        await life_.nudge()
        state = await life_.rest()
    assert state is not None
    assert (state.status, state.reason) == (Status.CANCELLED, Reason.BY_PERSON)
    assert await verified(on) == []
    assert life(state) == {"ship:a": ("executed", None)}


def patient() -> Agent[Any]:
    """An agent whose write may be looked up for half a minute."""

    @write(key="ship:{key}", timeout_s=30.0)
    async def ship(ctx: Ctx[Desk], key: str) -> str:
        """Ship once."""
        return await ctx.deps.take("ship", ctx.idempotency_key)

    @ship.rule
    def may_ship(req: Request, key: str) -> Ruling:
        return allow()

    @ship.lookup
    async def find(ctx: Ctx[Desk], key: str) -> str | None:
        await ctx.deps.fault("find")
        return key

    return Agent("patient", model="m", instructions="Ship.", tools=[ship])


async def test_a_drain_in_the_middle_of_a_lookup_leaves_the_rest_to_the_next_owner() -> None:
    desk = Desk(faults={"find": ["hang"]})
    on = Stage(patient(), script=[call("ship", key="a"), finish("ok")], deps=desk)
    await on.create()
    async with on.life() as life_:
        await desk.started.wait()
        life_.supervisor.stop()
        desk.go_on.set()
        await on.owned(is_owned=False)
    state = await on.play(yes)
    assert (state.status, state.step_count) == (Status.SUCCEEDED, 2)
    assert (desk.effects, len(await verified(on))) == ({"ship:a": 1}, 1)


async def test_a_pause_that_waits_is_kept_and_the_run_ends_after_it() -> None:
    """What was judged and looked up before the pause is not asked again."""
    desk = Desk(faults={"find": ["hang"]})
    on = Stage(patient(), script=[call("ship", key="a"), finish("ok")], deps=desk)
    await on.create()
    async with on.life() as life_:
        await desk.started.wait()
        await on.signal("pause")
        await life_.nudge()  # the word of a cancel: signals are read, and there is none
        state = await life_.rest()
        assert state is not None
        assert state.status is Status.PAUSED
        desk.go_on.set()
        await on.signal("resume")
        await life_.nudge_wake()
        state = await life_.rest(until=lambda s: s.status.is_terminal)
    assert state is not None
    assert state.status is Status.SUCCEEDED
    assert life(state) == {"ship:a": ("verified", "happened")}
    assert len(await verified(on)) == 1
