"""An agent that says its last words with a cheaper model than it works with."""

from treadle import Agent, App, Budget, Ctx, read


@read(source="shelf")
async def lookup(ctx: Ctx[None], key: str) -> str:
    """Look a key up."""
    return f"value of {key}"


agent = Agent(
    "two",
    model="claude-opus-5-5",
    models={"final": "claude-haiku-5-5"},
    instructions="Look things up.",
    tools=[lookup],
    budget=Budget(max_steps=1, max_tokens=60_000, max_usd="1.00"),
)
app = App(agent)
