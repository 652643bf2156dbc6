"""An agent that reads far more than its window holds."""

from treadle import Agent, App, Budget, Ctx, read

WINDOW = 20_000
TEXT = "all work and no play makes a long run. " * 105


@read(source="archive")
async def page(ctx: Ctx[None], number: int) -> str:
    """Read one page."""
    return f"page {number}: {TEXT}"


agent = Agent(
    "long",
    model="claude-opus-5-5",
    models={"summary": "claude-haiku-5-5"},
    instructions="Read every page.",
    tools=[page],
    window_tokens=WINDOW,
    budget=Budget(max_steps=400, max_tokens=50_000_000, max_usd="1000", max_seconds=3_600),
)
app = App(agent)
