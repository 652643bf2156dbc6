"""Case B08: a counter that is read, and added to by a write of which every call is its own."""

from typing import Any

from tests.cases.apps import downstream
from tests.cases.apps.script import case_of, playing
from treadle import Agent, App, Ctx, Request, Ruling, allow, each_call, read, write


@read(source="counter")
async def counter_read(ctx: Ctx[None]) -> int:
    """Read the counter."""
    added = [line["n"] for line in downstream.lines(downstream.place()) if line["kind"] == "effect"]
    if added:
        await downstream.while_held("later")
    return sum(added)


@write(key=each_call, timeout_s=2.0, late_commit_s=0.2)
async def counter_add(ctx: Ctx[None], n: int) -> dict[str, Any]:
    """Add to the counter."""
    downstream.note(downstream.FILE, kind="start", key=ctx.idempotency_key)
    await downstream.while_held("add")
    downstream.note(downstream.FILE, kind="effect", key=ctx.idempotency_key, n=n)
    return {"ok": True}


@counter_add.rule
def may_add(req: Request, n: int) -> Ruling:
    return allow()


@counter_add.lookup
def find_addition(ctx: Ctx[None], n: int) -> dict[str, Any] | None:
    return {"ok": True} if downstream.effects(ctx.idempotency_key) else None


agent = Agent("b08", model="m", instructions="Count.", tools=[counter_read, counter_add])
app = App(agent, script=playing({"a": case_of("b08")["model_turns"]}))
