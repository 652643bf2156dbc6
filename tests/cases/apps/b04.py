"""Case B04: a lookup that answers with nothing."""

from treadle import Agent, App, Ctx, read


@read(source="shelf")
async def lookup(ctx: Ctx[None], key: str) -> str | None:
    """Look a key up."""
    return "" if key == "k1" else None


agent = Agent("b04", model="m", instructions="Look things up.", tools=[lookup])
app = App(agent)
