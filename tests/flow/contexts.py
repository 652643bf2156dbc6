"""Runs that outgrow a small window, and what is looked at of their requests."""

import json
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from messages.parts import Limits, Usage
from runtime.model.port import ModelAnswer, ModelRequest
from runtime.model.scripted import Playable, Turn, View
from tests.fakes.rules import body_of, broken_rule
from tests.flow.desk import Desk, look, pay
from tests.flow.stage import Listening, Stage
from treadle import Agent
from treadle.memory import keep_notes, keep_todo, read_result
from treadle.testing import call, finish, say

WINDOW = 20_000
RICH = Limits(max_steps=400, max_tokens=10**9, max_seconds=10**6)
COUNTED = 4
"""Bytes of a token, as a provider would count."""


def size_of(body: dict[str, Any], token_bytes: int = 1) -> int:
    """Tokens of all that is sent, and of the longest answer."""
    sent = json.dumps([body["system"], body["tools"], body["messages"]], ensure_ascii=False)
    return len(sent.encode()) // token_bytes + body["max_tokens"]


def check(on: Stage) -> list[dict[str, Any]]:
    """Every request is sound; returns the bodies."""
    bodies: list[dict[str, Any]] = []
    for request in on.model.requests:
        body = body_of(request)
        assert broken_rule(body, bodies) == ""
        bodies.append(body)
    return bodies


def heading(on: Stage, number: int = -1) -> str:
    """The first message of a request."""
    return json.dumps(on.model.requests[number].messages[0], ensure_ascii=False)


class Counting(Listening):
    """Counts a token for so many bytes, as a provider would."""

    def __init__(self, script: Playable, token_bytes: int = COUNTED) -> None:
        super().__init__(script)
        self._token_bytes = token_bytes

    async def attempt(self, request: ModelRequest) -> ModelAnswer:
        answer = await super().attempt(request)
        body = body_of(request)
        tokens = size_of(body, self._token_bytes) - body["max_tokens"]
        return replace(answer, usage=Usage(input_tokens=tokens, output_tokens=30))


def talks(*said: Turn, steps: int = 40) -> Callable[[View], Turn]:
    """These turns, then looks at something new, then the end."""

    def script(view: View) -> Turn:
        if view.is_final:
            return say("too late")
        if view.turn < len(said):
            return said[view.turn]
        return call(look, key=f"k{view.turn}") if view.turn < steps else finish("done")

    return script


def lorem(count: int, size: int = 4_000) -> list[str]:
    """So many different texts of about so many bytes."""
    return [f"{n:04d} " + "lorem ipsum " * (size // 12) for n in range(count)]


def telling(script: Callable[[View], Turn], desk: Desk | None = None, **options: Any) -> Stage:
    """A run of long results, of an agent with all that keeps things."""
    desk = desk or Desk(answers={"look": [*lorem(60)]})
    tools = [look, pay, keep_notes, keep_todo, read_result]
    spec = Agent(
        "desk", model="m", instructions="Do it.", tools=tools, window_tokens=WINDOW, **options
    )
    return Stage(spec, script=script, deps=desk)
