"""One subscription of the NATS connection."""

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import anyio
import nats.errors
from nats.aio.msg import Msg

from messages.errors import Unreachable
from runtime.bus.port import Delivery
from runtime.bus.short import ShortClient
from runtime.bus.wire import OnMessage

if TYPE_CHECKING:
    from nats.aio.subscription import Subscription as NatsSubscription

CLOSE_S = 2.0
_LOOK_S = 0.001


class Connection(Protocol):
    """What a subscription needs of its connection."""

    async def flush(self) -> None:
        """See ``Wire``."""
        ...

    def forget(self, interest: "NatsInterest") -> None:
        """It has ended."""
        ...


class NatsInterest:
    """One subscription (``wire.Subscription``)."""

    def __init__(self, wire: "Connection", client: ShortClient, on_message: OnMessage) -> None:
        self.subscription: NatsSubscription | None = None
        self._wire = wire
        self._client = client
        self._on_message = on_message
        self._is_busy = False

    @property
    def sid(self) -> int:
        """The subscription's number on this connection."""
        sid: int = self.subscription._id if self.subscription else 0  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        return sid

    def listen(self) -> None:
        """From here on the reader hands messages over; nothing has been read yet."""
        self._client.heard[self.sid] = self.heard

    async def never(self, message: Msg) -> None:
        """What the library is given instead: its task for this subscription only sleeps."""
        raise AssertionError(f"{message.subject} took the long way")

    async def heard(self, delivery: Delivery) -> None:
        """Called by the reader, one message after the other."""
        self._is_busy = True
        try:
            await self._on_message(delivery)
        finally:
            self._is_busy = False

    async def close(self) -> None:
        """See ``wire.Subscription``.

        Not the library's drain, which loses what arrives while its PING overtakes the UNSUB.
        """
        subscription = self.subscription
        if subscription is None:
            return
        with suppress(nats.errors.Error, OSError, Unreachable), anyio.move_on_after(CLOSE_S):
            await self._client._send_unsubscribe(self.sid)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            await self._wire.flush()
            while subscription.pending_msgs or self._is_busy:  # noqa: ASYNC110 -- no event for it
                await anyio.sleep(_LOOK_S)
        await self.abandon()

    async def abandon(self) -> None:
        """End the reader, whatever waits."""
        self._client.heard.pop(self.sid, None)
        subscription, self.subscription = self.subscription, None
        self._wire.forget(self)
        if subscription is not None:
            with suppress(nats.errors.Error, OSError):
                await subscription.unsubscribe()
