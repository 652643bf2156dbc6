"""Three agents, one for each way to find out what became of a write, on one downstream.

The downstream is the payments service of the refund example, and its file is the only judge of how
often something happened. The replayed write relies on the service's keys; the other two talk to it
as to a service without keys (``downstream_env``), which does again whatever it is asked again.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, Literal

from runtime.model.scripted import Turn, View, call, say
from treadle import Agent, App, Ctx, Draft, Request, Ruling, Unmet, allow, read, write
from treadle.examples.refunds.records import Order, Refund
from treadle.examples.refunds.shop import Shop, open_shop

Effect = Literal["replay", "lookup", "blind"]

TIMEOUT_S: Final = 1.5
LATE_COMMIT_S: Final = 1.0
SETTLE_S: Final = TIMEOUT_S + LATE_COMMIT_S
"""W of every write here."""
LATE_S: Final = 1.7
"""A downstream this slow commits after we gave up and before W is over."""
AMOUNT_INR: Final = 100


def downstream_env(effect: Effect) -> dict[str, str]:
    """Whether the payments service honours keys for this kind of write."""
    keys = "1" if effect == "replay" else "0"
    return {"PAYMENTS_PATH": "POST /refunds", "PAYMENTS_HONOUR_KEYS": keys}


async def _refund(ctx: Ctx[Shop], order_id: str) -> Refund:
    payment_id = f"pay_{order_id}_2"
    return await ctx.deps.refund(order_id, payment_id, AMOUNT_INR, key=ctx.idempotency_key)


async def _unpaid(ctx: Ctx[Shop], order_id: str) -> Unmet | None:
    order = await ctx.deps.order(order_id)
    return None if order.payments else Unmet("nothing was paid")


@read(source="payments-service")
async def look_at(ctx: Ctx[Shop], order_id: str) -> Order:
    """Read one order."""
    return await ctx.deps.order(order_id)


@write(
    key="replay:{order_id}:v1",
    replay_for=timedelta(days=1),
    timeout_s=TIMEOUT_S,
    late_commit_s=LATE_COMMIT_S,
)
async def refund_replay(ctx: Ctx[Shop], order_id: str) -> Refund:
    """Refund at a service that honours our key."""
    return await _refund(ctx, order_id)


@refund_replay.rule
def may_replay(req: Request, order_id: str) -> Ruling:
    return allow()


@refund_replay.precondition
async def is_paid_replay(ctx: Ctx[Shop], order_id: str) -> Unmet | None:
    return await _unpaid(ctx, order_id)


@write(key="lookup:{order_id}:v1", timeout_s=TIMEOUT_S, late_commit_s=LATE_COMMIT_S)
async def refund_lookup(ctx: Ctx[Shop], order_id: str) -> Refund:
    """Refund at a service that knows no keys and can be asked for the refund of a payment."""
    return await _refund(ctx, order_id)


@refund_lookup.rule
def may_look_up(req: Request, order_id: str) -> Ruling:
    return allow()


@refund_lookup.precondition
async def is_paid_lookup(ctx: Ctx[Shop], order_id: str) -> Unmet | None:
    return await _unpaid(ctx, order_id)


@refund_lookup.lookup
async def find_refund(ctx: Ctx[Shop], order_id: str) -> Refund | None:
    return await ctx.deps.refund_of(order_id, f"pay_{order_id}_2")


@write(key="blind:{order_id}:v1", timeout_s=TIMEOUT_S, late_commit_s=LATE_COMMIT_S)
async def refund_blind(ctx: Ctx[Shop], order_id: str) -> Refund:
    """Refund at a service that can neither be asked nor be repeated to; a person approves."""
    return await _refund(ctx, order_id)


@refund_blind.precondition
async def is_paid_blind(ctx: Ctx[Shop], order_id: str) -> Unmet | None:
    return await _unpaid(ctx, order_id)


WRITES: Final = {"replay": refund_replay, "lookup": refund_lookup, "blind": refund_blind}


def script(view: View) -> Turn:
    """Perhaps read the order, then refund it."""
    order_id, effect = str(view.inputs["order_id"]), str(view.inputs["effect"])
    turns = [call(look_at, order_id=order_id)] if view.inputs["reads"] else []
    turns.append(call(WRITES[effect], order_id=order_id))
    if view.is_final or view.turn >= len(turns):
        return say("nothing more")
    return turns[view.turn]


def _agent(effect: str) -> Agent[Any]:
    tool = WRITES[effect]
    made = Agent(effect, model="m", instructions="Refund it once.", tools=[look_at, tool])

    @made.done
    def refunded(draft: Draft[Any]) -> Unmet | None:
        return None if draft.results(tool) else Unmet("nothing was refunded")

    return made


AGENTS: Final[Mapping[str, Agent[Any]]] = {effect: _agent(effect) for effect in WRITES}
app = App(*AGENTS.values(), deps=open_shop, script=script)
