"""How a client's requests travel: one lazily opened connection per user, errors as they were."""

from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus

from messages import api, subjects
from messages.api import Reply
from messages.codec import decode_as, encode
from messages.errors import NoResponders, Unreachable, UsageError, WireError
from runtime.bus.bus import WireBus
from runtime.bus.client import connect
from treadle.client.connection import Place, principal_of
from treadle.client.failures import error_of

SUBMITTER = "submitter"
APPROVER = "approver"
OPERATOR = "operator"

REQUEST_S = 10.0


class Wire:
    """The connections of one client."""

    def __init__(self, place: Place, user: str | None, tasks: TaskGroup) -> None:
        """Use ``Client.connect``."""
        self._place = place
        self._user = user
        self._tasks = tasks
        self._buses: dict[str, WireBus] = {}
        self._opening = anyio.Lock()

    async def _call(
        self, kind: str, verb: str, body: msgspec.Struct, *, timeout_s: float = REQUEST_S
    ) -> Reply:
        name = self._user or kind
        bus = await self._bus(name)
        principal = principal_of(self._place.user(name))
        subject = subjects.api(self._place.tenant, principal, verb)
        return await request(bus, subject, body, timeout_s=timeout_s)

    async def _bus(self, name: str) -> WireBus:
        """The connection of a user, opened when it is first needed."""
        async with self._opening:
            bus = self._buses.get(name)
            if bus is None:
                bus = await self._tasks.start(self._hold, name)
                self._buses[name] = bus
            return bus

    async def _hold(self, name: str, *, task_status: TaskStatus[WireBus]) -> None:
        """Keep one connection open; a task of its own, so that any task may have opened it."""
        async with connect(self._place.url, self._place.user(name), name="treadle-client") as bus:
            task_status.started(bus)
            await anyio.sleep_forever()


async def request(bus: WireBus, subject: str, body: msgspec.Struct, *, timeout_s: float) -> Reply:
    """One request to the public API.

    Raises:
        Unreachable: No gateway answers.
        TreadleError: What the gateway refused, as the error it stands for.
    """
    try:
        data = await bus.request(subject, _encoded(body), timeout_s=timeout_s)
    except NoResponders as error:
        hint = "it may be starting or stopping; try again"
        raise Unreachable("the daemon does not answer", hint=hint) from error
    reply = decode_as(data, dict[str, Any])
    if "error" in reply:
        raise error_of(msgspec.convert(reply["error"], api.ErrorBody))
    return reply


def _encoded(body: msgspec.Struct) -> bytes:
    """The request's bytes.

    Raises:
        UsageError: It holds something that JSON cannot say, such as half a character.
    """
    try:
        return encode(body)
    except WireError as error:
        raise UsageError(error.message) from error
