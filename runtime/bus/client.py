"""The connection to NATS: the only place that imports nats.

What nats-py 2.16 would do wrong by itself is put right here: it tries for ever to connect with a
wrong password, gives up reconnecting silently, dies for good when headers push a message over
the limit, loses its reader when an error callback raises, and turns a missing right into a timeout.
"""

import os
import platform
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import nats.errors
from nats.aio.client import Client, Server
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription

from messages.errors import NotAllowed, TooLarge, Unreachable
from runtime.bus.bus import WireBus, open_bus
from runtime.bus.directory import Identity
from runtime.bus.permissions import Credentials
from runtime.bus.port import Delivery
from runtime.bus.tasks import lone_errors
from runtime.bus.wire import OnMessage, Pace, Watchers, size_of
from runtime.clock import Chance, Clock, Ids, MachineClock, MachineIds, machine_chance
from runtime.log import Level, Line, log

PING_S = 5
PINGS = 2
"""A server that did not answer so many pings is gone."""
RECONNECT_S = 0.25
RECONNECT_MOST_S = 4.0
CLOSE_S = 2.0
FLUSH_S = 10
PENDING_BYTES = 64 * 1024 * 1024

_DENIED = re.compile(r'permissions violation for (publish|subscription)[^"]*"([^"]+)"')
_NO_HEADERS: Mapping[str, str] = {}


class NatsWire(Watchers):
    """One NATS connection (``wire.Wire``)."""

    def __init__(self, inbox: str, clock: Clock, chance: Chance, patience_s: float) -> None:
        super().__init__()
        self._inbox = inbox
        self._clock = clock
        self._chance = chance
        self._client = Client()
        self._patient_until = clock.monotonic() + patience_s
        self._connecting: anyio.CancelScope | None = None
        self._is_leaving = False
        self._last_error: Exception | None = None
        self._denied_subjects: set[str] = set()
        self._reconnects = 0
        self._attempts = 0
        self._up = anyio.Event()
        self.closed = anyio.Event()

    # ------------------------------------------------------------------ opening and closing
    async def open(
        self, url: str, credentials: Callable[[], Credentials], name: str, deadline_s: float
    ) -> None:
        """Connect.

        Raises:
            NotAllowed: the server refuses user or password.
            Unreachable: no server within the deadline, or at once where nobody wants to wait.
        """
        with anyio.CancelScope(deadline=anyio.current_time() + deadline_s) as scope:
            self._connecting = scope
            await self._client.connect(
                url,
                name=name,
                user=lambda: credentials().user,
                password=lambda: credentials().password,
                inbox_prefix=self._inbox.encode(),
                ping_interval=PING_S,
                max_outstanding_pings=PINGS,
                max_reconnect_attempts=-1,
                reconnect_time_wait=RECONNECT_S,  # pyright: ignore[reportArgumentType] -- slept as it is; int by oversight
                reconnect_to_server_handler=self._next_attempt,
                skip_subject_validation=True,
                error_cb=self._error,
                disconnected_cb=self._disconnected,
                reconnected_cb=self._reconnected,
                closed_cb=self._closed,
            )
            self._connecting = None
            self._up.set()
            return
        await self.close()
        if "authorization violation" in str(self._last_error).lower():
            raise NotAllowed(f"NATS at {url} refuses this user") from self._last_error
        raise Unreachable(
            f"no NATS server at {url}: {self._last_error or 'no answer'}",
            hint="is the daemon running? treadle up starts one",
        ) from self._last_error

    async def close(self) -> None:
        """Send what waits, then disconnect."""
        self._is_leaving = True
        with anyio.move_on_after(CLOSE_S, shield=True):
            if self._client.is_connected:
                with suppress(Unreachable):
                    await self.flush()
            await self._client.close()

    def lost(self) -> Unreachable:
        """Why there is no connection any more."""
        return Unreachable(f"the NATS connection is closed for good: {self._last_error}")

    # ------------------------------------------------------------------ the wire
    @property
    def inbox(self) -> str:
        """See ``Wire``."""
        return self._inbox

    @property
    def is_connected(self) -> bool:
        """See ``Wire``."""
        return self._client.is_connected

    async def connected(self, deadline_s: float) -> None:
        """See ``Wire``."""
        with anyio.move_on_after(deadline_s):
            while not self._client.is_connected:
                if self.closed.is_set():
                    raise self.lost()
                await self._up.wait()
            return
        raise Unreachable(f"no NATS connection for {deadline_s:.1f} s; it is being tried again")

    async def publish(
        self, subject: str, data: bytes, reply: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        """See ``Wire``."""
        size = size_of(data, headers)
        if size > self._client.max_payload:
            raise TooLarge(f"a message to {subject}", size, self._client.max_payload)
        try:
            await self._client.publish(subject, data, reply, dict(headers) if headers else None)
        except nats.errors.ConnectionClosedError as error:
            raise self.lost() from error
        except nats.errors.Error as error:
            raise Unreachable(f"nothing more fits in the buffer for NATS: {error}") from error

    async def subscribe(
        self, subject: str, on_message: OnMessage, *, queue: str = "", pending: int = 4096
    ) -> "NatsInterest":
        """See ``Wire``."""

        async def heard(message: Msg) -> None:
            await on_message(
                Delivery(
                    subject=message.subject,
                    data=message.data,
                    reply=message.reply,
                    headers=message.headers or _NO_HEADERS,
                )
            )

        try:
            subscription = await self._client.subscribe(  # pyright: ignore[reportUnknownMemberType] -- a bare Future in its signature
                subject,
                queue=queue,
                cb=heard,
                pending_msgs_limit=pending,
                pending_bytes_limit=PENDING_BYTES,
            )
        except nats.errors.Error as error:
            raise self.lost() from error
        interest = NatsInterest(self, self._client, subscription)
        await self.flush()
        if subject.lower() in self._denied_subjects:
            self._denied_subjects.discard(subject.lower())
            await interest.close()
            raise NotAllowed(f"this NATS user may not subscribe to {subject} (queue {queue!r})")
        return interest

    async def flush(self) -> None:
        """See ``Wire``."""
        try:
            with anyio.fail_after(FLUSH_S):
                # nats-py's PING overtakes what it still buffers: the answer alone proves nothing.
                pause_s = 0.0
                while self._client.is_connected and self._client.pending_data_size > 0:
                    await anyio.sleep(pause_s)
                    pause_s = min(0.01, pause_s + 0.0002)
                await self._client.flush(FLUSH_S)
        except (nats.errors.Error, OSError) as error:
            raise Unreachable(f"NATS does not answer: {error}") from error

    # ------------------------------------------------------------------ what nats-py calls
    async def _error(self, error: Exception) -> None:
        """Take note. Raising here would end the reader and leave the connection deaf."""
        try:
            self._note(error)
        except Exception as own:  # noqa: BLE001 -- see above
            log(Line.BUS_ERROR, Level.ERROR, error=type(own).__name__)

    def _note(self, error: Exception) -> None:
        self._last_error = error
        text = str(error)
        log(Line.BUS_ERROR, Level.WARNING, error=type(error).__name__, message=text)
        is_refused = "authorization violation" in text.lower()
        if self._connecting is not None:
            if is_refused or self._clock.monotonic() >= self._patient_until:
                self._connecting.cancel()
            return
        denied = _DENIED.search(text)
        if denied is not None and denied[1] == "subscription":
            self._denied_subjects.add(denied[2])
        elif denied is not None:
            self.tell_denied(denied[2])

    def _next_attempt(self, servers: list[Server], _info: dict[str, Any]) -> tuple[Server, float]:
        most = min(RECONNECT_MOST_S, RECONNECT_S * 2.0**self._attempts)
        server = servers[self._attempts % len(servers)]
        self._attempts += 1
        return server, most * (0.25 + 0.75 * self._chance())

    async def _disconnected(self) -> None:
        self._up = anyio.Event()
        if not self._is_leaving:
            log(Line.BUS_DISCONNECTED, Level.WARNING, message=str(self._last_error))

    async def _reconnected(self) -> None:
        self._reconnects += 1
        self._attempts = 0
        self._up.set()
        log(Line.BUS_CONNECTED, reconnects=self._reconnects)
        self.tell_reconnected()

    async def _closed(self) -> None:
        self.closed.set()
        self._up.set()
        self.tell_closed(self.lost())


class NatsInterest:
    """One subscription (``wire.Subscription``)."""

    def __init__(self, wire: NatsWire, client: Client, subscription: NatsSubscription) -> None:
        self._wire = wire
        self._client = client
        self._subscription = subscription

    async def close(self) -> None:
        """See ``wire.Subscription``.

        The library's own drain lets its PING overtake the UNSUB, and throws away what arrives then.
        """
        with suppress(nats.errors.Error, OSError, Unreachable):
            with anyio.move_on_after(CLOSE_S):
                sid: int = self._subscription._id  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
                await self._client._send_unsubscribe(sid)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
                await self._wire.flush()
                await self._subscription.drain()
                return
            await self._subscription.unsubscribe()


@asynccontextmanager
async def connect(  # noqa: PLR0913 -- all but two are settings with defaults
    url: str,
    credentials: Credentials | Callable[[], Credentials],
    *,
    name: str = "treadle",
    clock: Clock | None = None,
    ids: Ids | None = None,
    chance: Chance = machine_chance,
    pace: Pace | None = None,
    deadline_s: float = 5.0,
    patience_s: float = 0.0,
) -> AsyncGenerator[WireBus]:
    """The bus over one NATS connection, while entered.

    Args:
        url: ``nats://HOST:PORT``.
        credentials: user, password and inbox; a function is asked again at every reconnect.
        name: what this connection is called in NATS.
        clock: for every limit; the machine's unless given.
        ids: for the name of the inbox.
        chance: jitter of reconnects.
        pace: how patient both ends are.
        deadline_s: seconds for the whole of the first connect.
        patience_s: seconds during which a server that is not there is tried again.

    Raises:
        NotAllowed: the server refuses this user.
        Unreachable: no server; or, later and out of the body, the connection is closed for good.
    """
    clock = clock or MachineClock()
    asked = (lambda: credentials) if isinstance(credentials, Credentials) else credentials
    own_id = (ids or MachineIds()).new_id("conn")
    wire = NatsWire(f"{asked().inbox_prefix}.{own_id}", clock, chance, patience_s)
    await wire.open(url, asked, name, deadline_s)
    identity = Identity(name=name, id=own_id, host=platform.node(), pid=os.getpid())
    log(Line.BUS_CONNECTED, url=url, user=asked().user)
    try:
        async with lone_errors() as tasks:
            tasks.start_soon(_watch_closed, wire, name="nats closed")
            async with open_bus(wire, identity=identity, clock=clock, pace=pace or Pace()) as bus:
                yield bus
    finally:
        await wire.close()


async def _watch_closed(wire: NatsWire) -> None:
    await wire.closed.wait()
    raise wire.lost()
