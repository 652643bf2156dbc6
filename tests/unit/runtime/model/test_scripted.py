"""The scripted model: the turn that is due is read off the conversation, never counted."""

from typing import Any

import pytest

from messages.errors import ModelError
from messages.parts import Block, Usage
from runtime.model.port import ModelAnswer, ModelRequest
from runtime.model.scripted import ScriptedModel, Turn, View, call, finish, say, turn


def request(turn_: int = 0, **fields: Any) -> ModelRequest:
    given: dict[str, Any] = {
        "model": "m",
        "system": "s",
        "tools": (),
        "messages": (),
        "max_output_tokens": 100,
        "turn": turn_,
        **fields,
    }
    return ModelRequest(**given)


async def answer(script: Any, request_: ModelRequest) -> ModelAnswer:
    return await ScriptedModel(script).attempt(request_)


async def test_the_turn_of_a_conversation_is_played_in_any_process() -> None:
    script = [call("look", key="a"), say("hm"), finish({"ok": True})]
    for place, stop_reason in enumerate(["tool_use", "end_turn", "tool_use"]):
        first = await answer(script, request(place))
        assert first == await answer(script, request(place)), "another process plays the same"
        assert first.stop_reason == stop_reason
        assert first.usage == Usage(input_tokens=100, output_tokens=20)


async def test_calls_get_ids_by_their_place() -> None:
    script = [turn(call("a", x=1), call("b", id="mine", x=2))]
    said = await answer(script, request())
    assert [(b["id"], b["name"], b["input"]) for b in said.content] == [
        ("toolu_01_0", "a", {"x": 1}),
        ("mine", "b", {"x": 2}),
    ]


async def test_a_script_that_is_used_up_is_a_failing_model() -> None:
    with pytest.raises(ModelError, match="only 1 turns"):
        await answer([say("x")], request(1))


async def test_a_script_need_not_provide_the_final_turn() -> None:
    said = await answer([say("x")], request(1, is_final=True))
    assert said.content[0]["type"] == "text"
    own = await answer([say("mine")], request(0, is_final=True))
    assert own.content[0]["text"] == "mine"


async def test_a_function_is_shown_what_was_said() -> None:
    seen: list[View] = []

    def script(view: View) -> Turn:
        seen.append(view)
        return say(str(view.result("look")))

    use: Block = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    result: Block = {"type": "tool_result", "tool_use_id": "t1", "content": '{"data":{"n":1}}'}
    older: Block = {"type": "tool_use", "id": "t0", "name": "look", "input": {}}
    failed: Block = {"type": "tool_result", "tool_use_id": "t0", "content": "{}", "is_error": True}
    messages: tuple[dict[str, Any], ...] = (
        {"role": "assistant", "content": [older]},
        {"role": "user", "content": [failed]},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    )
    said = await answer(script, request(1, messages=messages, goal="g", inputs={"a": 1}))
    assert said.content[0]["text"] == "{'n': 1}"
    assert (seen[0].goal, seen[0].inputs, seen[0].turn, seen[0].is_final) == (
        "g",
        {"a": 1},
        1,
        False,
    )
    assert seen[0].result("scan") is None


async def test_a_function_that_fails_is_a_failing_model() -> None:
    def script(view: View) -> Turn:
        raise KeyError(view.turn)

    with pytest.raises(ModelError, match="the script failed: KeyError"):
        await answer(script, request())


async def test_a_turn_may_report_no_usage_or_any_other() -> None:
    silent = Turn(blocks=(), usage=None, stop_reason="max_tokens")
    said = await answer([silent], request())
    assert (said.usage, said.stop_reason) == (None, "max_tokens")
    cached = Usage(cache_read_tokens=9)
    assert (await answer([Turn(blocks=(), usage=cached)], request())).usage == cached
