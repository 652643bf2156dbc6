"""One HTTP exchange with the payments service that says what is known when it fails.

There are three ways it ends, and a caller that moves money must tell them apart: an answer came;
nothing was sent (``NotSentError``); or something was sent and no answer came (``NoReplyError``).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import anyio
from anyio.abc import SocketStream

_MAX_REPLY: Final = 1024 * 1024
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: |$)")
_LENGTH: Final = re.compile(rb"\ncontent-length: *([0-9]{1,9}) *(?:\r|$)", re.IGNORECASE)


class NotSentError(Exception):
    """No byte of the request left this process: surely nothing happened."""


class NoReplyError(Exception):
    """The request may have been carried out: its answer was lost, cut short or late."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """A whole answer."""

    status: int
    body: bytes


async def exchange(
    url: str,
    method: str,
    target: str,
    *,
    body: bytes = b"",
    headers: Mapping[str, str],
    deadline_s: float,
) -> Reply:
    """Send one request over a connection of its own and read the answer.

    Args:
        url: where the service listens, ``http://HOST:PORT``.
        method: GET or POST.
        target: path and query, quoted.
        body: JSON, or nothing.
        headers: names and values without control characters.
        deadline_s: for everything together.

    Raises:
        NotSentError: there was no connection to send it on.
        NoReplyError: no whole answer came in time.
    """
    head = [f"{method} {target} HTTP/1.1", f"Host: {urlsplit(url).netloc}", "Connection: close"]
    fields = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
    head += [f"{name}: {value}" for name, value in fields.items()]
    request = "\r\n".join([*head, "", ""]).encode("ascii") + body
    is_connected = False
    try:
        with anyio.fail_after(deadline_s):
            async with await _connect(url) as stream:
                is_connected = True
                await stream.send(request)
                return _parse(await _read(stream))
    except TimeoutError as error:
        msg = f"no answer within {deadline_s:g} s"
        raise (NoReplyError(msg) if is_connected else NotSentError(msg)) from error
    except anyio.BrokenResourceError as error:
        msg = "the connection broke"
        raise NoReplyError(msg) from error


async def _connect(url: str) -> SocketStream:
    place = urlsplit(url)
    try:
        return await anyio.connect_tcp(place.hostname or "", place.port or 0)
    except OSError as error:
        msg = f"no connection to {place.netloc}"
        raise NotSentError(msg) from error


async def _read(stream: SocketStream) -> bytes:
    """Everything until the service closes, which it does after each answer."""
    received = bytearray()
    while len(received) <= _MAX_REPLY:
        try:
            received += await stream.receive()
        except anyio.EndOfStream:
            return bytes(received)
    msg = f"an answer of more than {_MAX_REPLY} bytes"
    raise NoReplyError(msg)


def _parse(received: bytes) -> Reply:
    head, _, body = received.partition(b"\r\n\r\n")
    status, length = _STATUS_LINE.match(head), _LENGTH.search(head)
    if status is None or length is None or int(length[1]) != len(body):
        msg = "the connection was closed before the answer was whole"
        raise NoReplyError(msg)
    return Reply(status=int(status[1]), body=body)
