"""The five tools of the refund agent: three that read, two that change the world.

Each says what the runtime must know and no model may decide: the scope it needs, the system its
result comes from, and for a write the key that makes two calls one effect, the rule that lets it
run, what must still be true when it runs, and how to find out whether it happened.
"""

from datetime import timedelta
from typing import Annotated, Final

from msgspec import Meta

from treadle import Ctx, Request, Ruling, Unmet, allow, ask, read, write
from treadle.examples.refunds.records import Notification, Order, Passages, Refund, RefundList
from treadle.examples.refunds.shop import Shop

OrderId = Annotated[str, Meta(description="Order id, such as 8472")]
PaymentId = Annotated[str, Meta(description="Payment id, as lookup_order gives it")]
Inr = Annotated[int, Meta(gt=0, description="Whole Indian rupees")]
Query = Annotated[str, Meta(min_length=1, max_length=400, description="Words to look for")]
Template = Annotated[str, Meta(description="What the message is about, such as refund-created")]
Text = Annotated[str, Meta(min_length=1, max_length=2000, description="What the customer reads")]

#: The payments service never forgets a key; this is how long we rely on it.
KEYS_KEPT: Final = timedelta(days=30)


@read(scope="orders:read", source="payments-service")
async def lookup_order(ctx: Ctx[Shop], order_id: OrderId) -> Order:
    """Read one order with its payments."""
    return await ctx.deps.order(order_id)


@read(scope="refunds:read", source="refunds-service")
async def get_refund_status(ctx: Ctx[Shop], order_id: OrderId) -> RefundList:
    """Read the refunds of an order with their status; the list is empty where none was made."""
    return await ctx.deps.refunds(order_id)


@read(scope="policy:read", source="policy-store")
async def search_policy(ctx: Ctx[Shop], query: Query) -> Passages:
    """Search the refund policy for what is refundable and who must approve."""
    return await ctx.deps.search_policy(query)


@write(
    key="refund:order-{order_id}:{payment_id}:v1",
    scope="refunds:write",
    source="refunds-service",
    replay_for=KEYS_KEPT,
)
async def issue_refund(
    ctx: Ctx[Shop], order_id: OrderId, payment_id: PaymentId, amount_inr: Inr
) -> Refund:
    """Refund one captured payment in full. Moves money; a large amount waits for a person."""
    return await ctx.deps.refund(order_id, payment_id, amount_inr, key=ctx.idempotency_key)


@issue_refund.rule
def over_limit(req: Request, order_id: OrderId, payment_id: PaymentId, amount_inr: Inr) -> Ruling:
    """A support lead decides above the limit that the policy document sets."""
    if amount_inr > req.limit("refund.auto_inr"):
        return ask("support-lead", "above the automatic limit", size=amount_inr)
    return allow()


@issue_refund.precondition
async def still_owed(
    ctx: Ctx[Shop], order_id: OrderId, payment_id: PaymentId, amount_inr: Inr
) -> Unmet | None:
    """The payment has no refund yet; somebody may have made one while a person was asked."""
    refund = await ctx.deps.refund_of(order_id, payment_id)
    if refund is None:
        return None
    return Unmet(f"payment {payment_id} is already refunded: {refund.refund_id}, {refund.status}")


@issue_refund.lookup
async def find_refund(
    ctx: Ctx[Shop], order_id: OrderId, payment_id: PaymentId, amount_inr: Inr
) -> Refund | None:
    """Ask for the refund under our key."""
    return await ctx.deps.refund_by_key(ctx.idempotency_key)


@write(
    key="notify:order-{order_id}:{template}:v1",
    scope="notifications:write",
    source="notifications-service",
    replay_for=KEYS_KEPT,
)
async def notify_customer(
    ctx: Ctx[Shop], order_id: OrderId, template: Template, text: Text
) -> Notification:
    """Send the customer of an order one message; say only what recorded results show."""
    return await ctx.deps.notify(order_id, template, text, key=ctx.idempotency_key)


@notify_customer.rule
def always(req: Request, order_id: OrderId, template: Template, text: Text) -> Ruling:
    """A message to the order's own customer needs nobody's approval."""
    return allow()


@notify_customer.lookup
async def find_notification(
    ctx: Ctx[Shop], order_id: OrderId, template: Template, text: Text
) -> Notification | None:
    """Ask for the message under our key."""
    return await ctx.deps.notification_by_key(ctx.idempotency_key)
