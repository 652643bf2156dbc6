"""What the payments service answers to each request, apart from how it travels.

==============================  ====================================================
GET /orders/ID                  an order with its payments
GET /refunds?order_id=ID        the refunds of an order; of one payment, with ``&payment_id=ID``
GET /refunds/KEY                the refund that was made under a key
GET /notifications/KEY          the notification that was sent under a key
GET /effects/KEY                the line of the file for a key
POST /policy/search             policy passages for ``{"query"}``
POST /refunds                   ``{"order_id", "payment_id", "amount_inr"}``
POST /notifications             ``{"order_id", "template", "text"}``
==============================  ====================================================

A POST of the last two needs an idempotency key. The same key with the same body is answered with
the first result and does nothing; with another body it is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, final

from treadle.examples.refunds.effects import Effect, EffectLog, KeyMismatchError, Kind, Payload
from treadle.examples.refunds.orders import Order, find_order, search_policy

_MAX_KEY: Final = 256
_MAX_TEXT: Final = 4000
_FIELDS: Final[dict[Kind, dict[str, type]]] = {
    "refund": {"order_id": str, "payment_id": str, "amount_inr": int},
    "notification": {"order_id": str, "template": str, "text": str},
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A request, taken apart."""

    method: str
    #: Path segments, unquoted.
    path: tuple[str, ...]
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Mapping[str, object] = field(default_factory=dict[str, object])
    key: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A status and what the JSON body holds."""

    status: int = 200
    content: object


@final
class RefusedError(Exception):
    """The request was not carried out; nothing happened."""

    def __init__(self, status: int, code: str, message: str) -> None:
        """Args: status: HTTP status; code: stable word for programs; message: for people."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    def as_answer(self) -> Answer:
        """What the caller is told."""
        content = {"error": {"code": self.code, "message": self.message}}
        return Answer(status=self.status, content=content)


@final
class Cashier:
    """Knows orders and policy, does refunds and notifications. Safe to use from many threads."""

    def __init__(self, log: EffectLog) -> None:
        self._log = log

    def answer(self, asked: Asked, *, honour_keys: bool) -> Answer:
        """Do what is asked.

        Args:
            asked: the request.
            honour_keys: False behaves as a downstream that has no idempotency keys.

        Raises:
            RefusedError: it was not done, and why.
            OSError: the effect could not be made durable.
        """
        match asked.method, asked.path:
            case "GET", ("orders", order_id):
                return Answer(content=_order(order_id))
            case "GET", ("refunds",):
                return self._refunds(asked.query)
            case "GET", ("refunds" | "notifications" | "effects" as room, key):
                return self._by_key(room, key, honour_keys=honour_keys)
            case "POST", ("policy", "search"):
                query = _checked(asked.body, {"query": str})["query"]
                return Answer(content={"passages": search_policy(str(query))})
            case "POST", ("refunds",):
                return self._perform("refund", asked, honour_keys=honour_keys)
            case "POST", ("notifications",):
                return self._perform("notification", asked, honour_keys=honour_keys)
            case _:
                raise RefusedError(404, "no_such_path", f"no {asked.method} for this path")

    def _refunds(self, query: Mapping[str, str]) -> Answer:
        order_id = _order(query.get("order_id", ""))["order_id"]
        refunds = self._log.refunds(order_id)
        if (payment_id := query.get("payment_id")) is not None:
            refunds = [refund for refund in refunds if refund["payment_id"] == payment_id]
        return Answer(content={"order_id": order_id, "refunds": refunds})

    def _by_key(self, room: str, key: str, *, honour_keys: bool) -> Answer:
        if not honour_keys:
            raise RefusedError(501, "no_keys", "this service does not know idempotency keys")
        effect = self._log.by_key(key)
        if effect is None or room not in {"effects", effect["kind"] + "s"}:
            raise RefusedError(404, "no_such_effect", "nothing was done under this key")
        return Answer(content=effect if room == "effects" else effect["payload"])

    def _perform(self, kind: Kind, asked: Asked, *, honour_keys: bool) -> Answer:
        request = _checked(asked.body, _FIELDS[kind])
        _check_order(_order(str(request["order_id"])), request)
        if honour_keys and not asked.key:
            raise RefusedError(400, "key_missing", "send an Idempotency-Key header")
        if asked.key and len(asked.key) > _MAX_KEY:
            raise RefusedError(400, "key_too_long", f"a key has {_MAX_KEY} characters at most")
        effect, is_new = self._do(kind, asked.key, request, honour_key=honour_keys)
        return Answer(status=201 if is_new else 200, content=effect["payload"])

    def _do(
        self, kind: Kind, key: str | None, request: Payload, *, honour_key: bool
    ) -> tuple[Effect, bool]:
        try:
            return self._log.perform(kind, key, request, honour_key=honour_key)
        except KeyMismatchError:
            text = "this key was used before with another body"
            raise RefusedError(422, "key_mismatch", text) from None


def _order(order_id: str) -> Order:
    order = find_order(order_id)
    if order is None:
        raise RefusedError(404, "no_such_order", f"there is no order {order_id[:40]!r}")
    return order


def _checked(body: Mapping[str, object], fields: Mapping[str, type]) -> Payload:
    """The body, if it has exactly these fields with these types."""
    if body.keys() != fields.keys():
        raise RefusedError(422, "bad_fields", f"send exactly {', '.join(fields)}")
    payload: Payload = {}
    for name, value in body.items():
        if not isinstance(value, str | int) or type(value) is not fields[name]:
            raise RefusedError(422, "bad_field", f"{name} must be {fields[name].__name__}")
        if isinstance(value, str) and not 0 < len(value) <= _MAX_TEXT:
            raise RefusedError(422, "bad_field", f"{name} must have 1 to {_MAX_TEXT} characters")
        payload[name] = value
    return payload


def _check_order(order: Order, request: Payload) -> None:
    """Refuse a refund of somebody else's payment, or of more than was paid."""
    if "payment_id" not in request:
        return
    paid = {payment["payment_id"]: payment["amount_inr"] for payment in order["payments"]}
    amount_inr = paid.get(str(request["payment_id"]))
    if amount_inr is None:
        raise RefusedError(422, "no_such_payment", "this order has no such payment")
    if not 0 < int(request["amount_inr"]) <= amount_inr:
        raise RefusedError(422, "bad_amount", f"refund 1 to {amount_inr} INR of this payment")
