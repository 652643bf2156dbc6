"""What the payments service says, as the tools hand it on: these become evidence."""

import msgspec


class Payment(msgspec.Struct, frozen=True, kw_only=True):
    """A captured payment."""

    payment_id: str
    amount_inr: int
    status: str
    at: str


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """An order with its payments, oldest first."""

    order_id: str
    customer_id: str
    total_inr: int
    payments: list[Payment]


class Refund(msgspec.Struct, frozen=True, kw_only=True):
    """Money on its way back; ``status`` is pending, settled or failed."""

    refund_id: str
    status: str
    order_id: str
    payment_id: str
    amount_inr: int


class RefundList(msgspec.Struct, frozen=True, kw_only=True):
    """The refunds of an order, oldest first."""

    order_id: str
    refunds: list[Refund]


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """Policy text with the place it stands."""

    doc: str
    version: str
    section: str
    text: str


class Passages(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy search found."""

    passages: list[Passage]


class Notification(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was sent to the customer of an order."""

    notification_id: str
    status: str
    order_id: str
    template: str
    text: str
