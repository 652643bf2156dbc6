"""Case B10: a payment that always waits for a person and can be asked for by its key."""

from typing import Any

from tests.cases.apps import downstream
from tests.cases.apps.script import case_of, playing
from treadle import Agent, App, Ctx, Request, Ruling, ask, write


@write(key="pay:{to}:{amount}:v1")
def pay(ctx: Ctx[None], to: str, amount: int) -> dict[str, Any]:
    """Pay an amount to an account."""
    downstream.note(downstream.FILE, kind="pay", key=ctx.idempotency_key, to=to, amount=amount)
    return {"to": to, "amount": amount}


@pay.rule
def needs_approval(req: Request, to: str, amount: int) -> Ruling:
    return ask("lead", "every payment is looked at", size=amount)


@pay.lookup
def find_payment(ctx: Ctx[None], to: str, amount: int) -> dict[str, Any] | None:
    made = [
        line
        for line in downstream.lines(downstream.place())
        if line["kind"] == "pay" and line["key"] == ctx.idempotency_key
    ]
    return {"to": to, "amount": amount} if made else None


agent = Agent("b10", model="m", instructions="Pay what is due.", tools=[pay])
app = App(agent, script=playing({"a": case_of("b10")["model_turns"]}))
