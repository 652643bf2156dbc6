"""An app that looks, waits and looks again."""

from typing import Any

from tests.cases.apps import downstream
from tests.cases.apps.script import playing
from treadle import Agent, App, Ctx, read


@read(source="shelf", polling=True)
async def poll(ctx: Ctx[None]) -> str:
    """See whether something has come."""
    downstream.note(downstream.FILE, kind="read", key="poll")
    return "pending"


def _turn(name: str, **given: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": "toolu_01", "name": name, "input": given}
    return {"stop_reason": "tool_use", "content": [block], "usage": _USAGE}


def _story(seconds: float) -> list[dict[str, Any]]:
    waiting = _turn("wait", seconds=seconds, why="it is on its way")
    return [_turn("poll"), waiting, _turn("poll"), _turn("finish", output="pending")]


_USAGE = {"input_tokens": 100, "output_tokens": 20}
agent = Agent("waits", model="m", instructions="See whether it came.", tools=[poll])
app = App(agent, script=playing({"short": _story(2), "long": _story(8)}))
