"""Case B20: lookups whose prompt is cached, on a small and on a large budget."""

from treadle import Agent, App, Budget, Ctx, read


@read(source="shelf")
async def lookup(ctx: Ctx[None], key: str) -> str:
    """Look a key up."""
    return f"value of {key}"


agent = Agent(
    "b20",
    model="m",
    instructions="Look things up.",
    tools=[lookup],
    budget=Budget(max_tokens=60_000, max_usd="1.00"),
)
app = App(agent)
