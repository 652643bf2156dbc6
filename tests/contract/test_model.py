"""What every model must do, asked of the script and of the real SDK over HTTP."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio.to_thread
import msgspec
import pytest

from messages.errors import ModelError
from messages.parts import Block, Usage
from runtime.model.port import Model, ModelRequest
from runtime.model.scripted import ScriptedModel, Turn, call, finish, say, turn
from tests.fakes import provider as fakes

pytestmark = pytest.mark.anyio

Playing = Callable[..., AbstractAsyncContextManager[Model]]
TOOLS = (
    {"name": "look", "description": "Look.", "input_schema": {"type": "object"}},
    {"name": "finish", "description": "Finish.", "input_schema": {"type": "object"}},
)


@asynccontextmanager
async def scripted(*turns: Turn) -> AsyncGenerator[Model]:
    yield ScriptedModel(list(turns))


@asynccontextmanager
async def over_http(*turns: Turn) -> AsyncGenerator[Model]:
    from runtime.model.anthropic import AnthropicModel  # noqa: PLC0415 -- costs seconds

    async with fakes.provider(*_replies(turns)) as fake:
        model = await anyio.to_thread.run_sync(
            lambda: AnthropicModel("claude-opus-5-5", api_key=fakes.KEY, base_url=fake.url)
        )
        yield model
        assert fake.broken == []
        await model.close()


def _replies(turns: Sequence[Turn]) -> list[fakes.Say]:
    return [
        fakes.Say(
            blocks=[
                _with_id(block, f"toolu_{number}_{place}") for place, block in enumerate(one.blocks)
            ],
            stop_reason=one.stop_reason or None,
            usage=_usage(one.usage),
        )
        for number, one in enumerate(turns)
    ]


def _with_id(block: Block, made_up: str) -> Block:
    if block["type"] != "tool_use" or "id" in block:
        return block
    return {**block, "id": made_up}


def _usage(usage: tuple[int, int] | Usage | None) -> dict[str, int] | None:
    if usage is None:
        return None
    if isinstance(usage, tuple):
        return {"input_tokens": usage[0], "output_tokens": usage[1]}
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
    }


@pytest.fixture(params=[scripted, over_http])
def playing(request: pytest.FixtureRequest) -> Playing:
    return request.param


def request(*messages: Any, turn: int = 0, is_final: bool = False) -> ModelRequest:
    first = {"role": "user", "content": [{"type": "text", "text": "go"}]}
    return ModelRequest(
        model="m",
        system="Do it.",
        tools=() if is_final else TOOLS,
        messages=(first, *messages),
        max_output_tokens=500,
        goal="go",
        turn=turn,
        is_final=is_final,
    )


def answered(content: tuple[Block, ...]) -> list[dict[str, Any]]:
    """A turn as it goes back, and the results of its calls."""
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "{}"}
        for block in content
        if block["type"] == "tool_use"
    ]
    return [{"role": "assistant", "content": list(content)}, {"role": "user", "content": results}]


async def test_a_call_has_a_name_arguments_and_an_id_and_ends_in_tool_use(playing: Playing) -> None:
    arguments: dict[str, Any] = {"key": "ä\n\"'", "n": 3, "deep": {"list": [1, 2.5, None, True]}}
    async with playing(call("look", **arguments)) as model:
        answer = await model.attempt(request())
    [block] = answer.content
    assert (block["type"], block["name"], block["input"]) == ("tool_use", "look", arguments)
    assert block["id"]
    assert answer.stop_reason == "tool_use"
    assert answer.model
    assert answer.request_id


async def test_several_calls_of_a_turn_come_in_order_with_ids_of_their_own(
    playing: Playing,
) -> None:
    async with playing(turn(call("look", n=1), call("look", n=2), call("look"))) as model:
        answer = await model.attempt(request())
    assert [block["input"] for block in answer.content] == [{"n": 1}, {"n": 2}, {}]
    assert len({block["id"] for block in answer.content}) == 3


async def test_words_end_the_turn(playing: Playing) -> None:
    async with playing(say("Done, I think: 日本語.")) as model:
        answer = await model.attempt(request())
    assert answer.content == ({"type": "text", "text": "Done, I think: 日本語."},)
    assert answer.stop_reason == "end_turn"


@pytest.mark.parametrize(
    "stop_reason",
    [
        "max_tokens",
        "stop_sequence",
        "pause_turn",
        "refusal",
        "model_context_window_exceeded",
        "new",
    ],
)
async def test_a_stop_reason_is_passed_on(playing: Playing, stop_reason: str) -> None:
    said = Turn(blocks=({"type": "text", "text": "x"},), stop_reason=stop_reason)
    async with playing(said) as model:
        assert (await model.attempt(request())).stop_reason == stop_reason


@pytest.mark.parametrize(
    "usage",
    [
        None,
        Usage(input_tokens=7, output_tokens=5),
        Usage(input_tokens=0, output_tokens=5, cache_read_tokens=900, cache_write_tokens=30),
    ],
)
async def test_usage_is_what_was_reported_or_nothing(playing: Playing, usage: Usage | None) -> None:
    async with playing(Turn(blocks=({"type": "text", "text": "x"},), usage=usage)) as model:
        assert (await model.attempt(request())).usage == usage


async def test_blocks_that_are_not_ours_are_kept_as_they_came(playing: Playing) -> None:
    blocks: list[Block] = [
        fakes.thought("First this.\nThen that."),
        {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4a"},
        {"type": "text", "text": "Hm."},
        {"type": "novel_block", "payload": {"a": [1, 1.5, None]}, "text": None},
        {**fakes.use("look", "toolu_x", key="k"), "caller": {"type": "direct"}},
    ]
    async with playing(Turn(blocks=tuple(blocks))) as model:
        answer = await model.attempt(request())
    assert msgspec.json.encode(answer.content) == msgspec.json.encode(blocks)


async def test_a_turn_can_be_sent_back_and_the_next_one_follows(playing: Playing) -> None:
    first = Turn(blocks=(fakes.thought("Look."), fakes.use("look", "toolu_1", key="k")))
    async with playing(first, finish("ok")) as model:
        content = (await model.attempt(request())).content
        answer = await model.attempt(request(*answered(content), turn=1))
    assert [block["input"] for block in answer.content] == [{"output": "ok"}]


async def test_the_final_turn_has_no_tools(playing: Playing) -> None:
    async with playing(say("What I know.")) as model:
        answer = await model.attempt(request(is_final=True))
    assert [block["type"] for block in answer.content] == ["text"]


async def test_a_model_that_has_nothing_to_say_is_a_model_error(playing: Playing) -> None:
    async with playing() as model:
        with pytest.raises(ModelError) as caught:
            await model.attempt(request())
    assert caught.value.reason in {"model_unavailable", "provider_error"}
