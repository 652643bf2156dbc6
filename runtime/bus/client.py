"""The connection to NATS; with its two neighbours the only place that imports nats.

What nats-py 2.16 would do wrong by itself is put right here: it tries for ever to connect with a
wrong password, gives up reconnecting silently, dies for good when headers push a message over
the limit, loses its reader when an error callback raises, and turns a missing right into a timeout.
"""

import asyncio
import os
import platform
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import nats.errors
from nats.aio.client import Server

from messages.errors import NotAllowed, TooLarge, Unreachable
from runtime.bus.bus import WireBus, open_bus
from runtime.bus.directory import Identity
from runtime.bus.interest import CLOSE_S, NatsInterest
from runtime.bus.permissions import Credentials
from runtime.bus.short import ShortClient
from runtime.bus.tasks import lone_errors
from runtime.bus.wire import OnMessage, Pace, Watchers, size_of
from runtime.clock import Chance, Clock, Ids, MachineClock, MachineIds, machine_chance
from runtime.log import Level, Line, log

PING_S = 5
PINGS = 2
"""A server that did not answer so many pings is gone."""
RECONNECT_S = 0.25
RECONNECT_MOST_S = 4.0
FLUSH_S = 10
PENDING_BYTES = 64 * 1024 * 1024

_DENIED = re.compile(r'permissions violation for (publish|subscription)[^"]*"([^"]+)"')


class NatsWire(Watchers):
    """One NATS connection (``wire.Wire``)."""

    def __init__(
        self, url: str, inbox: str, *, clock: Clock, chance: Chance, patience_s: float
    ) -> None:
        super().__init__()
        self._url = url
        self._inbox = inbox
        self._clock = clock
        self._chance = chance
        self._client = ShortClient()
        self._patient_until = clock.monotonic() + patience_s
        self._is_open = False
        self._open: set[NatsInterest] = set()
        self._flushes: set[asyncio.Future[None]] = set()
        self._is_leaving = False
        self._last_error: Exception | None = None
        self._denied_subjects: set[str] = set()
        self._reconnects = 0
        self._attempts = 0
        self._up = anyio.Event()
        self.closed = anyio.Event()

    # ------------------------------------------------------------------ opening and closing
    async def open(
        self, credentials: Callable[[], Credentials], name: str, deadline_s: float
    ) -> None:
        """Connect.

        Raises:
            NotAllowed: the server refuses user or password.
            Unreachable: no server within the deadline, or at once where nobody wants to wait.
        """
        try:
            with anyio.fail_after(deadline_s):
                await self._client.connect(
                    self._url,
                    name=name,
                    user=lambda: credentials().user,
                    password=lambda: credentials().password,
                    inbox_prefix=self._inbox.encode(),
                    ping_interval=PING_S,
                    max_outstanding_pings=PINGS,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=RECONNECT_S,  # pyright: ignore[reportArgumentType] -- slept as it is
                    reconnect_to_server_handler=self._next_attempt,
                    skip_subject_validation=True,
                    pending_size=PENDING_BYTES,
                    flush_timeout=FLUSH_S,
                    error_cb=self._error,
                    disconnected_cb=self._disconnected,
                    reconnected_cb=self._reconnected,
                    closed_cb=self._closed,
                )
        except BaseException as error:
            await self.close()
            if isinstance(error, TimeoutError):
                raise _no_server(self._url, self._last_error) from self._last_error
            raise
        self._is_open = True
        self._up.set()

    async def close(self) -> None:
        """Send what waits, then disconnect."""
        self._is_leaving = True
        with anyio.move_on_after(CLOSE_S, shield=True):
            if self._client.is_connected:
                with suppress(Unreachable):
                    await self.flush()
            for interest in list(self._open):
                # Where the connection is lost, close raises halfway and would leave their readers.
                await interest.abandon()
            with suppress(nats.errors.Error, OSError):
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

    @property
    def max_payload(self) -> int:
        """See ``Wire``."""
        return self._client.max_payload

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
        size = size_of(data, headers) if headers else len(data)
        if size > self._client.max_payload:
            raise TooLarge(f"a message to {subject}", size, self._client.max_payload)
        if not headers and self._client.put(subject, data, reply):
            return
        try:
            await self._client.publish(subject, data, reply, dict(headers) if headers else None)
        except nats.errors.ConnectionClosedError as error:
            raise self.lost() from error
        except nats.errors.Error as error:
            raise Unreachable(f"nothing more fits in the buffer for NATS: {error}") from error

    async def subscribe(
        self, subject: str, on_message: OnMessage, *, queue: str = "", pending: int = 4096
    ) -> NatsInterest:
        """See ``Wire``."""
        interest = NatsInterest(self, self._client, on_message)
        try:
            interest.subscription = await self._client.subscribe(  # pyright: ignore[reportUnknownMemberType] -- a bare Future in its signature
                subject,
                queue=queue,
                cb=interest.never,
                pending_msgs_limit=pending,
                pending_bytes_limit=PENDING_BYTES,
            )
        except nats.errors.Error as error:
            raise self.lost() from error
        interest.listen()
        self._open.add(interest)
        try:
            await self._settle()
        except BaseException:
            await interest.abandon()
            raise
        if subject.lower() in self._denied_subjects:
            self._denied_subjects.discard(subject.lower())
            await interest.close()
            raise NotAllowed(f"this NATS user may not subscribe to {subject} (queue {queue!r})")
        return interest

    async def _settle(self) -> None:
        """Flush, again after a reconnect: subscriptions are replayed then."""
        with anyio.move_on_after(FLUSH_S):
            while not self.closed.is_set():
                with suppress(Unreachable):
                    return await self.flush()
        raise self.lost()

    async def flush(self) -> None:
        """See ``Wire``.

        Not the library's flush: its PING overtakes what is still buffered, so that the answer
        proves nothing, and a cancelled one ends the reader when its PONG comes.
        """
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[None] = loop.create_future()
        pong: asyncio.Future[Any] = loop.create_future()
        pong.add_done_callback(lambda _: answered.done() or answered.set_result(None))
        self._flushes.add(answered)
        try:
            with anyio.fail_after(FLUSH_S):
                await self.connected(FLUSH_S)
                await self._until_buffer_is_empty()
                await self._client._send_ping(pong)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType]
                await answered
        except (nats.errors.Error, OSError) as error:
            raise Unreachable(f"NATS does not answer: {error}") from error
        finally:
            self._flushes.discard(answered)

    async def _until_buffer_is_empty(self) -> None:
        pause_s = 0.0
        while self._client.is_connected and self._client.pending_data_size > 0:
            await anyio.sleep(pause_s)
            pause_s = min(0.01, pause_s + 0.0002)

    def forget(self, interest: NatsInterest) -> None:
        """It has ended."""
        self._open.discard(interest)

    # ------------------------------------------------------------------ what nats-py calls
    async def _error(self, error: Exception) -> None:
        """Take note. Once open, raising here would end the reader and leave the connection deaf."""
        if not self._is_open:
            self._give_up_connecting(error)
            return
        try:
            self._note(error)
        except Exception as own:  # noqa: BLE001 -- see above
            log(Line.BUS_ERROR, Level.ERROR, error=type(own).__name__)

    def _give_up_connecting(self, error: Exception) -> None:
        """Raise out of the library's first connect, which would try for ever."""
        self._last_error = error
        if "authorization violation" in str(error).lower():
            raise NotAllowed(f"NATS at {self._url} refuses this user") from error
        if self._clock.monotonic() >= self._patient_until:
            raise _no_server(self._url, error) from error

    def _note(self, error: Exception) -> None:
        self._last_error = error
        text = str(error)
        log(Line.BUS_ERROR, Level.WARNING, error=type(error).__name__, message=text)
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
        for waiting in self._flushes:
            if not waiting.done():
                waiting.set_exception(Unreachable("the NATS connection was lost"))
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


def _no_server(url: str, error: Exception | None) -> Unreachable:
    return Unreachable(
        f"no NATS server at {url}: {error or 'no answer'}",
        hint="is the daemon running? treadle up starts one",
    )


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
    inbox = f"{asked().inbox_prefix}.{own_id}"
    wire = NatsWire(url, inbox, clock=clock, chance=chance, patience_s=patience_s)
    await wire.open(asked, name, deadline_s)
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
