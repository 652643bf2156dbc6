"""Case B23: notes, written once each."""

from typing import Any

from tests.cases.apps import downstream
from treadle import Agent, App, Ctx, Request, Ruling, allow, write


@write(key="note:{text|sha256}:v1", timeout_s=5.0, late_commit_s=0.2)
async def note_add(ctx: Ctx[None], text: str) -> dict[str, Any]:
    """Add a note."""
    downstream.note(downstream.FILE, kind="effect", key=ctx.idempotency_key, text=text)
    return {"added": True}


@note_add.rule
def may_add(req: Request, text: str) -> Ruling:
    return allow()


@note_add.lookup
def find_note(ctx: Ctx[None], text: str) -> dict[str, Any] | None:
    return {"added": True} if downstream.effects(ctx.idempotency_key) else None


agent = Agent("b23", model="m", instructions="Take notes.", tools=[note_add])
app = App(agent)
