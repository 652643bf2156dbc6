"""Case B41: an addition that takes longer than silence is borne."""

import os
from typing import Any

import anyio

from tests.cases.apps import downstream
from tests.cases.apps.script import case_of, playing
from treadle import Agent, App, Ctx, Request, Ruling, allow, each_call, write

SECONDS = float(os.environ.get("SLOW_ADD_S", "0"))


@write(key=each_call, timeout_s=30.0, late_commit_s=0.2)
async def slow_add(ctx: Ctx[None], n: int) -> dict[str, Any]:
    """Add to the total, slowly."""
    key = ctx.idempotency_key
    downstream.note(downstream.FILE, kind="start", key=key, pid=os.getpid())
    await anyio.sleep(SECONDS)
    await downstream.while_held("add")
    downstream.note(downstream.FILE, kind="effect", key=key, n=n)
    return {"ok": True}


@slow_add.rule
def may_add(req: Request, n: int) -> Ruling:
    return allow()


@slow_add.lookup
def find_addition(ctx: Ctx[None], n: int) -> dict[str, Any] | None:
    return {"ok": True} if downstream.effects(ctx.idempotency_key) else None


agent = Agent("b41", model="m", instructions="Add slowly.", tools=[slow_add])
app = App(agent, script=playing({"a": case_of("b41")["model_turns"]}))
