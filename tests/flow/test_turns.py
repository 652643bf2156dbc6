"""What the model may say, and what the run makes of it."""

from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from messages import events as e
from messages.parts import Limits
from messages.status import Reason, Status
from runtime.model.scripted import Turn
from tests.flow.desk import BUSY, Desk, agent, chat, look, pay, post, slow
from tests.flow.stage import Stage, no
from treadle import Agent, Draft, Unmet
from treadle.testing import call, finish, run, say, turn


def stage(*turns: Turn, desk: Desk | None = None, **options: Any) -> tuple[Stage, Desk]:
    desk = desk or Desk()
    return Stage(agent(**options), script=list(turns), deps=desk), desk


def raw(*blocks: dict[str, Any], stop_reason: str = "") -> Turn:
    return Turn(blocks=blocks, stop_reason=stop_reason)


def use(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "name": name, "input": arguments}


async def problems(on: Stage) -> list[str]:
    """Codes the model was told, in order."""
    found = await on.events()
    return [event.problem.code for event in found if isinstance(event, e.ProposalRejected)]


def told(on: Stage, request: int, place: int = 0) -> str:
    """What the model was told in the newest message of a request."""
    block = on.model.requests[request].messages[-1]["content"][place]
    return str(block.get("content") or block.get("text"))


# ------------------------------------------------------------------ malformed calls
@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (call("lok", key="a"), "UNKNOWN_TOOL"),
        (call(look, key=5), "BAD_ARGUMENTS"),
        (call(look), "BAD_ARGUMENTS"),
        (call(look, key="a", extra=1), "BAD_ARGUMENTS"),
        (raw({"type": "tool_use", "name": "look", "input": "{"}), "UNREADABLE_ARGUMENTS"),
        (call(pay, key="a b"), "BAD_KEY_PART"),
    ],
)
async def test_a_malformed_call_is_told_costs_a_step_and_never_raises(bad: Turn, code: str) -> None:
    on, desk = stage(bad, call(look, key="a"), finish("ok"))
    await on.create()
    state = await on.play()
    assert (state.status, state.step_count, desk.requests) == (Status.SUCCEEDED, 3, [])
    assert await problems(on) == [code]
    assert code in told(on, 1)


async def test_an_unknown_tool_names_the_ones_there_are() -> None:
    on, _ = stage(turn(call(look, key="a"), call("lok", key="b")), finish("ok"))
    await on.create()
    await on.play()
    assert "did you mean look" in told(on, 1, 1)
    assert "UNKNOWN_TOOL" not in told(on, 1, 0)


async def test_the_third_equal_rejected_call_is_no_progress() -> None:
    on, _ = stage(*[call("lok", key="a")] * 5)
    await on.create()
    state = await on.play()
    assert (state.status, state.reason, state.step_count) == (
        Status.NO_PROGRESS,
        Reason.REPEATED_ACTION,
        3,
    )


async def test_three_different_bad_turns_are_bad_output() -> None:
    on, _ = stage(*[call("lok", key=key) for key in "abcde"])
    await on.create()
    state = await on.play()
    assert (state.status, state.reason, state.step_count) == (
        Status.FAILED,
        Reason.BAD_OUTPUT,
        3,
    )


async def test_an_action_denied_again_and_again_stops_asking_people() -> None:
    on, desk = stage(*[call(pay, key="a", amount=2000)] * 6)
    await on.create()
    state = await on.play(no)
    assert (state.status, state.reason) == (Status.NO_PROGRESS, Reason.REPEATED_ACTION)
    assert len(await on.approvals(is_pending_only=False)) == 3
    assert desk.requests == []


# ------------------------------------------------------------------ policy
async def test_a_policy_deny_ends_the_run() -> None:
    on, desk = stage(call(pay, key="forbidden"))
    await on.create()
    state = await on.play()
    assert (state.status, state.reason, desk.requests) == (Status.DENIED, Reason.POLICY, [])
    end = (await on.events())[-1]
    assert isinstance(end, e.Finished)
    assert end.why == "POL-1 forbids it"


async def test_a_policy_deny_may_be_told() -> None:
    on, desk = stage(call(pay, key="forbidden"), finish("ok"), on_policy_deny="tell")
    await on.create()
    state = await on.play()
    assert (state.status, desk.requests) == (Status.SUCCEEDED, [])
    assert "POL-1 forbids it" in told(on, 1)


# ------------------------------------------------------------------ reads that fail
async def test_a_read_is_tried_again_after_transient() -> None:
    desk = Desk(faults={"look": [BUSY]})
    on, _ = stage(call(look, key="a"), finish("ok"), desk=desk)
    await on.create()
    state = await on.play()
    assert state.tool_errors == 0
    seen = [event for event in await on.events() if isinstance(event, e.Observed)]
    assert len({attempt.request_id for attempt in seen[0].attempts}) == 2
    assert state.evidence[0].request_id == seen[0].attempts[-1].request_id


@pytest.mark.parametrize(
    ("fault", "tool", "code"),
    [
        (ValueError("boom"), look, "TOOL_FAILED"),
        ("hang", slow, "TOOL_DEADLINE"),
    ],
)
async def test_a_read_that_fails_is_an_error_result(fault: Any, tool: Any, code: str) -> None:
    on, _ = stage(call(tool, key="a"), finish("ok"), desk=Desk(faults={tool.name: [fault]}))
    await on.create()
    state = await on.play()
    assert (state.status, state.tool_errors) == (Status.SUCCEEDED, 1)
    assert code in told(on, 1)


async def test_a_result_that_cannot_be_json_is_an_error_of_a_read() -> None:
    on, _ = stage(call(look, key="a"), finish("ok"), desk=Desk(answers={"look": [object()]}))
    await on.create()
    state = await on.play()
    assert (state.status, state.tool_errors) == (Status.SUCCEEDED, 1)


async def test_dirty_text_is_cleaned_with_a_note_and_equal_dirt_is_equal() -> None:
    dirt = "bad \ud83d tail"
    on, _ = stage(*[call(look, key="a")] * 5, desk=Desk(answers={"look": [dirt] * 5}))
    await on.create()
    state = await on.play()
    assert (state.status, state.reason) == (Status.NO_PROGRESS, Reason.REPEATED_ACTION)
    assert state.evidence[0].notes
    assert "notes" in told(on, 1)


async def test_a_huge_result_is_an_artifact_and_done_reads_all_of_it() -> None:
    huge = "x" * 700_000
    seen: list[int] = []
    judged = agent()

    @judged.done
    def settled(draft: Draft[None]) -> Unmet | None:
        seen.append(len(str(draft.latest(look))))
        return None

    on = Stage(judged, script=[call(look, key="a")], deps=Desk(answers={"look": [huge]}))
    await on.create()
    state = await on.play()
    assert (state.status, state.reason, seen) == (Status.SUCCEEDED, Reason.VERIFIED, [700_000])
    assert state.evidence[0].ref is not None
    assert len(state.evidence[0].payload["beginning"]) == 4_000


async def test_many_large_results_of_one_turn_fit_one_entry() -> None:
    """Each may lie in the journal, together they may not: the broker's limit is a megabyte."""
    on, _ = stage(
        turn(*[call(look, key=f"k{n}") for n in range(12)]),
        call(look, key="b"),
        finish("ok"),
        desk=Desk(answers={"look": [f"{n}" + "y" * 120_000 for n in range(13)]}),
    )
    await on.create(limits=LARGE)
    state = await on.play()
    assert state.status is Status.SUCCEEDED
    assert len(state.evidence) == 13
    assert all(item.ref is not None for item in state.evidence[:12])


LARGE = Limits(max_tokens=10_000_000)


async def test_a_planner_that_cannot_be_sent_the_tail_loads_it() -> None:
    """Three entries may travel with a request; if they are too large together they do not."""
    answers: dict[str, list[Any]] = {"look": [f"{n}" + "z" * 125_000 for n in range(9)]}
    turns = [turn(*[call(look, key=f"k{n}{step}") for n in range(3)]) for step in range(3)]
    on, _ = stage(*turns, finish("ok"), desk=Desk(answers=answers))
    await on.create(limits=LARGE)
    state = await on.play()
    assert (state.status, state.step_count) == (Status.SUCCEEDED, 4)


async def test_errors_have_a_ceiling_in_a_row_and_in_all() -> None:
    on, _ = stage(
        *[call(look, key=key) for key in "abcdef"],
        desk=Desk(faults={"look": [ValueError(n) for n in "abcdef"]}),
    )
    await on.create()
    state = await on.play()
    assert (state.status, state.reason, state.tool_errors) == (
        Status.FAILED,
        Reason.TOO_MANY_ERRORS,
        3,
    )
    mixed = [call(t, key=f"k{n}") for n in range(8) for t in (slow, look)]
    on, _ = stage(*mixed, desk=Desk(faults={"look": [ValueError(n) for n in range(8)]}))
    await on.create()
    state = await on.play()
    assert (state.reason, state.tool_errors) == (Reason.TOO_MANY_ERRORS, 4)


# ------------------------------------------------------------------ finishing
async def test_text_without_a_call_is_no_success_when_done_says_no() -> None:
    judged = agent()

    @judged.done
    def paid(draft: Draft[None]) -> Unmet | None:
        return None if draft.executed(pay) else Unmet("nothing was paid")

    on = Stage(
        judged,
        script=[say("I have paid it, all is well."), call(pay, key="a"), finish("never reached")],
        deps=Desk(),
    )
    await on.create()
    state = await on.play()
    assert (state.status, state.reason, state.step_count) == (
        Status.SUCCEEDED,
        Reason.VERIFIED,
        2,
    )
    assert "nothing was paid" in told(on, 1)


async def test_a_rejected_finish_goes_back_and_costs_a_step() -> None:
    judged: Agent[Any] = Agent(
        "desk", model="m", instructions="Do.", tools=[look], output=Outcome, max_corrections=2
    )

    @judged.done
    def known(draft: Draft[Outcome]) -> Unmet | None:
        return None if draft.results(look) else Unmet("you have not looked")

    on = Stage(
        judged,
        script=[
            finish({"total": "many"}),
            finish(Outcome(total=1)),
            call(look, key="a"),
            finish(Outcome(total=2)),
        ],
        deps=Desk(),
    )
    await on.create()
    state = await on.play()
    assert (state.status, state.step_count, state.output) == (Status.SUCCEEDED, 4, {"total": 2})
    assert "BAD_OUTPUT" in told(on, 1)
    assert "you have not looked" in told(on, 2)


@dataclass
class Outcome:
    total: int


async def test_an_agent_with_output_is_judged_on_its_finish_alone() -> None:
    seen: list[object] = []
    judged: Agent[Any] = Agent("desk", model="m", instructions="Do.", tools=[look], output=Outcome)

    @judged.done
    def ok(draft: Draft[Outcome]) -> Unmet | None:
        seen.append(draft.output)
        return None

    on = Stage(judged, script=[call(look, key="a"), finish(Outcome(total=1))], deps=Desk())
    await on.create()
    state = await on.play()
    assert (state.status, seen) == (Status.SUCCEEDED, [Outcome(total=1)])


async def test_a_done_that_fails_accepts_nothing() -> None:
    judged = agent()

    @judged.done
    def broken(draft: Draft[None]) -> Unmet | None:
        raise RuntimeError("bug in done")

    on = Stage(judged, script=[finish("a"), finish("b")], deps=Desk())
    await on.create(limits=Limits(max_steps=2))
    state = await on.play()
    assert (state.status, state.reason) == (Status.BUDGET_EXHAUSTED, Reason.MAX_STEPS)


async def test_without_done_a_finish_is_believed_and_says_so() -> None:
    on, _ = stage(finish({"any": "thing"}))
    await on.create()
    state = await on.play()
    assert (state.status, state.reason, state.output) == (
        Status.SUCCEEDED,
        Reason.UNVERIFIED,
        {"any": "thing"},
    )


# ------------------------------------------------------------------ other endings
async def test_ask_user_ends_with_the_question() -> None:
    on, _ = stage(call("ask_user", question="Which order?"))
    await on.create()
    state = await on.play()
    assert (state.status, state.reason, state.output) == (
        Status.NEEDS_INPUT,
        Reason.QUESTION,
        "Which order?",
    )


async def test_give_up_is_a_failure() -> None:
    on, _ = stage(call("give_up", why="no way"))
    await on.create()
    state = await on.play()
    assert (state.status, state.reason) == (Status.FAILED, Reason.NO_ACTION)


async def test_an_empty_turn_is_nudged_once_and_sends_no_blank_text() -> None:
    blank = raw({"type": "text", "text": " \n"}, stop_reason="end_turn")
    on, _ = stage(blank, call(look, key="a"), finish("ok"))
    await on.create()
    assert (await on.play()).status is Status.SUCCEEDED
    for request in on.model.requests:
        for message in request.messages:
            assert message["content"]
            for block in message["content"]:
                assert block["type"] != "text" or block["text"].strip()
    on, _ = stage(raw(stop_reason="end_turn"), blank)
    await on.create()
    state = await on.play()
    assert (state.status, state.reason, state.step_count) == (
        Status.FAILED,
        Reason.NO_ACTION,
        2,
    )


async def test_a_cut_turn_runs_nothing_and_three_end_the_run() -> None:
    cut = raw(use("post", key="a"), stop_reason="max_tokens")
    on, desk = stage(cut, call(post, key="a"), finish("ok"))
    await on.create()
    assert (await on.play()).status is Status.SUCCEEDED
    assert desk.requests == ["post:a:v1"]
    assert "OUTPUT_LIMIT" in told(on, 1)
    on, desk = stage(cut, cut, cut, cut)
    await on.create()
    state = await on.play()
    assert (state.status, state.reason, desk.requests) == (
        Status.FAILED,
        Reason.OUTPUT_LIMIT,
        [],
    )


async def test_a_refusal_ends_the_run() -> None:
    on, desk = stage(
        raw({"type": "text", "text": "No."}, use("post", key="a"), stop_reason="refusal")
    )
    await on.create()
    state = await on.play()
    assert (state.status, state.reason, desk.requests) == (Status.FAILED, Reason.REFUSED, [])


async def test_a_control_call_among_others_is_turned_down_and_the_others_run() -> None:
    on, _ = stage(turn(call(look, key="a"), finish("too soon")), finish("ok"))
    await on.create()
    state = await on.play()
    assert (state.status, state.output) == (Status.SUCCEEDED, "ok")
    assert "CONTROL_NOT_ALONE" in told(on, 1, 1)
    assert state.evidence


# ------------------------------------------------------------------ progress
async def test_a_repeated_call_is_warned_in_its_result_and_then_stopped() -> None:
    on, _ = stage(*[call(look, key="a")] * 6)
    await on.create()
    state = await on.play()
    assert (state.status, state.reason, state.step_count) == (
        Status.NO_PROGRESS,
        Reason.REPEATED_ACTION,
        4,
    )
    assert "warning" not in told(on, 2)
    assert "3 times" in told(on, 3)
    assert len(state.evidence) == 4, "what was found is kept"


async def test_equal_messages_of_their_own_are_two_effects() -> None:
    on, desk = stage(call(chat, words="hi"), call(look, key="a"), call(chat, words="hi"), finish(1))
    await on.create()
    assert (await on.play()).status is Status.SUCCEEDED
    assert len(desk.effects) == 2


# ------------------------------------------------------------------ parallel
async def test_every_call_of_a_turn_has_one_result_in_the_order_of_the_request() -> None:
    """One gated and denied, one refused by policy, one failing, one unknown, two fine."""
    calls = [
        call(pay, key="a", amount=2000),
        call(pay, key="forbidden"),
        call(slow, key="b"),
        call("nope"),
        call(post, key="c"),
        call(look, key="d"),
    ]
    on, desk = stage(
        turn(*calls), finish("ok"), on_policy_deny="tell", desk=Desk(faults={"slow": ["hang"]})
    )
    await on.create()
    state = await on.play(no)
    assert state.status is Status.SUCCEEDED
    blocks = on.model.requests[1].messages[-1]["content"]
    assert [b["tool_use_id"] for b in blocks] == [f"toolu_01_{n}" for n in range(6)]
    codes = ["PERSON_DENIED", "POLICY_DENIED", "TOOL_DEADLINE", "UNKNOWN_TOOL", "ev-", "ev-"]
    assert [code in block["content"] for code, block in zip(codes, blocks, strict=True)] == [
        True
    ] * 6
    assert [bool(b.get("is_error")) for b in blocks] == [True] * 4 + [False] * 2
    assert desk.effects == {"post:c:v1": 1}


async def test_calls_run_at_once() -> None:
    desk = Desk(faults={"look": ["hang", "hang", "hang"]})
    on, _ = stage(turn(*[call(look, key=key) for key in "abc"]), finish("ok"), desk=desk)
    await on.create()
    async with on.life() as life:
        with anyio.fail_after(5):
            while desk.faults["look"]:
                await anyio.lowlevel.checkpoint()
        desk.go_on.set()
        state = await life.rest()
    assert state is not None
    assert [item.id for item in state.evidence] == ["ev-1", "ev-2", "ev-3"]
    assert [item.payload["key"] for item in state.evidence] == ["a", "b", "c"]


# ------------------------------------------------------------------ the public helper
@pytest.mark.parametrize("crash", ["before_effect", "after_effect", None])
async def test_testing_run_has_one_effect_wherever_the_process_dies(crash: Any) -> None:
    desk = Desk()
    script = [call(look, key="x"), call(pay, key="x", amount=2000), finish("paid")]
    ended = await run(agent(), "Pay x.", model=script, deps=desk, crash=crash)
    assert (ended.status, ended.output, desk.effects) == (
        Status.SUCCEEDED,
        "paid",
        {"pay:x:v1": 1},
    )


async def test_testing_run_leaves_an_approval_open_or_denies_it() -> None:
    script = [call(pay, key="x", amount=2000), finish("not paid")]
    ended = await run(agent(), "Pay x.", model=script, deps=Desk(), approve=None)
    assert ended.status is Status.AWAITING_APPROVAL
    desk = Desk()
    ended = await run(agent(), "Pay x.", model=script, deps=desk, approve=False)
    assert (ended.status, desk.requests) == (Status.SUCCEEDED, [])


async def test_a_script_may_be_a_function_of_what_was_said() -> None:
    def script(view: Any) -> Turn:
        return finish(view.result(look)) if view.turn else call(look, key=view.inputs["key"])

    ended = await run(agent(), "Look.", model=script, deps=Desk(), inputs={"key": "k7"})
    assert ended.output == {"key": "k7"}
