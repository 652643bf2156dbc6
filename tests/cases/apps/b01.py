"""Case B01: a note that is added once, whatever dies around it, and can be asked for by its key."""

from typing import Any

from tests.cases.apps import downstream
from tests.cases.apps.script import case_of, playing
from treadle import Agent, App, Ctx, Request, Ruling, allow, write


@write(key="note:{text}:v1", timeout_s=2.0, late_commit_s=0.2)
async def note_add(ctx: Ctx[None], text: str) -> dict[str, Any]:
    """Add a note."""
    downstream.note(downstream.FILE, kind="start", key=ctx.idempotency_key)
    await downstream.while_held("before")
    downstream.note(downstream.FILE, kind="effect", key=ctx.idempotency_key, text=text)
    await downstream.while_held("after")
    return {"ok": True}


@note_add.rule
def may_note(req: Request, text: str) -> Ruling:
    return allow()


@note_add.lookup
def find_note(ctx: Ctx[None], text: str) -> dict[str, Any] | None:
    is_done = bool(downstream.effects(ctx.idempotency_key))
    downstream.note(downstream.FILE, kind="asked", key=ctx.idempotency_key, is_done=is_done)
    return {"ok": True} if is_done else None


agent = Agent("b01", model="m", instructions="Take notes.", tools=[note_add])
app = App(agent, script=playing({"a": case_of("b01")["model_turns"]}))
