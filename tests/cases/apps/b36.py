"""Case B36: a ledger of which every addition is its own."""

from typing import Any

import anyio

from tests.cases.apps import downstream
from tests.cases.apps.script import case_of, playing
from treadle import Agent, App, Ctx, Request, Ruling, allow, each_call, write

SECONDS = 0.3


@write(key=each_call, timeout_s=10.0, late_commit_s=0.2)
async def ledger_add(ctx: Ctx[None], amount: int) -> dict[str, Any]:
    """Add an amount to the ledger."""
    await anyio.sleep(SECONDS)
    await downstream.while_held(f"add-{amount}")
    downstream.note(
        downstream.FILE, kind="effect", key=ctx.idempotency_key, run=ctx.run_id, amount=amount
    )
    return {"added": amount}


@ledger_add.rule
def may_add(req: Request, amount: int) -> Ruling:
    return allow()


@ledger_add.lookup
def find_addition(ctx: Ctx[None], amount: int) -> dict[str, Any] | None:
    return {"added": amount} if downstream.effects(ctx.idempotency_key) else None


agent = Agent("b36", model="m", instructions="Add up.", tools=[ledger_add])
app = App(agent, script=playing({"a": case_of("b36")["model_turns"]}))
