"""What asking and serving need of a transport; NATS (``client``) and memory both give it.

Everything above this line (``ask``, ``serve``, ``bus``) is the same code for both, so the fake can
only differ from the real bus in how bytes travel.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from runtime.bus.port import Delivery

OnMessage = Callable[[Delivery], Awaitable[None]]
"""Called by the reader, one message of a subscription after the other; must not wait for long."""

NO_RESPONDERS = "503"
"""Status header of the empty reply that says that nobody listens."""

MAX_PAYLOAD = 1024 * 1024
"""Bytes of payload and headers that the embedded server lets through."""
_HEADER_BYTES = 16
"""What NATS writes around headers, generously."""


def size_of(data: bytes, headers: Mapping[str, str] | None) -> int:
    """Bytes that count against the broker's limit: NATS counts headers, its client does not."""
    if not headers:
        return len(data)
    lines = sum(len(key) + len(value.encode()) + 4 for key, value in headers.items())
    return len(data) + lines + _HEADER_BYTES


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How patient both ends are; the defaults are the ones of CONTRACT.md section 3.

    Attributes:
        heartbeat_s: How often a handler says that it still works.
        silence_s: An asker that heard nothing for so long gives the worker up.
        skew_s: How far two processes' clocks may differ; a request is dropped this late.
        sweep_s: How exactly deadlines and silences are kept.
        longest_s: No ask is worked on for longer, whatever its deadline says.
        grace_s: How long a server that is left without being drained lets its handlers run.
    """

    heartbeat_s: float = 1.0
    silence_s: float = 3.0
    skew_s: float = 1.0
    sweep_s: float = 0.05
    longest_s: float = 3600.0
    grace_s: float = 0.0


class Subscription(Protocol):
    """Interest in a subject."""

    async def close(self) -> None:
        """Take no more; what has arrived already is still handed over."""
        ...


class Wire(Protocol):
    """One connection."""

    @property
    def inbox(self) -> str:
        """Prefix, without a final dot, of subjects that only this connection hears."""
        ...

    @property
    def is_connected(self) -> bool:
        """Whether a message would leave now."""
        ...

    @property
    def max_payload(self) -> int:
        """Bytes of payload and headers that the broker lets through."""
        ...

    async def connected(self, deadline_s: float) -> None:
        """Wait until there is a connection.

        Raises:
            Unreachable: there was none in time, or there will never be one again.
        """
        ...

    async def publish(
        self, subject: str, data: bytes, reply: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        """Send; returns before anybody has it.

        Raises:
            TooLarge: payload and headers exceed the broker's limit; nothing was sent.
            Unreachable: closed for good, or too much waits for the connection to come back.
        """
        ...

    async def subscribe(
        self, subject: str, on_message: OnMessage, *, queue: str = "", pending: int = 4096
    ) -> Subscription:
        """Hear a subject; when this returns, the broker knows.

        Args:
            subject: may hold wildcards.
            on_message: see ``OnMessage``.
            queue: share the messages with the other members of that group.
            pending: the bus in memory drops the newest when so many wait. NATS hands each message
                over as it comes, so a slow ``on_message`` holds up the whole connection.

        Raises:
            NotAllowed: this user may not hear that.
            Unreachable: closed for good.
        """
        ...

    async def flush(self) -> None:
        """Return when the broker has processed everything sent so far."""
        ...

    def watch(
        self,
        *,
        denied: Callable[[str], None] | None = None,
        closed: Callable[[Exception], None] | None = None,
        reconnected: Callable[[], None] | None = None,
    ) -> None:
        """Be told of what concerns more than one call.

        Args:
            denied: with the subject, in lower case, that this user may not publish to.
            closed: with why, once the connection is closed for good.
            reconnected: after an interruption; messages in between may be lost.
        """
        ...


class Watchers:
    """Who wants to be told (``Wire.watch``)."""

    def __init__(self) -> None:
        self._when_denied: list[Callable[[str], None]] = []
        self._when_closed: list[Callable[[Exception], None]] = []
        self._when_reconnected: list[Callable[[], None]] = []

    def watch(
        self,
        *,
        denied: Callable[[str], None] | None = None,
        closed: Callable[[Exception], None] | None = None,
        reconnected: Callable[[], None] | None = None,
    ) -> None:
        """See ``Wire``."""
        self._when_denied += [denied] if denied else []
        self._when_closed += [closed] if closed else []
        self._when_reconnected += [reconnected] if reconnected else []

    def tell_denied(self, subject: str) -> None:
        """The server refused a publish."""
        for tell in self._when_denied:
            tell(subject)

    def tell_closed(self, why: Exception) -> None:
        """The connection will not come back."""
        for tell in self._when_closed:
            tell(why)

    def tell_reconnected(self) -> None:
        """The connection is back."""
        for tell in self._when_reconnected:
            tell()
