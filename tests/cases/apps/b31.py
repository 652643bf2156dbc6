"""Case B31: pages whose text holds halves of surrogate pairs."""

from typing import Any

from tests.cases.apps import downstream
from treadle import Agent, App, Ctx, read

ANSWERS: dict[str, Any] = {
    "u1": "bad \ud83d tail",
    "u3": {"k\udcff": ["ok 😀", "a\ud83d"]},
}


@read(source="web")
async def fetch(ctx: Ctx[None], url: str) -> Any:
    """Fetch a page."""
    downstream.note(downstream.FILE, kind="read", key=url)
    await downstream.while_held(url)
    if url not in ANSWERS:
        raise ValueError("cannot read \udc97")
    return ANSWERS[url]


agent = Agent("b31", model="m", instructions="Read the pages.", tools=[fetch])
app = App(agent)
