"""What the tools of the refund example see of the outside world: a typed client, and its opening.

The client's one hard task is to say what a failure means. A read that failed did nothing and may
be repeated. A write that failed is an error only where the service surely did nothing; in every
other case it is ``Unknown``, and Treadle finds out by asking again with the same key.
"""

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar, final
from urllib.parse import quote, urlencode

import anyio
import msgspec
from anyio import to_thread

from messages.errors import ToolError
from treadle import Correctable, Transient, Unknown, Unrecoverable
from treadle.examples.refunds.exchange import NoReplyError, NotSentError, Reply, exchange
from treadle.examples.refunds.launch import enter, leave
from treadle.examples.refunds.place import Place
from treadle.examples.refunds.records import Notification, Order, Passages, Refund, RefundList

T = TypeVar("T")

_DEADLINE_S: Final = 10.0
_FIRST_REFUSAL: Final = 400
_NOT_FOUND: Final = 404
_FIRST_FAILURE: Final = 500


class _Error(msgspec.Struct, frozen=True):
    code: str = ""
    message: str = ""


class _Refusal(msgspec.Struct, frozen=True):
    error: _Error = _Error()


@final
class Shop:
    """The payments service as the tools use it. Every call ends within its deadline."""

    def __init__(self, url: str, *, place: Place, deadline_s: float = _DEADLINE_S) -> None:
        """Args: url: where the service listens; place: where it writes its address anew."""
        self._url = url
        self._place = place
        self._deadline_s = deadline_s

    async def order(self, order_id: str) -> Order:
        """Read an order.

        Raises:
            Correctable: there is no such order.
            Transient: the service did not answer.
        """
        return await self._read(Order, "GET", f"/orders/{quote(order_id, safe='')}")

    async def refunds(self, order_id: str) -> RefundList:
        """Read the refunds of an order. Raises as ``order``."""
        return await self._read(RefundList, "GET", "/refunds?" + urlencode({"order_id": order_id}))

    async def refund_of(self, order_id: str, payment_id: str) -> Refund | None:
        """Read the refund of one payment by its identifier. Raises as ``order``."""
        query = urlencode({"order_id": order_id, "payment_id": payment_id})
        found = await self._read(RefundList, "GET", f"/refunds?{query}")
        return found.refunds[0] if found.refunds else None

    async def search_policy(self, query: str) -> Passages:
        """Search the policy text. Raises as ``order``."""
        body = msgspec.json.encode({"query": query})
        return await self._read(Passages, "POST", "/policy/search", body)

    async def refund(self, order_id: str, payment_id: str, amount_inr: int, *, key: str) -> Refund:
        """Refund a payment, once per key.

        Raises:
            Transient: nothing happened, later it may.
            Correctable: nothing happened, the arguments are wrong.
            Unrecoverable: nothing happened, the key stands for something else.
            Unknown: it may have happened.
        """
        body = {"order_id": order_id, "payment_id": payment_id, "amount_inr": amount_inr}
        return await self._write(Refund, "/refunds", body, key)

    async def notify(self, order_id: str, template: str, text: str, *, key: str) -> Notification:
        """Send the customer of an order a message, once per key. Raises as ``refund``."""
        body = {"order_id": order_id, "template": template, "text": text}
        return await self._write(Notification, "/notifications", body, key)

    async def refund_by_key(self, key: str) -> Refund | None:
        """Ask whether a refund happened under this key.

        Returns:
            The refund, or None if there is none.

        Raises:
            Unknown: the service cannot be asked by key.
            Transient: it did not answer.
        """
        return await self._by_key(Refund, "/refunds", key)

    async def notification_by_key(self, key: str) -> Notification | None:
        """Ask whether a notification was sent under this key. As ``refund_by_key``."""
        return await self._by_key(Notification, "/notifications", key)

    async def _by_key(self, kind: type[T], room: str, key: str) -> T | None:
        reply = await self._ask("GET", f"{room}/{quote(key, safe='')}")
        if reply.status == _NOT_FOUND and _error(reply).code == "no_such_effect":
            return None
        return _read_from(reply, kind)

    async def _read(self, kind: type[T], method: str, target: str, body: bytes = b"") -> T:
        return _read_from(await self._ask(method, target, body), kind)

    async def _ask(self, method: str, target: str, body: bytes = b"") -> Reply:
        """A request that changes nothing, so losing its answer is no harm."""
        try:
            return await self._exchange(method, target, body=body, headers={})
        except (NotSentError, NoReplyError) as error:
            raise Transient(str(error)) from error

    async def _write(self, kind: type[T], target: str, body: Mapping[str, object], key: str) -> T:
        content, headers = msgspec.json.encode(body), {"Idempotency-Key": key}
        try:
            reply = await self._exchange("POST", target, body=content, headers=headers)
        except NotSentError as error:
            raise Transient(str(error)) from error
        except NoReplyError as error:
            raise Unknown(str(error)) from error
        if reply.status >= _FIRST_REFUSAL:
            raise _refusal(reply) or Unknown(_said(reply))
        # A malformed answer is a plain exception, which after a write is unknown too.
        return msgspec.json.decode(reply.body, type=kind)

    async def _exchange(
        self, method: str, target: str, *, body: bytes, headers: Mapping[str, str]
    ) -> Reply:
        ask = partial(
            exchange,
            method=method,
            target=target,
            body=body,
            headers=headers,
            deadline_s=self._deadline_s,
        )
        try:
            return await ask(self._url)
        except NotSentError:
            # Somebody may have started it again, on another port. Nothing was sent so far.
            address = await to_thread.run_sync(self._place.read_address)
            if address is None or address.url == self._url:
                raise
            self._url = address.url
        return await ask(self._url)


def _read_from(reply: Reply, kind: type[T]) -> T:
    if reply.status >= _FIRST_REFUSAL:
        raise _refusal(reply) or Transient(_said(reply))
    return msgspec.json.decode(reply.body, type=kind)


def _refusal(reply: Reply) -> ToolError | None:
    """What a status says about the request, where it says that surely nothing happened."""
    code, text = _error(reply).code, _said(reply)
    match reply.status:
        case 429 | 503:  # by its contract, the service answers these before it does anything
            return Transient(text)
        case 501:
            return Unknown(text)
        case 422 if code == "key_mismatch":
            return Unrecoverable(text)
        case status if status < _FIRST_FAILURE:
            return Correctable(text)
        case _:
            return None


def _said(reply: Reply) -> str:
    return _error(reply).message or f"the service answered {reply.status}"


def _error(reply: Reply) -> _Error:
    try:
        return msgspec.json.decode(reply.body, type=_Refusal).error
    except msgspec.MsgspecError:
        return _Error()


@asynccontextmanager
async def open_shop() -> AsyncGenerator[Shop]:
    """Open the shop of this process: find or start its payments service, and leave it at the end.

    The data directory is ``TREADLE_DATA_DIR``, else ``.treadle``. ``launch`` says who stops the
    service: the last process that leaves in order, by the end of the block or by cancellation. A
    process that an error ends leaves it running for the one that takes its place.
    """
    place = _own_place()
    lease = await to_thread.run_sync(enter, place)
    is_orderly = True
    try:
        yield Shop(lease.url, place=place)
    except Exception:
        is_orderly = False
        raise
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(partial(leave, lease, is_orderly=is_orderly))


def _own_place() -> Place:
    return Place(Path(os.environ.get("TREADLE_DATA_DIR") or ".treadle").absolute())
