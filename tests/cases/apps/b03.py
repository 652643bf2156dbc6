"""Case B03: lookups of 400 words each, in a window that holds about four of them.

The case shortens above 2,000 tokens; a word is about a token and has four bytes and a space.
"""

from tests.cases.apps import downstream
from tests.cases.apps.script import case_of
from treadle import Agent, App, Ctx, read

SHORTEN_ABOVE = case_of("b03")["setup"]["context"]["shorten_above_tokens"]
KEEP = range(1, 9)
ROOM = int(5 * SHORTEN_ABOVE / 0.8)
BESIDE = 3_000
"""Instructions, tools and one answer, roughly."""


@read(source="shelf")
async def lookup(ctx: Ctx[None], key: str) -> str:
    """Look up the value of a key."""
    downstream.note(downstream.FILE, kind="lookup", key=key)
    return "fill " * 399 + key


agents = [
    Agent(
        f"b03-{keep}",
        model="m",
        instructions="Look things up.",
        tools=[lookup],
        max_output_tokens=512,
        window_tokens=ROOM + BESIDE,
        keep_turns=keep,
    )
    for keep in KEEP
]
app = App(*agents)
