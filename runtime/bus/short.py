"""nats-py's client with a short way in and out. Private methods of version 2.16; see the class."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nats.aio.client import Client

from runtime.bus.port import Delivery

if TYPE_CHECKING:
    from runtime.bus.wire import OnMessage

_NO_HEADERS: Mapping[str, str] = {}


class ShortClient(Client):
    """nats-py's client with a short way in and out, for the messages that are most of the work.

    In: the library puts each message into a queue from which a task per subscription takes it, a
    hand-over and a turn of the event loop each; here the reader hands it over itself, since whoever
    hears it must not wait for long anyway. Out: a message without headers, while connected, needs
    none of what four coroutines ask again each time. Everything else takes the library's way.

    Attributes:
        heard: Who hears a subscription, by its id; what is not here takes the library's way.
    """

    def __init__(self) -> None:
        super().__init__()
        self.heard: dict[int, OnMessage] = {}

    def put(self, subject: str, data: bytes, reply: str) -> bool:
        """Leave a message for the flusher. False: nothing was done, take the library's way."""
        flushing: asyncio.Queue[asyncio.Future[Any]] | None = self._flush_queue
        flusher: asyncio.Task[Any] | None = self._flusher_task  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] -- a bare Task
        if flushing is None or flusher is None or flusher.done() or not self.is_connected:
            return False
        if not subject or self._pending_data_size > self._max_pending_size:
            return False  # which refuses, or waits until there is room
        command = b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply.encode(), len(data), data)
        self._pending.append(command)
        self._pending_data_size += len(command)
        if flushing.empty():
            flushing.put_nowait(asyncio.get_running_loop().create_future())
        return True

    async def _process_msg(  # private, and the only door; the contract suite notices a change
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        heard = self.heard.get(sid)
        if heard is None:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        told = await self._told(headers) if headers else _NO_HEADERS
        try:
            await heard(
                Delivery(
                    subject=subject.decode(),
                    data=data,
                    reply=reply.decode(),
                    headers=told,
                )
            )
        except Exception as error:  # noqa: BLE001 -- as the library does: the reader goes on
            await self._error_cb(error)

    async def _told(self, headers: bytes) -> Mapping[str, str]:
        found: dict[str, str] | None = await self._process_headers(headers)  # pyright: ignore[reportUnknownMemberType] -- an untyped parameter
        return found or _NO_HEADERS
