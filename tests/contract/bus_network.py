"""The two transports under one name, for the suite of ``test_bus``."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from runtime.bus import client, memory
from runtime.bus.bus import WireBus
from runtime.bus.server import EmbeddedServer
from tests.nats_fixtures import QUICK


@dataclass
class Network:
    """Something to connect to, as often as a test wants."""

    kind: str
    connect: Callable[[str], AbstractAsyncContextManager[WireBus]]
    """As which NATS user; the bus in memory knows none."""


def over_memory() -> Network:
    hub = memory.Hub()
    return Network("memory", lambda _user: memory.connect(hub, pace=QUICK))


def over_nats(server: EmbeddedServer) -> Network:
    return Network("nats", lambda user: client.connect(server.url, server.users[user], pace=QUICK))
