"""Case B19: one read, and a budget of three steps."""

from typing import Any

from tests.cases.apps import downstream
from tests.cases.apps.script import case_of, playing
from treadle import Agent, App, Budget, Ctx, read


@read(source="shelf")
async def lookup(ctx: Ctx[None], key: str) -> dict[str, Any]:
    """Look up the value of a key."""
    downstream.note(downstream.FILE, kind="lookup", key=key)
    await downstream.while_held(key)
    return {"key": key, "value": f"value of {key}"}


CASE = case_of("b19")
K1, K2, TEXT = CASE["model_turns"]
K3 = {
    **K2,
    "content": [{"type": "tool_use", "id": "toolu_03", "name": "lookup", "input": {"key": "k3"}}],
}
agent = Agent(
    "b19",
    model="m",
    instructions="Look things up.",
    tools=[lookup],
    budget=Budget(max_steps=CASE["setup"]["budget"]["steps"]),
)
app = App(agent, script=playing({"a": [K1, K2, TEXT], "b": [K1, K2, K3, TEXT], "c": [TEXT]}))
