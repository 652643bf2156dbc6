"""The two transports under one name, and how their tests wait."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import anyio
import anyio.abc
import anyio.lowlevel

from messages.authority import Grant
from messages.execution import Reconcile
from messages.parts import Action
from runtime.bus import client, memory
from runtime.bus.bus import WireBus
from runtime.bus.port import Delivery
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


async def settled(*buses: WireBus) -> None:
    """Everything that was sent has been read."""
    for bus in buses:
        await bus.wire.flush()
    for _ in range(50):
        await anyio.lowlevel.checkpoint()


async def within(event: anyio.Event) -> None:
    with anyio.fail_after(5):
        await event.wait()


async def receive(stream: "anyio.abc.ObjectReceiveStream[Delivery]") -> Delivery:
    with anyio.fail_after(5):
        return await stream.receive()


def reconcile(tool: str) -> Reconcile:
    return Reconcile(
        tenant="t",
        run_id="r",
        principal="p",
        agent="a",
        step=1,
        action=Action(ordinal=0, tool=tool, arguments={}, action_hash="h"),
        grant=Grant(id="g", tenant="t", run_id="r", step=1, actions=(), expires_at=0.0),
        evidence_id="e",
        now=0.0,
    )
