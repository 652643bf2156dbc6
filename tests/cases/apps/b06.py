"""Case B06: an entry in a ledger, and a model that fails right after it."""

from typing import Any

from tests.cases.apps import downstream
from treadle import Agent, App, Ctx, Request, Ruling, allow, write


@write(key="ledger:{amount}:v1", timeout_s=5.0, late_commit_s=0.2)
async def ledger_add(ctx: Ctx[None], amount: int) -> dict[str, Any]:
    """Add an amount to the ledger."""
    downstream.note(downstream.FILE, kind="effect", key=ctx.idempotency_key, amount=amount)
    return {"total": _total()}


@ledger_add.rule
def may_add(req: Request, amount: int) -> Ruling:
    return allow()


@ledger_add.lookup
def find_addition(ctx: Ctx[None], amount: int) -> dict[str, Any] | None:
    return {"total": _total()} if downstream.effects(ctx.idempotency_key) else None


def _total() -> int:
    return sum(line["amount"] for line in downstream.lines(downstream.place()))


agent = Agent("b06", model="m", instructions="Keep the ledger.", tools=[ledger_add])
app = App(agent)
