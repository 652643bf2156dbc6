"""nats-py's client with a short way in and out. Private parts of version 2.16; see the classes."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nats.aio.client import Client
from nats.protocol.parser import AWAITING_CONTROL_LINE, Parser

from runtime.bus.port import Delivery

if TYPE_CHECKING:
    from nats.aio.transport import Transport

    from runtime.bus.wire import OnMessage

_NO_HEADERS: Mapping[str, str] = {}
_END = b"\r\n"
_KEPT = 64 * 1024
"""Bytes of a message that has not come whole which are looked at again with its rest."""
_HIGH_WATER = 64 * 1024
"""Bytes that the socket has not taken yet: beyond it the library's flusher waits for room."""


class ShortClient(Client):
    """nats-py's client with a short way in and out, for the messages that are most of the work.

    In: the library puts each message into a queue from which a task per subscription takes it, a
    hand-over and a turn of the event loop each; here the reader hands it over itself, since whoever
    hears it must not wait for long anyway. Out: a message without headers, while connected, needs
    none of what four coroutines ask again each time, and no task to be woken: all that one turn of
    the event loop says leaves in one write at its end. Everything else takes the library's way.

    Attributes:
        heard: Who hears a subscription, by its id; what is not here takes the library's way.
    """

    def __init__(self) -> None:
        super().__init__()
        self.heard: dict[int, OnMessage] = {}
        self._ps: Parser = ShortParser(self)
        self._is_write_due = False

    def put(self, subject: str, data: bytes, reply: str) -> bool:
        """Leave a message for the next write. False: nothing was done, take the library's way."""
        if self._status != Client.CONNECTED or not subject:
            return False
        if self._pending_data_size > self._max_pending_size:
            return False  # which refuses, or waits until there is room
        command = b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply.encode(), len(data), data)
        self._pending.append(command)
        self._pending_data_size += len(command)
        if not self._is_write_due:
            self._is_write_due = True
            _ = asyncio.get_running_loop().call_soon(self._write)
        return True

    def _write(self) -> None:
        """Everything that waits, in one piece; what may not leave now waits for the library."""
        self._is_write_due = False
        transport: Transport | None = self._transport
        if transport is None or not self._pending or self._status != Client.CONNECTED:
            return  # a reconnect sends what waits
        if self._has_backlog():
            if self._flush_queue is not None and self._flush_queue.empty():
                self._flush_queue.put_nowait(asyncio.get_running_loop().create_future())
            return
        waiting, self._pending, self._pending_data_size = self._pending, [], 0
        transport.write(b"".join(waiting))

    def _has_backlog(self) -> bool:
        writer: asyncio.StreamWriter | None = getattr(self._transport, "_io_writer", None)
        return writer is None or writer.transport.get_write_buffer_size() > _HIGH_WATER

    async def _process_msg(  # private, and the only door; the contract suite notices a change
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        told = await self._told(headers) if headers and sid in self.heard else _NO_HEADERS
        await self.hear(sid, subject, reply, data, headers, told)

    async def hear(
        self,
        sid: int,
        subject: bytes,
        reply: bytes,
        data: bytes,
        headers: bytes = b"",
        told: Mapping[str, str] = _NO_HEADERS,
    ) -> None:
        """Hand one message over, the short way if somebody hears its subscription that way."""
        heard = self.heard.get(sid)
        if heard is None:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        try:
            await heard(
                Delivery(subject=subject.decode(), data=data, reply=reply.decode(), headers=told)
            )
        except Exception as error:  # noqa: BLE001 -- as the library does: the reader goes on
            await self._error_cb(error)

    async def _told(self, headers: bytes) -> Mapping[str, str]:
        found: dict[str, str] | None = await self._process_headers(headers)  # pyright: ignore[reportUnknownMemberType] -- an untyped parameter
        return found or _NO_HEADERS


class ShortParser(Parser):
    """The library's parser, which is not asked about messages without headers.

    It tries six regular expressions and moves its buffer twice for each; those are read here at
    their place. Whatever else there is, from the first of it, is the library's: protocol lines,
    headers, and a message that is too long to be kept until its rest has come.

    Whoever hears a message may wait, and the connection may be lost and made anew meanwhile: what
    was read of the old one is dropped then.
    """

    def __init__(self, nc: "ShortClient") -> None:
        self._rest = b""
        self._connections = 0
        super().__init__(nc)  # pyright: ignore[reportUnknownMemberType] -- untyped
        self._client = nc

    def reset(self) -> None:
        """Forget what has been read: the connection is a new one."""
        super().reset()
        self._rest = b""
        self._connections += 1

    async def parse(self, data: bytes = b"") -> None:
        """Hand over all messages that are whole."""
        if not self.buf and self.state == AWAITING_CONTROL_LINE:
            connection, data, self._rest = self._connections, self._rest + data, b""
            at, is_torn = await self._whole_messages(data)
            if connection != self._connections:
                return
            data = data[at:]
            if is_torn and len(data) < _KEPT:
                self._rest = data
                return
        if data:
            await super().parse(data)

    async def _whole_messages(self, data: bytes) -> tuple[int, bool]:
        """How many bytes were messages and handed over; whether another message has begun."""
        at, connection = 0, self._connections
        while data.startswith(b"MSG ", at) and connection == self._connections:
            line_end = data.find(_END, at)
            if line_end < 0:
                return at, True
            words = data[at + 4 : line_end].split(b" ")
            if len(words) not in {3, 4} or not (words[1].isdigit() and words[-1].isdigit()):
                return at, False  # the library says what is wrong with it
            start = line_end + 2
            stop = start + int(words[-1])
            if len(data) < stop + 2:
                return at, True
            reply = words[2] if len(words) == 4 else b""  # noqa: PLR2004 -- subject, sid, reply, size
            at = stop + 2
            await self._client.hear(int(words[1]), words[0], reply, data[start:stop])
        return at, False
