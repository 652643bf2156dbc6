"""Every reason for which a turn may end, and what the run makes of it."""

from typing import Any

import pytest

from messages import events as e
from messages.parts import Limits
from messages.status import Reason, Status
from runtime.model.scripted import Turn
from tests.fakes.provider import text, thought, use
from tests.fakes.rules import broken_rule
from tests.flow.desk import Desk, agent
from tests.flow.stage import Stage
from treadle.testing import call, finish

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}}
FOUND: dict[str, Any] = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [],
}


def stage(*turns: Turn, **options: Any) -> tuple[Stage, Desk]:
    desk = Desk()
    return Stage(agent(**options), script=list(turns), deps=desk), desk


def raw(*blocks: dict[str, Any], stop_reason: str) -> Turn:
    return Turn(blocks=blocks, stop_reason=stop_reason)


def check(on: Stage) -> None:
    """Each request is one that the provider would take."""
    bodies = [
        {
            "system": request.system,
            "tools": list(request.tools),
            "messages": list(request.messages),
            "max_tokens": request.max_output_tokens,
            "stream": True,
        }
        for request in on.model.requests
    ]
    for number, body in enumerate(bodies):
        assert broken_rule(body, bodies[:number]) == ""


@pytest.mark.parametrize(
    "stop_reason", ["max_tokens", "model_context_window_exceeded", "refusal", "novel", "pause_turn"]
)
async def test_nothing_is_executed_from_a_turn_that_the_model_did_not_end(stop_reason: str) -> None:
    on, desk = stage(
        raw(text("I post."), use("post", "t1", key="a"), stop_reason=stop_reason), finish("ok")
    )
    await on.create()
    state = await on.play()
    assert desk.requests == []
    assert state.status in {Status.SUCCEEDED, Status.FAILED}
    assert not any(isinstance(event, e.Intended) for event in await on.events())
    check(on)


async def test_an_unknown_stop_is_told_and_three_end_the_run() -> None:
    novel = raw(use("post", "t1", key="a"), stop_reason="novel")
    on, desk = stage(novel, call("post", key="a"), finish("ok"))
    await on.create()
    assert (await on.play()).status is Status.SUCCEEDED
    assert desk.requests == ["post:a:v1"]
    assert "UNKNOWN_STOP" in on.model.requests[1].messages[-1]["content"][0]["content"]
    check(on)
    on, desk = stage(novel, novel, novel, novel)
    await on.create()
    state = await on.play()
    assert (state.status, state.reason, desk.requests) == (Status.FAILED, Reason.BAD_OUTPUT, [])


async def test_a_paused_turn_is_asked_to_go_on_with_its_blocks_as_they_were() -> None:
    paused = raw(thought("Search."), SEARCH, stop_reason="pause_turn")
    on, desk = stage(
        paused, raw(FOUND, use("look", "t1", key="a"), stop_reason="tool_use"), finish("ok")
    )
    await on.create()
    state = await on.play()
    assert (state.status, state.step_count) == (Status.SUCCEEDED, 3)
    assert desk.requests == []
    second, third = on.model.requests[1].messages, on.model.requests[2].messages
    assert second[-1] == {"role": "assistant", "content": [thought("Search."), SEARCH]}
    assert third[1]["content"] == [thought("Search."), SEARCH, FOUND, use("look", "t1", key="a")]
    check(on)


async def test_a_turn_that_pauses_for_ever_ends_with_the_steps() -> None:
    paused = raw(SEARCH, stop_reason="pause_turn")
    on, _ = stage(*[paused] * 40, finish("ok"))
    await on.create()
    state = await on.play()
    assert (state.status, state.reason) == (Status.BUDGET_EXHAUSTED, Reason.MAX_STEPS)


@pytest.mark.parametrize(
    ("blocks", "sent"),
    [
        ((thought("a"), text(" "), use("look", "t1", key="a")), [0, 2]),
        ((thought("a"), {"type": "thinking", "thinking": "cut", "signature": ""}), []),
        ((text("so"), {"type": "thinking", "thinking": "cut", "signature": ""}), [0]),
        (({"type": "redacted_thinking", "data": "x"}, text("so")), [0, 1]),
        (({"type": "novel_block", "n": 1},), [0]),
    ],
)
async def test_a_cut_turn_goes_back_as_far_as_the_provider_takes_it(
    blocks: tuple[dict[str, Any], ...], sent: list[int]
) -> None:
    on, _ = stage(raw(*blocks, stop_reason="max_tokens"), finish("ok"))
    await on.create()
    assert (await on.play()).status is Status.SUCCEEDED
    said = [m for m in on.model.requests[1].messages if m["role"] == "assistant"]
    assert [m["content"] for m in said] == ([[blocks[n] for n in sent]] if sent else [])
    check(on)


async def test_a_cut_answer_gets_more_room_twice_and_then_the_run_ends() -> None:
    cut = raw(text("So"), use("post", "t1", key="a"), stop_reason="max_tokens")
    on, desk = stage(cut, cut, call("post", key="a"), finish("ok"), max_output_tokens=1024)
    await on.create()
    assert (await on.play()).status is Status.SUCCEEDED
    assert [r.max_output_tokens for r in on.model.requests] == [1024, 2048, 4096, 1024]
    assert desk.requests == ["post:a:v1"]
    check(on)
    on, desk = stage(*[cut] * 4, max_output_tokens=1024)
    await on.create()
    state = await on.play()
    assert (state.status, state.reason) == (Status.FAILED, Reason.OUTPUT_LIMIT)
    assert (len(on.model.requests), desk.requests) == (3, [])


async def test_what_the_budget_cannot_widen_is_asked_for_again_as_before() -> None:
    cut = raw(text("So"), stop_reason="max_tokens")
    on, _ = stage(cut, finish("ok"), max_output_tokens=1024)
    await on.create(limits=Limits(max_tokens=7_200))
    state = await on.play()
    assert state.status is Status.SUCCEEDED
    assert 256 <= on.model.requests[1].max_output_tokens < 2048


async def test_ids_that_repeat_or_are_illegal_are_replaced_and_paired() -> None:
    """Some gateways count from zero in every turn; the provider takes an id once."""
    on, desk = stage(
        raw(use("look", "call_0", key="a"), use("post", "call_0", key="b"), stop_reason="tool_use"),
        raw(use("look", "call_0", key="c"), use("look", "", key="d"), stop_reason="tool_use"),
        raw(use("look", "call.0/x", key="e"), use("look", "call_2_0", key="f"), stop_reason=""),
        raw(use("finish", "call_0", output="ok"), stop_reason="tool_use"),
    )
    await on.create()
    assert (await on.play()).status is Status.SUCCEEDED
    assert desk.requests == ["post:b:v1"]
    ids = [
        [block["id"] for block in message["content"]]
        for message in on.model.requests[-1].messages
        if message["role"] == "assistant"
    ]
    assert ids == [["call_0", "call_1_1"], ["call_2_0", "call_2_1"], ["call_3_0", "call_3_1"]]
    check(on)


async def test_a_model_that_uses_our_ids_before_us_does_no_harm() -> None:
    on, _ = stage(
        raw(use("look", "call_1_1", key="a"), use("look", "", key="b"), stop_reason="tool_use"),
        raw(use("look", "call_2_0_", key="c"), use("look", "", key="d"), stop_reason="tool_use"),
        finish("ok"),
    )
    await on.create()
    assert (await on.play()).status is Status.SUCCEEDED
    assert [block["id"] for block in on.model.requests[-1].messages[1]["content"]] == [
        "call_1_1",
        "call_1_1_",
    ]
    check(on)


@pytest.mark.parametrize("tool", ["finish", "ask_user", "wait", "give_up"])
async def test_a_control_tool_without_arguments_that_can_be_read_does_nothing(tool: str) -> None:
    broken = {**use(tool, "t1"), "input": '{"output": "a"} {"output": "b"}'}
    on, _ = stage(raw(broken, stop_reason="tool_use"), finish("ok"))
    await on.create()
    state = await on.play()
    assert (state.status, state.output, state.step_count) == (Status.SUCCEEDED, "ok", 2)
    told = on.model.requests[1].messages[-1]["content"][0]
    assert told["is_error"]
    assert "UNREADABLE_ARGUMENTS" in told["content"]
    check(on)


async def test_arguments_that_are_no_object_go_back_as_one() -> None:
    cut = {"type": "tool_use", "id": "t1", "name": "look", "input": '{"key": "a'}
    on, _ = stage(raw(cut, stop_reason="tool_use"), call("look", key="a"), finish("ok"))
    await on.create()
    assert (await on.play()).status is Status.SUCCEEDED
    [_, said, told] = on.model.requests[1].messages
    assert said["content"] == [{**cut, "input": {"raw": '{"key": "a'}}]
    assert "UNREADABLE_ARGUMENTS" in told["content"][0]["content"]
    check(on)
