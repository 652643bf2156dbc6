"""The durable half of the bus over NATS (``streams.Streams``)."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream

from messages.errors import DeadlineExceeded, NoResponders, NotFound, StorageError
from runtime.bus import streams
from runtime.bus.ask import Asker
from runtime.bus.port import Delivery, Stored, TaskDelivery
from runtime.bus.pull import Puller
from runtime.bus.wire import Wire
from runtime.clock import Clock

_API = "$JS.API"
_API_S = 5.0
_PUBLISH_S = 2.0
"""How long one attempt waits for the acknowledgement; a disk that syncs may take its time."""
_PUBLISH_TRIES = 4
_PAUSE_S = 0.1
_GONE = "404"


class JetStream:
    """Streams of one connection."""

    def __init__(self, wire: Wire, asker: Asker, clock: Clock) -> None:
        self._wire = wire
        self._asker = asker
        self._clock = clock
        self._pullers = 0

    async def publish(self, subject: str, data: bytes, message_id: str) -> None:
        """See ``Bus.publish_durable``."""
        headers = {"Nats-Msg-Id": message_id}
        for attempt in range(1, _PUBLISH_TRIES + 1):
            try:
                answer = await self._asker.exchange(
                    subject, data, deadline_s=_PUBLISH_S, headers=headers
                )
            except (DeadlineExceeded, NoResponders):
                # Both may also mean that a server restarts or that a stream changes its leader.
                if attempt == _PUBLISH_TRIES:
                    raise
                await self._clock.sleep(_PAUSE_S * attempt)
                continue
            error = streams.refusal(subject, answer.data)
            if error is not None:
                raise error
            return

    def consume(
        self, stream: str, durable: str, batch: int
    ) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[TaskDelivery]]:
        """See ``Bus.consume``."""
        self._pullers += 1
        subject = f"{_API}.CONSUMER.MSG.NEXT.{stream}.{durable}"
        puller = Puller(subject, batch, asker=self._asker, wire=self._wire, clock=self._clock)
        return puller.tasks(f"{self._wire.inbox}.pull{self._pullers}")

    async def created(self, stream: str) -> str:
        """See ``Bus.stream_created``."""
        return str((await self._ask(f"STREAM.INFO.{stream}", {}))["created"])

    async def last(self, stream: str, subject: str) -> bytes | None:
        """See ``Bus.last``."""
        answer = await self._get(f"{stream}.{subject}", b"")
        return None if answer is None else answer.data

    async def stored(self, stream: str, subject: str, after: int) -> Stored | None:
        """See ``Bus.stored``."""
        wanted = {"seq": after + 1, "next_by_subj": subject}
        answer = await self._get(stream, msgspec.json.encode(wanted))
        if answer is None:
            return None
        told = answer.headers
        return Stored(
            subject=told["Nats-Subject"], sequence=int(told["Nats-Sequence"]), data=answer.data
        )

    async def discard(self, stream: str, sequence: int) -> None:
        """See ``Bus.discard``."""
        if await self._get(stream, msgspec.json.encode({"seq": sequence})) is None:
            raise NotFound("message", f"{stream} {sequence}")
        await self._ask(f"STREAM.MSG.DELETE.{stream}", {"seq": sequence})

    async def _get(self, what: str, body: bytes) -> Delivery | None:
        """One message, read directly; None where there is none."""
        answer = await self._asker.exchange(f"{_API}.DIRECT.GET.{what}", body, deadline_s=_API_S)
        status = answer.headers.get("Status", "")
        if status == _GONE:
            return None
        if status:
            description = answer.headers.get("Description", "")
            raise StorageError(f"{what}: {description} ({status})")
        return answer

    async def prepare(self, agents: Sequence[str]) -> None:
        """See ``Bus.prepare_streams``."""
        await streams.prepare(self._ask, agents)

    async def _ask(self, subject: str, body: streams.Config) -> streams.Config:
        answer: Delivery = await self._asker.exchange(
            f"{_API}.{subject}", msgspec.json.encode(body), deadline_s=_API_S
        )
        error = streams.refusal(subject, answer.data)
        if error is not None:
            raise error
        decoded: dict[str, Any] = msgspec.json.decode(answer.data)
        return decoded
