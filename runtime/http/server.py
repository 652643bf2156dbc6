"""A small HTTP/1.1 server: GET and HEAD, one answer per connection, everything bounded.

It listens on loopback only. Whoever wants it further out puts a proxy with authentication before
it; as long as Treadle has none of its own, any other address is refused at start.
"""

import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

import anyio
from anyio.abc import Listener, SocketAttribute, SocketStream

from messages.errors import ConfigError
from runtime.log import Level, Line, describe, log

MAX_HEAD_BYTES: Final = 8192
MAX_CONNECTIONS: Final = 64
"""At once; the next one is closed without a word, so that a flood costs nothing."""
READ_S: Final = 5.0
"""How long a client may take to say what it wants."""
ANSWER_S: Final = 5.0
"""How long an answer may take to be found, and again to be sent."""

_METHODS: Final = ("GET", "HEAD")
_END: Final = b"\r\n\r\n"


@dataclass(frozen=True, kw_only=True)
class HttpRequest:
    """What was asked for.

    Attributes:
        path: Decoded, without the query.
        query: As it was written; empty where there is none.
    """

    path: str
    query: str = ""


@dataclass(frozen=True, kw_only=True)
class HttpAnswer:
    """What is sent."""

    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


Handler = Callable[[HttpRequest], Awaitable[HttpAnswer]]


class _Refused(Exception):
    """A request that is answered without asking the handler."""

    def __init__(self, status: HTTPStatus, *, allow: str = "") -> None:
        super().__init__(status.phrase)
        self.answer = HttpAnswer(
            status=status,
            body=f"{status.phrase}\n".encode(),
            headers={"Allow": allow} if allow else {},
        )


def address_of(listen: str, where: str = "http.listen") -> tuple[str, int]:
    """Host and port to listen on.

    Args:
        listen: HOST:PORT; an IPv6 host in brackets; port 0 is a free one.
        where: What to blame in the error.

    Raises:
        ConfigError: It is no address, or one that others can reach.
    """
    host, colon, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65_535:  # noqa: PLR2004 -- ports
        raise ConfigError(where, f"{listen!r} is not HOST:PORT, such as 127.0.0.1:8800")
    if host == "localhost":
        return "127.0.0.1", int(port)
    try:
        is_ours = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_ours = False
    if not is_ours:
        raise ConfigError(
            where,
            f"{host} can be reached by others, and no authentication is configured;"
            " listen on 127.0.0.1 and put a proxy before it",
        )
    return host, int(port)


class HttpServer:
    """Answers GET and HEAD with a handler.

    Guarantees: at most ``MAX_CONNECTIONS`` at once; nobody holds one longer than reading, answering
    and sending may take; a handler that fails is a 500 to that client alone.
    """

    def __init__(self, listen: str, handler: Handler) -> None:
        """Args: listen: as for ``address_of``; handler: finds the answer to one request.

        Raises:
            ConfigError: See ``address_of``.
        """
        host, port = address_of(listen)
        self._host: str = host
        self._port: int = port
        self._handler = handler
        self._listener: Listener[SocketStream] | None = None
        self._open = 0
        self.url = ""
        """Once it listens: ``http://HOST:PORT``."""

    async def open(self) -> str:
        """Listen, so that a port that is taken is known before anything else starts.

        Returns:
            The URL. Who connects waits until ``run``.

        Raises:
            ConfigError: The port is taken, or may not be used.
        """
        try:
            multi = await anyio.create_tcp_listener(local_host=self._host, local_port=self._port)
        except OSError as error:
            place = f"{self._host}:{self._port}"
            raise ConfigError("http.listen", f"cannot listen on {place}: {error}") from error
        [self._listener] = multi.listeners
        port: int = self._listener.extra(SocketAttribute.local_port)  # noqa: S610 -- no Django
        self._port = port  # a restart keeps it
        shown = f"[{self._host}]" if ":" in self._host else self._host
        self.url = f"http://{shown}:{port}"
        return self.url

    async def close(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            await self._listener.aclose()
            self._listener = None

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            ConfigError: See ``open``, where that was not done before.
        """
        if self._listener is None:
            await self.open()
        try:
            await self._serve_all()
        finally:
            with anyio.CancelScope(shield=True):
                await self.close()

    async def _serve_all(self) -> None:
        if self._listener is not None:
            await self._listener.serve(self._serve)

    async def _serve(self, stream: SocketStream) -> None:
        async with stream:
            if self._open >= MAX_CONNECTIONS:
                return
            self._open += 1
            try:
                await self._talk(stream)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
                return  # the client went away
            finally:
                self._open -= 1

    async def _talk(self, stream: SocketStream) -> None:
        method = ""
        try:
            method, request = await _read(stream)
            answer = await self._answer(request)
        except _Refused as refused:
            answer = refused.answer
            log(Line.HTTP_REFUSED, Level.DEBUG, status=int(answer.status))
        except TimeoutError:
            return  # it never said what it wants
        with anyio.move_on_after(ANSWER_S):
            await stream.send(_encoded(answer, has_body=method != "HEAD"))

    async def _answer(self, request: HttpRequest) -> HttpAnswer:
        try:
            with anyio.fail_after(ANSWER_S):
                return await self._handler(request)
        except TimeoutError:
            raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE) from None
        except Exception as error:
            log(Line.HANDLER_FAILED, Level.ERROR, subject=request.path, **describe(error))
            raise _Refused(HTTPStatus.INTERNAL_SERVER_ERROR) from error


async def _read(stream: SocketStream) -> tuple[str, HttpRequest]:
    """Method and target of one request; its headers are read and mean nothing here.

    Raises:
        TimeoutError: It did not come in time.
    """
    head = b""
    with anyio.fail_after(READ_S):
        while _END not in head:
            if len(head) > MAX_HEAD_BYTES:
                raise _Refused(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            head += await stream.receive(MAX_HEAD_BYTES)
    return _parsed(head.partition(b"\r\n")[0])


def _parsed(line: bytes) -> tuple[str, HttpRequest]:
    parts = line.decode("latin-1").split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):  # noqa: PLR2004 -- method, target, version
        raise _Refused(HTTPStatus.BAD_REQUEST)
    method, target, _ = parts
    if method not in _METHODS:
        raise _Refused(HTTPStatus.METHOD_NOT_ALLOWED, allow=", ".join(_METHODS))
    if not target.startswith("/"):
        raise _Refused(HTTPStatus.BAD_REQUEST)
    path, _, query = target.partition("?")
    return method, HttpRequest(path=unquote(path), query=query)


def _encoded(answer: HttpAnswer, *, has_body: bool) -> bytes:
    headers = {
        "Content-Type": answer.content_type,
        "Content-Length": str(len(answer.body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "Connection": "close",
        **answer.headers,
    }
    status = answer.status
    lines = [f"HTTP/1.1 {int(status)} {status.phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head + answer.body if has_body else head
