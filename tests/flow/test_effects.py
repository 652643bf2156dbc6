"""Side effects: exactly one for a key, wherever the process dies and whatever the tool says."""

import time
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from messages import events as e
from messages import subjects
from messages.ledger import Append
from messages.state import LoopState
from messages.status import Reason, Status
from runtime.faults import armed
from runtime.model.scripted import Turn, View
from runtime.policy.grants import Signer, Verifier
from runtime.settings import Runtime, Settings
from tests.flow.desk import LOST, Desk, agent, look, pay, post, shout
from tests.flow.stage import RUN, Stage, Verdict, no, yes
from treadle import Correctable, Transient, Unrecoverable
from treadle.testing import call, finish, turn


def stage(*turns: Turn, desk: Desk | None = None, **options: Any) -> tuple[Stage, Desk]:
    desk = desk or Desk()
    return Stage(agent(**options), script=list(turns), deps=desk), desk


def kinds(state: LoopState) -> list[str]:
    return [line.outcome for line in state.tool_history]


async def results(on: Stage) -> list[tuple[str, str | None]]:
    """How each call ended, with the code of its problem."""
    found = [event for event in await on.events() if isinstance(event, e.Observed)]
    return [(event.kind, event.problem.code if event.problem else None) for event in found]


# ------------------------------------------------------------------ crashes
STORY = (call(look, key="a"), call(pay, key="a", amount=2000), call(post, key="a"), finish("done"))
WRITES = 7
"""Entries of that story: read, asked, intended, done, intended, done, the end."""


async def test_the_story_has_as_many_entries_as_the_design_says() -> None:
    on, desk = stage(*STORY)
    await on.create()
    state = await on.play()
    assert (state.status, state.version, state.step_count) == (Status.SUCCEEDED, WRITES, 4)
    assert desk.effects == {"pay:a:v1": 1, "post:a:v1": 1}


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("place", range(WRITES))
async def test_a_crash_at_any_write_of_the_journal_changes_no_effect(
    place: int, where: str
) -> None:
    """``before``: the entry was never written; ``after``: it was, and nobody heard of it."""
    on, desk = stage(*STORY)
    died: list[Append] = []

    def die(append: Append) -> str:
        if len(on.ledger.appends) == place and not died:
            died.append(append)
            return where
        return ""

    on.ledger.die = die
    await on.create()
    state = await on.play()
    assert (state.status, on.deaths) == (Status.SUCCEEDED, 1)
    assert desk.effects == {"pay:a:v1": 1, "post:a:v1": 1}
    assert {o.key: o.status for o in state.outstanding} == {
        "pay:a:v1": "executed",
        "post:a:v1": "verified",
    }
    assert state.step_count <= 5, "at most the open reservation is lost"


async def test_two_crashes_in_a_row_are_no_more_than_one() -> None:
    for first in range(WRITES):
        on, desk = stage(*STORY)
        died: list[int] = []

        def die(append: Append, died: list[int] = died, first: int = first) -> str:
            if append.version > first and len(died) < 2:
                died.append(append.version)
                return "after" if len(died) == 1 else "before"
            return ""

        on.ledger.die = die
        await on.create()
        state = await on.play()
        assert state.status is Status.SUCCEEDED
        assert desk.effects == {"pay:a:v1": 1, "post:a:v1": 1}


# ------------------------------------------------------------------ what a write says
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Transient("later"), "TRANSIENT"),
        (Correctable("other amount", hint="use 5"), "CORRECTABLE"),
        (Unrecoverable("never"), "UNRECOVERABLE"),
    ],
)
async def test_a_write_that_says_nothing_happened_is_an_error_for_the_model(
    error: Exception, code: str
) -> None:
    desk = Desk(faults={"post": [error]})
    on, _ = stage(call(post, key="a"), finish("failed"), desk=desk)
    await on.create()
    state = await on.play()
    assert await results(on) == [("error", code)]
    assert (desk.requests, desk.effects) == (["post:a:v1"], {}), "nobody retries a write"
    assert (await on.effects())["post:a:v1"].state == "free"
    assert state.status is Status.SUCCEEDED
    told = on.model.requests[1].messages[-1]["content"][0]
    assert told["is_error"]
    assert code in told["content"]


async def test_a_key_that_an_error_freed_can_be_tried_again() -> None:
    desk = Desk(faults={"post": [Transient("later")]})
    on, _ = stage(call(post, key="a"), call(post, key="a"), finish("ok"), desk=desk)
    await on.create()
    state = await on.play()
    assert (kinds(state), desk.effects) == (["error", "ok"], {"post:a:v1": 1})


@pytest.mark.parametrize("fault", [LOST, RuntimeError("boom")], ids=["Unknown", "RuntimeError"])
async def test_a_lost_reply_is_replayed_under_the_same_key(fault: Exception) -> None:
    desk = Desk(faults={"pay afterwards": [fault]})
    on, _ = stage(call(pay, key="a"), finish("ok"), desk=desk)
    await on.create()
    state = await on.play()
    assert state.status is Status.SUCCEEDED
    assert (desk.requests, desk.effects) == (["pay:a:v1"] * 2, {"pay:a:v1": 1})
    assert kinds(state) == ["unknown", "ok"]
    assert len({c.grant_id for c in (await on.effects())["pay:a:v1"].claims}) == 2


async def test_a_lost_reply_is_looked_up_after_w() -> None:
    desk = Desk(faults={"post afterwards": [LOST]})
    on, _ = stage(call(post, key="a"), finish("ok"), desk=desk)
    await on.create()
    state = await on.play()
    assert (desk.requests, desk.lookups) == (["post:a:v1"], 1)
    found = [event for event in await on.events() if isinstance(event, e.Reconciled)]
    assert [(event.finding, event.how) for event in found] == [("happened", "lookup")]
    assert state.evidence[-1].payload == "found a"
    waits = [event for event in await on.events() if isinstance(event, e.Suspended)]
    claimed = (await on.effects())["post:a:v1"].claims[0].at
    assert waits[0].until is not None
    assert waits[0].until >= claimed + 0.3, "W: deadline and late commit"


async def test_what_a_lookup_finds_absent_is_tried_again_under_a_new_grant() -> None:
    desk = Desk(faults={"post": [LOST]})
    on, _ = stage(call(post, key="a"), finish("ok"), desk=desk)
    await on.create()
    state = await on.play()
    assert (desk.requests, desk.effects) == (["post:a:v1"] * 2, {"post:a:v1": 1})
    assert state.status is Status.SUCCEEDED
    grants = [event.grant_id for event in await on.events() if isinstance(event, e.Intended)]
    assert len(set(grants)) == 2


async def test_a_lookup_that_cannot_decide_ends_the_run_with_the_key_flagged() -> None:
    desk = Desk(faults={"post": [LOST], "find_post": [LOST]})
    on, _ = stage(call(post, key="a"), finish("ok"), desk=desk)
    await on.create()
    state = await on.play()
    assert (state.status, state.reason) == (Status.FAILED, Reason.UNKNOWN_EFFECT)
    row = (await on.effects())["post:a:v1"]
    assert (row.state, row.is_flagged) == ("unknown", True)
    assert "outcome unknown: post (post:a:v1)" in state.summary


async def test_a_write_that_hangs_is_unknown_and_looked_up() -> None:
    desk = Desk(faults={"post": ["hang"]})
    on, _ = stage(call(post, key="a"), finish("ok"), desk=desk)
    await on.create()
    state = await on.play()
    assert state.status is Status.SUCCEEDED
    assert kinds(state) == ["unknown", "ok"]
    assert desk.effects == {"post:a:v1": 1}


async def test_a_downstream_that_never_answers_is_bounded() -> None:
    desk = Desk(faults={"pay": ["hang"] * 20})
    on, _ = stage(call(pay, key="a"), finish("ok"), desk=desk)
    await on.create()
    state = await on.play()
    assert (state.status, state.reason) == (Status.FAILED, Reason.UNKNOWN_EFFECT)
    assert len(desk.requests) == 5
    assert (await on.effects())["pay:a:v1"].is_flagged


# ------------------------------------------------------------------ blind
async def test_a_blind_write_is_always_asked_for_and_never_retried() -> None:
    desk = Desk(faults={"shout afterwards": [LOST]})
    on, _ = stage(call(shout, key="a"), finish("ok"), desk=desk)
    await on.create()
    state = await on.play(yes)
    assert (state.status, state.reason) == (Status.FAILED, Reason.UNKNOWN_EFFECT)
    assert desk.effects == {"shout:a": 1}
    asked = [event for event in await on.events() if isinstance(event, e.ApprovalRequested)]
    assert [event.rule for event in asked] == ["blind-write"]


async def resolved(on: Stage, verdict: Verdict, **body: Any) -> LoopState:
    """The run in which the work goes on, at its end, after an operator said what happened.

    Args: verdict: of who is asked for approval, if anybody is.
    """
    async with on.life() as life:
        subject = subjects.api("default", "operator", "effect_resolve")
        data = msgspec.json.encode({"key": "shout:a", **body})
        while "gateway" not in life.bus.roles:
            await anyio.lowlevel.checkpoint()
        reply = msgspec.json.decode(await life.bus.request(subject, data, timeout_s=5))
        state = await life.rest(verdict, run_id=reply["run_id"])
    assert state is not None
    return state


async def test_what_a_person_knows_to_have_happened_is_not_done_again() -> None:
    desk = Desk(faults={"shout afterwards": [LOST]})
    on, _ = stage(call(shout, key="a"), finish("ok"), desk=desk)
    await on.create()
    assert (await on.play(yes)).reason == Reason.UNKNOWN_EFFECT
    state = await resolved(on, no, finding="happened", result="said a")
    assert (state.status, state.continues) == (Status.SUCCEEDED, RUN)
    assert desk.effects == {"shout:a": 1}
    assert (state.evidence[-1].payload, state.evidence[-1].source) == ("said a", "person:operator")
    assert state.escalations == 0, "nobody is asked to approve what has happened"


async def test_what_a_person_knows_not_to_have_happened_is_done_by_the_run_that_goes_on() -> None:
    desk = Desk(faults={"shout": [LOST]})
    on, _ = stage(call(shout, key="a"), finish("ok"), desk=desk)
    await on.create()
    assert (await on.play(yes)).reason == Reason.UNKNOWN_EFFECT
    assert desk.effects == {}
    state = await resolved(on, yes, finding="absent")
    assert (state.status, state.continues) == (Status.SUCCEEDED, RUN)
    assert desk.effects == {"shout:a": 1}


@pytest.mark.parametrize(("amount", "ends"), [(2000, "ok"), (3000, "denied")])
async def test_only_the_very_action_that_is_done_is_not_asked_for(amount: int, ends: str) -> None:
    """The same key with another amount is another action, and somebody is asked."""

    def script(view: View) -> Turn:
        return finish("ok") if view.turn else call(pay, key="a", amount=view.inputs["amount"])

    desk = Desk()
    on = Stage(agent(), script=script, deps=desk)
    await on.create(amount=2000)
    assert (await on.play(yes)).escalations == 1
    await on.create("run-2", amount=amount)
    async with on.life() as life:
        state = await life.rest(no, run_id="run-2")
    assert state is not None
    assert [line.outcome for line in state.tool_history] == [ends]
    assert state.escalations == (0 if ends == "ok" else 1)
    assert desk.requests == ["pay:a:v1"]


async def test_a_blind_write_runs_once_it_is_approved() -> None:
    on, desk = stage(call(shout, key="a"), finish("ok"))
    await on.create()
    assert (await on.play(yes)).status is Status.SUCCEEDED
    assert desk.effects == {"shout:a": 1}
    on, desk = stage(call(shout, key="a"), finish("ok"))
    await on.create()
    assert (await on.play(no)).status is Status.SUCCEEDED
    assert desk.effects == {}


# ------------------------------------------------------------------ shared keys
async def test_two_runs_with_one_business_key_have_one_effect_and_one_result() -> None:
    on, desk = stage(call(pay, key="a"), finish("ok"))
    for run_id in ("run-1", "run-2"):
        await on.create(run_id)
        async with on.life() as life:
            state = await life.rest(run_id=run_id)
        assert state is not None
        assert state.status is Status.SUCCEEDED
        assert state.evidence[-1].payload == "done pay:a:v1"
    assert (desk.requests, desk.effects) == (["pay:a:v1"], {"pay:a:v1": 1})


async def test_a_key_used_with_other_arguments_is_refused() -> None:
    on, desk = stage(call(pay, key="a"), call(pay, key="a", amount=2), finish("ok"))
    await on.create()
    await on.play()
    assert await results(on) == [("ok", None), ("refused", "KEY_MISMATCH")]
    assert desk.effects == {"pay:a:v1": 1}


async def test_two_calls_of_one_turn_with_one_key_have_one_effect() -> None:
    """The ledger names the call that may not be intended; the other one is."""
    on, desk = stage(turn(call(pay, key="a"), call(pay, key="a")), finish("ok"))
    await on.create()
    state = await on.play()
    assert state.status is Status.SUCCEEDED
    assert desk.effects == {"pay:a:v1": 1}
    assert sorted(await results(on)) == [("ok", None), ("refused", "KEY_BUSY")]


async def test_the_same_call_in_a_later_step_gets_the_stored_result() -> None:
    on, desk = stage(call(pay, key="a"), call(pay, key="a"), finish("ok"))
    await on.create()
    state = await on.play()
    assert (desk.requests, kinds(state)) == (["pay:a:v1"], ["ok", "ok"])


async def test_a_precondition_is_asked_before_the_effect() -> None:
    on, desk = stage(call(pay, key="a"), finish("ok"), desk=Desk(owed=False))
    await on.create()
    state = await on.play()
    assert (kinds(state), desk.requests) == (["unmet"], [])


async def test_an_approved_action_is_revalidated_when_the_run_goes_on() -> None:
    """A29: the world may have changed while a person thought about it."""
    on, desk = stage(call(pay, key="a", amount=2000), finish("ok"))
    await on.create()

    def late(row: object) -> str:
        del row
        desk.owed = False
        return "approved"

    state = await on.play(late)
    assert (kinds(state), desk.requests) == (["unmet"], [])


async def test_an_outcome_that_was_settled_is_used_by_the_next_owner() -> None:
    """Not even a blind write is unknown once its executor has told the ledger."""
    on, desk = stage(call(shout, key="a"), finish("ok"))

    def die(append: Append) -> str:
        is_result = any(isinstance(event, e.Observed) for event in append.events)
        return "before" if is_result and on.deaths == 0 else ""

    on.ledger.die = die
    await on.create()
    state = await on.play(yes)
    assert (state.status, on.deaths) == (Status.SUCCEEDED, 1)
    assert desk.effects == {"shout:a": 1}
    found = [event for event in await on.events() if isinstance(event, e.Reconciled)]
    assert [(event.finding, event.how) for event in found] == [("happened", "settled")]
    assert state.evidence[-1].payload == "done shout:a"


async def test_a_grant_that_nobody_accepts_starts_nothing_and_ends_in_bounded_time() -> None:
    """As when an executor was started with another key."""
    on, desk = stage(
        call(pay, key="a"), call(post, key="b"), call(look, key="c"), finish("nothing")
    )
    on.verifier = Verifier(Signer(bytes([1] * 32)).public_key)
    await on.create()
    state = await on.play()
    assert state.status is Status.SUCCEEDED
    known = [kind for kind in kinds(state) if kind != "unknown"]
    assert known == ["unmet", "not_started", "error"]
    assert (desk.requests, state.evidence) == ([], ())


async def test_a_grant_lasts_over_the_precondition_that_stands_before_the_effect() -> None:
    """Otherwise it would be asked for, and the precondition again, for ever."""
    short = Runtime(lease_s=0.4, due_s=0.03, grace_s=0.3, grant_s=0.1)
    desk = Desk(faults={"still_owed": [0.15] * 9})
    script = [call(pay, key="a"), finish("ok")]
    on = Stage(agent(), script=script, deps=desk, settings=Settings(runtime=short))
    await on.create()
    state = await on.play()
    assert (state.status, desk.effects) == (Status.SUCCEEDED, {"pay:a:v1": 1})
    asked = [event for event in await on.events() if isinstance(event, e.Authorised)]
    assert len(asked) == 1


async def test_calls_that_wait_for_a_free_place_longer_than_their_grant_get_another() -> None:
    short = Runtime(lease_s=0.4, due_s=0.03, grace_s=0.3, grant_s=0.1)
    desk = Desk(faults={"look": [0.2] * 16})
    script = [turn(*[call(look, key=f"k{n}") for n in range(20)]), finish("ok")]
    on = Stage(agent(), script=script, deps=desk, settings=Settings(runtime=short))
    await on.create()
    state = await on.play()
    assert state.status is Status.SUCCEEDED
    assert kinds(state) == ["ok"] * 20
    asked = [event for event in await on.events() if isinstance(event, e.Authorised)]
    assert 2 <= len(asked) <= 5


# ------------------------------------------------------------------ a process that is stopped
@pytest.mark.blocking("a process that is stopped does nothing at all")
async def test_a_write_is_not_started_once_its_deadline_passed_after_the_claim() -> None:
    """Whoever looked it up after W found nothing: the effect must not come after that."""
    on, desk = stage(call(post, key="a"), finish("done"))
    stopped: list[str] = []

    def stop(point: str) -> None:
        if point == "executor.after_claim" and not stopped:
            stopped.append(point)
            assert desk.requests == []
            time.sleep(1.1)  # longer than its deadline of a second

    await on.create()
    with armed(stop):
        state = await on.play()
    assert (await results(on))[0] == ("unknown", "CLAIM_LATE")
    assert (state.status, desk.effects) == (Status.SUCCEEDED, {"post:a:v1": 1})
