"""The example of CONTRACT.md section 5, completed; it has to pass basedpyright as it stands.

The lines with a ``pyright: ignore`` are mistakes that the types must find: an ignore that is not
needed is an error of its own (reportUnnecessaryTypeIgnoreComment).
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

from msgspec import Struct

from treadle import (
    Agent,
    App,
    Budget,
    Ctx,
    Draft,
    Progress,
    Request,
    Ruling,
    Unmet,
    allow,
    ask,
    each_call,
    read,
    write,
)


class Payment(Struct):
    """One payment of an order."""

    id: str
    amount_inr: int


class Order(Struct):
    """One order."""

    id: str
    payments: list[Payment]


class Refund(Struct):
    """One refund."""

    id: str
    amount_inr: int


class Outcome(Struct):
    """What the agent hands in."""

    refunded_inr: int
    explanation: str


class Shop:
    """What tools work with."""

    async def order(self, order_id: str) -> Order:
        """One order."""
        return Order(order_id, [])

    async def refund(self, payment_id: str, amount_inr: int, *, key: str) -> Refund:
        """Pay back."""
        return Refund(f"{payment_id}:{key}", amount_inr)

    async def refund_by_key(self, key: str) -> Refund | None:
        """A refund that was made."""
        return Refund(key, 0)

    def passages(self, query: str, limit: int) -> list[str]:
        """Passages of the policy."""
        return [query] * limit


@read(scope="orders:read", source="payments-service", timeout_s=5, cache_s=10, polling=True)
async def lookup_order(ctx: Ctx[Shop], order_id: str) -> Order:
    """Read one order with its payments."""
    return await ctx.deps.order(order_id)


@read
def search_policy(ctx: Ctx[Shop], query: str, limit: int = 3) -> list[str]:
    """Search the refund policy."""
    return ctx.deps.passages(query, limit)


@write(
    key="refund:order-{order_id}:{payment_id}:v1",
    scope="refunds:write",
    source="refunds-service",
    replay_for=timedelta(days=30),
)
async def issue_refund(ctx: Ctx[Shop], order_id: str, payment_id: str, amount_inr: int) -> Refund:
    """Refund one captured payment in full."""
    return await ctx.deps.refund(payment_id, amount_inr, key=ctx.idempotency_key)


@issue_refund.rule
def over_limit(req: Request, order_id: str, payment_id: str, amount_inr: int) -> Ruling:
    """Above the automatic limit a person decides."""
    if amount_inr > req.limit("refund.auto_inr"):
        return ask("support-lead", "above the automatic limit", size=amount_inr)
    return allow()


@issue_refund.precondition
async def still_owed(
    ctx: Ctx[Shop], order_id: str, payment_id: str, amount_inr: int
) -> Unmet | None:
    """The payment still belongs to the order."""
    order = await ctx.deps.order(order_id)
    return None if order.payments else Unmet("the order has no payment")


@issue_refund.lookup
async def find_refund(
    ctx: Ctx[Shop], order_id: str, payment_id: str, amount_inr: int
) -> Refund | None:
    """The refund under our key."""
    return await ctx.deps.refund_by_key(ctx.idempotency_key)


@write(key=each_call)
def leave_note(ctx: Ctx[Shop], text: str) -> int:
    """Leave a note for the support team."""
    return len(text)


refund = Agent(
    "refund",
    model="claude-opus-5-5",
    instructions="Settle the complaint within policy.",
    output=Outcome,
    tools=[lookup_order, search_policy, issue_refund, leave_note],
    budget=Budget(max_steps=8, max_tokens=40_000, max_usd="0.50", max_seconds=120),
    progress=Progress(warn_at=2, stop_at=3),
    escalate_to="support-lead",
)


@refund.done
def settled(draft: Draft[Outcome]) -> Unmet | None:
    """The records show what the output claims."""
    paid = sum(each.amount_inr for each in draft.results(issue_refund))
    order = draft.latest(lookup_order)
    if order is None or order.id == "" or not draft.executed("issue_refund"):
        return Unmet("nothing was looked up or refunded")
    if paid != draft.output.refunded_inr:
        return Unmet(f"claims {draft.output.refunded_inr}, the records show {paid}")
    return None


@asynccontextmanager
async def open_shop() -> AsyncGenerator[Shop]:
    """Open the shop."""
    yield Shop()


app = App(refund, deps=open_shop)


async def direct_calls(ctx: Ctx[Shop]) -> str:
    """A tool stays callable as it was declared."""
    order = await lookup_order(ctx, "ORD-1")
    passages = search_policy(ctx, "refunds", limit=1)
    made = await issue_refund(ctx, "ORD-1", payment_id="P-1", amount_inr=1)
    return order.id + passages[0] + made.id


# ------------------------------------------------------------------ mistakes that the types find
async def wrong_calls(ctx: Ctx[Shop], draft: Draft[Outcome]) -> None:
    """Wrong arguments and wrong attributes are errors before any run."""
    await lookup_order(ctx, 1042)  # pyright: ignore[reportArgumentType]
    await lookup_order(ctx)  # pyright: ignore[reportCallIssue]
    _ = draft.results(issue_refund)[0].amont  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]
    _ = draft.output.refundd  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def wrong_hook() -> None:
    """A hook with other parameters than its tool's; refused at import time too."""

    @issue_refund.rule  # pyright: ignore[reportArgumentType]
    def other_parameters(req: Request, order_id: str) -> Ruling:
        return allow()
