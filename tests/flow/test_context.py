"""A run that outgrows its window: what it is sent stays small, sound, and mostly as it was."""

import json
from typing import Any

import anyio
from msgspec.structs import replace

from messages import events as e
from messages.parts import Limits, Usage
from messages.state import LoopState
from messages.status import Status
from runtime.model.port import ModelAnswer, ModelRequest
from runtime.model.scripted import Turn, View
from tests.fakes.rules import broken_rule
from tests.flow.desk import Desk, agent, look
from tests.flow.stage import Listening, Stage
from treadle.testing import call, finish, say

WINDOW = 20_000
STEPS = 300
RICH = Limits(max_steps=400, max_tokens=10**9, max_seconds=10**6)


def looks(view: View) -> Turn:
    """So many looks, each at something else, then the end."""
    if view.is_final:
        return say("too late")
    return call(look, key=f"k{view.turn}") if view.turn < STEPS else finish("done")


def body_of(request: ModelRequest) -> dict[str, Any]:
    return {
        "system": request.system,
        "tools": list(request.tools),
        "messages": list(request.messages),
        "max_tokens": request.max_output_tokens,
        "stream": True,
    }


def size_of(body: dict[str, Any]) -> int:
    """Bytes of all that is sent, the answer's tokens included: a token for each."""
    sent = json.dumps([body["system"], body["tools"], body["messages"]], ensure_ascii=False)
    return len(sent.encode()) + body["max_tokens"]


def shared(one: dict[str, Any], other: dict[str, Any]) -> float:
    """How much of the shorter of two requests is the beginning of the longer."""
    texts = [json.dumps(body["messages"])[1:-1] for body in (one, other)]
    short, long = sorted(texts, key=len)
    same = next(
        (n for n, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short)
    )
    return same / len(short)


def check(on: Stage) -> list[dict[str, Any]]:
    """Every request is sound; returns the bodies."""
    bodies: list[dict[str, Any]] = []
    for request in on.model.requests:
        body = body_of(request)
        assert broken_rule(body, bodies) == ""
        bodies.append(body)
    return bodies


class Counting(Listening):
    """Counts a token for every four bytes, as a provider would."""

    async def attempt(self, request: ModelRequest) -> ModelAnswer:
        answer = await super().attempt(request)
        body = body_of(request)
        tokens = (size_of(body) - body["max_tokens"]) // 4
        return replace(answer, usage=Usage(input_tokens=tokens, output_tokens=30))


async def played(
    results: int, *, steps: int = STEPS, counting: bool = False, **options: Any
) -> tuple[Stage, LoopState]:
    """A run of so many looks whose results have so many bytes."""
    answers = [f"{n:04d} " + "lorem ipsum " * (results // 12) for n in range(steps)]
    desk = Desk(answers={"look": [*answers]})
    on = Stage(agent(window_tokens=WINDOW, **options), script=looks, deps=desk)
    if counting:
        on.model = Counting(looks)
    await on.create(limits=RICH)
    async with on.life():
        with anyio.fail_after(120):
            while not on.row().status.is_terminal:  # a fold at each change would be long
                await on.ledger.changed.wait()
    return on, await on.state()


def begun(bodies: list[dict[str, Any]]) -> list[int]:
    """The requests that began a new conversation."""
    firsts = [body["messages"][0] for body in bodies]
    return [n for n in range(1, len(bodies)) if firsts[n] != firsts[n - 1]]


async def test_three_hundred_steps_stay_inside_a_small_window() -> None:
    on, state = await played(4_000)
    assert (state.status, state.step_count) == (Status.SUCCEEDED, STEPS + 1)
    bodies = check(on)
    assert max(size_of(body) for body in bodies) <= WINDOW
    new = begun(bodies)
    same = [shared(bodies[n - 1], bodies[n]) for n in range(1, len(bodies)) if n not in new]
    assert min(same) >= 0.9
    summaries = [event for event in await on.events() if isinstance(event, e.Consulted)]
    assert 5 <= len(summaries) <= 75
    assert len(state.evidence) == STEPS, "nothing of the record is lost"
    sent = json.dumps(bodies)
    assert all(f"{n:04d} lorem" in sent for n in range(STEPS)), "each result was seen"


async def test_what_the_provider_counts_is_the_better_bound() -> None:
    """A token has about four bytes: the same window holds four times as much."""
    on, state = await played(4_000, counting=True)
    assert state.status is Status.SUCCEEDED
    bodies = check(on)
    tokens = [(size_of(body) - body["max_tokens"]) // 4 + body["max_tokens"] for body in bodies]
    assert WINDOW // 2 < max(tokens) <= WINDOW
    assert len(begun(bodies)) <= STEPS // 4
    assert state.spent.tokens == state.usage.tokens, "no attempt cost more than it was reserved"
