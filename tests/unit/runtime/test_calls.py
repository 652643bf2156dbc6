"""Calling a read by hand: the agent it makes and what its model says."""

from typing import Any

from messages.agent import AgentSpec
from runtime.agent import Agent, App
from runtime.calls import AGENT, MODEL, ByHand, calls_spec, inputs_of, with_calls
from runtime.model.port import ModelRequest
from runtime.model.scripted import NAME
from treadle import Ctx, read, write


@read(scope="orders:read", source="shop")
async def look(ctx: Ctx[None], order_id: str) -> str:
    """Look."""
    return order_id


@write(key="act:{order_id}", scope="orders:write", source="shop")
async def act(ctx: Ctx[None], order_id: str) -> str:
    """Act."""
    return order_id


def app(*tools: Any, name: str = "desk") -> App:
    return App(Agent(name, model=NAME, instructions="Do it.", tools=tools))


def wider(given: App) -> dict[str, AgentSpec]:
    return dict(with_calls(given, given.specs, {}).agents)


def asked(turn: int, *blocks: dict[str, Any], is_final: bool = False) -> ModelRequest:
    messages = ({"role": "user", "content": list(blocks)},)
    return ModelRequest(
        model=MODEL,
        system="",
        tools=(),
        messages=messages,
        max_output_tokens=100,
        inputs=inputs_of("look", {"order_id": "8472"}),
        turn=turn,
        is_final=is_final,
    )


def test_it_has_the_reads_and_no_write() -> None:
    spec = calls_spec(wider(app(look, act)))
    assert spec is not None
    assert [tool.name for tool in spec.tools] == ["look"]
    assert spec.price is not None


def test_an_app_without_reads_has_nothing_to_call() -> None:
    assert calls_spec(wider(app(act))) is None


def test_an_agent_of_that_name_stays_the_users_own() -> None:
    assert calls_spec(wider(app(look, name=AGENT))) is None


async def test_it_says_what_the_person_typed_and_ends() -> None:
    first = await ByHand().attempt(asked(0, {"type": "text", "text": "Call look"}))
    [call] = first.content
    assert (call["name"], call["input"]) == ("look", {"order_id": "8472"})
    result = {"type": "tool_result", "tool_use_id": "x", "content": "{}"}
    [end] = (await ByHand().attempt(asked(1, result))).content
    assert end["type"] == "text"


async def test_it_gives_up_after_anything_but_a_result() -> None:
    failed = {"type": "tool_result", "tool_use_id": "x", "content": "{}", "is_error": True}
    for blocks in ((failed,), ({"type": "text", "text": "no such tool"},)):
        [end] = (await ByHand().attempt(asked(1, *blocks))).content
        assert end["name"] == "give_up"
    [last] = (await ByHand().attempt(asked(1, failed, is_final=True))).content
    assert last["type"] == "text"
