"""What the scripted model says, so that the example runs without a key and always the same.

It decides as a careful model would, from what is recorded: order and payment come from the run's
inputs and the ``lookup_order`` result, never from a table. The first four decisions for order
8472 and their token counts are those of the documented trace (1,260, 2,965 and 5,335 tokens
after the first three).
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from runtime.model.scripted import Turn, View, call, finish, say, turn

_NAMED_ORDER: Final = re.compile(r"\border\s+#?(?=[a-z_-]*[0-9])([a-z0-9_-]{1,32})", re.IGNORECASE)
_DOCUMENTED: Final = "8472"


def script(view: View) -> Turn:
    """The next decision; the same conversation always gets the same one."""
    order_id = _order_id(view)
    if view.is_final:
        return say(_known(view, order_id), usage=(1500, 80))
    if view.turn == 0:
        return call("lookup_order", order_id=order_id, usage=(1200, 60))
    order = view.result("lookup_order")
    if order is None:
        question = f"I cannot find order {order_id}. Which order is meant?"
        return call("ask_user", question=question, usage=(1300, 60))
    return _decide(view, order_id, order)


def _decide(view: View, order_id: str, order: Mapping[str, Any]) -> Turn:
    """Investigate, propose the refund of the later capture, look whether it is there."""
    match view.turn:
        case 1:
            return call("get_refund_status", order_id=order_id, usage=(1640, 65))
        case 2:
            query = "duplicate card capture refund approval threshold"
            return call("search_policy", query=query, usage=(2300, 70))
        case 3:
            payment = max(order["payments"], key=lambda payment: payment["at"])
            return call(
                "issue_refund",
                order_id=order_id,
                payment_id=payment["payment_id"],
                amount_inr=payment["amount_inr"],
                usage=(2500, 85),
            )
        case 4 if (made := view.result("issue_refund")) is not None:
            status = call("get_refund_status", order_id=order_id)
            return turn(status, _notify(order_id, made), usage=(2600, 160))
        case 4:
            return call("get_refund_status", order_id=order_id, usage=(2600, 60))
        case _:
            return _close(view, order_id)


def _close(view: View, order_id: str) -> Turn:
    """Tell the customer and finish, if the records show a refund; else say that there is none."""
    status = view.result("get_refund_status")
    if status is None or not status["refunds"]:
        return call("give_up", why=f"order {order_id} has no refund to report", usage=(2750, 50))
    made = status["refunds"][-1]
    if view.result("notify_customer") is None:
        return _notify(order_id, made)
    return finish(_outcome(order_id, made), usage=(2700, 110))


def _notify(order_id: str, made: Mapping[str, Any]) -> Turn:
    text = (
        f"Order {order_id} was charged twice. We are refunding payment {made['payment_id']} "
        f"of INR {made['amount_inr']}: refund {made['refund_id']}, now {made['status']}."
    )
    return call(
        "notify_customer",
        order_id=order_id,
        template="refund-created",
        text=text,
        usage=(2650, 120),
    )


def _known(view: View, order_id: str) -> str:
    """What is recorded and what is missing, for the last turn after a budget is gone."""
    status = view.result("get_refund_status")
    made = [refund["refund_id"] for refund in status["refunds"]] if status else []
    told = "was told" if view.result("notify_customer") else "was not told yet"
    return f"Order {order_id}: refunds on record: {', '.join(made) or 'none'}. The customer {told}."


def _outcome(order_id: str, made: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "order_id": order_id,
        "refund_id": made["refund_id"],
        "amount_inr": made["amount_inr"],
        "explanation": (
            f"Two payments were captured for order {order_id}; the later one, "
            f"{made['payment_id']}, is refunded as {made['refund_id']} ({made['status']})."
        ),
    }


def _order_id(view: View) -> str:
    """The order of the inputs, else the one the goal names, else the documented one."""
    if given := view.inputs.get("order_id"):
        return str(given)
    named = _NAMED_ORDER.search(view.goal)
    return named[1] if named else _DOCUMENTED
