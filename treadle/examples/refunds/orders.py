"""What the example shop sold and what its policy says: fixed data, no state.

Order 8472 is the one the documentation follows. Every other id gives an order of the same shape,
computed from the id, so a test or a benchmark can have as many as it wants.
"""

import hashlib
import re
from datetime import UTC, datetime, timedelta
from typing import Final, TypedDict

ID_FORM: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
_SECOND_CAPTURE: Final = timedelta(seconds=39)
_FIRST_DAY: Final = datetime(2026, 10, 1, tzinfo=UTC)


class Payment(TypedDict):
    """One captured payment of an order."""

    payment_id: str
    amount_inr: int
    status: str
    at: str


class Order(TypedDict):
    """An order that was captured twice."""

    order_id: str
    customer_id: str
    total_inr: int
    payments: list[Payment]


class Passage(TypedDict):
    """A piece of policy text with the document it stands in."""

    doc: str
    version: str
    section: str
    text: str


POLICY: Final[tuple[Passage, ...]] = (
    {
        "doc": "POL-REF-004",
        "version": "v4",
        "section": "3.2",
        "text": (
            "A duplicate capture on one order is refundable in full for the later payment. "
            "Refunds above INR 1,000 require approval by a support lead."
        ),
    },
)


def find_order(order_id: str) -> Order | None:
    """Look an order up.

    Args:
        order_id: ``8472`` is the documented order; an id that starts with ``none-`` does not exist;
            one that starts with ``small-`` costs 100 to 900 INR; any other costs 2,000 INR.

    Returns:
        The order, always the same one for an id, or None where there is none.
    """
    if not ID_FORM.fullmatch(order_id) or order_id.startswith("none-"):
        return None
    if order_id == "8472":
        first = datetime(2026, 10, 20, 9, 14, 2, tzinfo=UTC)
        return _twice_captured(order_id, "cust-3391", 2000, first, ("pay_5a1", "pay_5a2"))
    number = int.from_bytes(hashlib.sha256(order_id.encode()).digest()[:6])
    amount_inr = 100 + number % 801 if order_id.startswith("small-") else 2000
    first = _FIRST_DAY + timedelta(seconds=number % (28 * 86_400))
    payment_ids = (f"pay_{order_id}_1", f"pay_{order_id}_2")
    return _twice_captured(order_id, f"cust-{number % 9000 + 1000}", amount_inr, first, payment_ids)


def search_policy(query: str) -> list[Passage]:
    """Find the passages with a word that begins like one of the query's, or the other way round."""
    wanted = _words(query)
    return [
        passage
        for passage in POLICY
        if any(
            word.startswith(term) or term.startswith(word)
            for word in _words(passage["text"])
            for term in wanted
        )
    ]


def _words(text: str) -> set[str]:
    """The words of four letters or more."""
    return set(re.findall(r"[a-z]{4,}", text.lower()))


def _twice_captured(
    order_id: str,
    customer_id: str,
    amount_inr: int,
    first: datetime,
    payment_ids: tuple[str, str],
) -> Order:
    captures = zip(payment_ids, (first, first + _SECOND_CAPTURE), strict=True)
    return {
        "order_id": order_id,
        "customer_id": customer_id,
        "total_inr": amount_inr,
        "payments": [
            {
                "payment_id": payment_id,
                "amount_inr": amount_inr,
                "status": "captured",
                "at": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
            for payment_id, at in captures
        ],
    }
