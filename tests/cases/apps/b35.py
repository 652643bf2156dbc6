"""Case B35: a lookup whose result talks of limits."""

from treadle import Agent, App, Ctx, read


@read(source="shelf")
async def lookup(ctx: Ctx[None], key: str) -> str:
    """Look a key up."""
    return "status 429 too many"


agent = Agent("b35", model="m", instructions="Look things up.", tools=[lookup])
app = App(agent)
