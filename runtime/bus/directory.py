"""Who serves what here, told to whoever asks in the way of NATS micro services.

``nats micro ls``, ``info`` and ``stats`` show every role; ``treadle actors`` asks the same
questions. Only names, places and counts are told.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import anyio
import msgspec

from messages.errors import BusError
from runtime.bus.port import Delivery
from runtime.bus.presence import Listed
from runtime.bus.wire import Subscription, Wire
from runtime.clock import Clock
from runtime.log import Level, Line, log

SUBJECTS = "$SRV.>"
VERSION = "1.0.0"
"""Of the wire protocol, in the form that micro services want."""

_TYPE = "io.nats.micro.v1."
_CLOSE_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who a process is, for people who look at the bus.

    Attributes:
        name: Of the connection.
        id: Nobody else's.
        host, pid: Where it runs.
    """

    name: str
    id: str
    host: str = ""
    pid: int = 0


class Directory:
    """The services of one connection, grouped by role."""

    def __init__(self, wire: Wire, identity: Identity, clock: Clock) -> None:
        self._wire = wire
        self._identity = identity
        self._started = datetime.fromtimestamp(clock.now(), UTC).isoformat().replace("+00:00", "Z")
        self._services: list[Listed] = []
        self._subscription: Subscription | None = None
        self._changing = anyio.Lock()

    @property
    def roles(self) -> frozenset[str]:
        """What is served now."""
        return frozenset(service.role for service in self._services)

    @asynccontextmanager
    async def listed(self, service: Listed) -> AsyncGenerator[None]:
        """List a service while entered."""
        self._services.append(service)
        try:
            async with self._changing:  # two that come at once would both subscribe
                if self._subscription is None:
                    self._subscription = await self._wire.subscribe(SUBJECTS, self._on_question)
            yield
        finally:
            self._services.remove(service)
            with anyio.move_on_after(_CLOSE_S, shield=True):
                await self._leave()

    async def _leave(self) -> None:
        """The last one to go ends the subscription."""
        async with self._changing:
            if not self._services and self._subscription is not None:
                subscription, self._subscription = self._subscription, None
                await subscription.close()

    async def _on_question(self, delivery: Delivery) -> None:
        _, verb, *wanted = delivery.subject.split(".")
        if not delivery.reply:
            return
        for role in sorted({service.role for service in self._services}):
            names = [f"treadle-{role}", self._identity.id]
            answer = self._answer(verb, role) if wanted == names[: len(wanted)] else None
            if answer is None:
                continue
            try:
                await self._wire.publish(delivery.reply, msgspec.json.encode(answer))
            except BusError as error:
                log(Line.BUS_ERROR, Level.WARNING, code=error.code, message=error.message)

    def _answer(self, verb: str, role: str) -> dict[str, Any] | None:
        services = [service for service in self._services if service.role == role]
        match verb:
            case "PING":
                return self._head("ping", role)
            case "INFO":
                endpoints = [self._endpoint(service) for service in services]
                about = {"description": f"Treadle's {role}", "endpoints": endpoints}
                return self._head("info", role) | about
            case "STATS":
                counts = [self._endpoint(service) | _counts(service) for service in services]
                return self._head("stats", role) | {"started": self._started, "endpoints": counts}
            case _:
                return None

    def _head(self, verb: str, role: str) -> dict[str, Any]:
        who = self._identity
        return {
            "type": f"{_TYPE}{verb}_response",
            "name": f"treadle-{role}",
            "id": who.id,
            "version": VERSION,
            "metadata": {"role": role, "process": who.name, "host": who.host, "pid": str(who.pid)},
        }

    def _endpoint(self, service: Listed) -> dict[str, Any]:
        return {
            "name": service.tool or service.role,
            "subject": service.subject,
            "queue_group": service.role,
        }


def _counts(service: Listed) -> dict[str, Any]:
    busy_ns = int(service.busy_s * 1e9)
    return {
        "num_requests": service.served,
        "num_errors": service.failed,
        "processing_time": busy_ns,
        "average_processing_time": busy_ns // max(1, service.served),
        "data": {
            "running": service.running,
            "pending": service.waiting,
            "served": service.served,
            "refused": service.refused,
            "breakers": service.breakers(),
        },
    }
