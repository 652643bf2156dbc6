from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

import anyio
import pytest

from messages.errors import ConfigError
from runtime.http import server
from runtime.http.server import HttpAnswer, HttpRequest, HttpServer, address_of


async def echo(request: HttpRequest) -> HttpAnswer:
    if request.path == "/broken":
        raise RuntimeError("a defect")
    if request.path == "/slow":
        await anyio.sleep_forever()
    return HttpAnswer(body=f"{request.path}?{request.query}".encode())


@asynccontextmanager
async def serving() -> AsyncGenerator[int]:
    here = HttpServer("127.0.0.1:0", echo)
    url = await here.open()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(here.run)
        yield int(url.rpartition(":")[2])
        tasks.cancel_scope.cancel()


async def talk(port: int, *said: bytes) -> bytes:
    """What the server answers before it closes."""
    heard = b""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        for part in said:
            await stream.send(part)
        with anyio.fail_after(5), suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                heard += await stream.receive()
    return heard


async def status(port: int, *said: bytes) -> int:
    return int((await talk(port, *said)).split(b" ")[1])


async def test_a_get_is_answered() -> None:
    async with serving() as port:
        answer = await talk(port, b"GET /a%20b?x=1 HTTP/1.1\r\nHost: h\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Length: 8" in head
    assert b"Connection: close" in head
    assert body == b"/a b?x=1"


async def test_a_request_in_pieces_and_a_head() -> None:
    async with serving() as port:
        assert await status(port, b"GET / HT", b"TP/1.1\r\n", b"\r\n") == 200
        answer = await talk(port, b"HEAD /abc HTTP/1.1\r\n\r\n")
    assert b"Content-Length: 5" in answer
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"POST / HTTP/1.1\r\n\r\n", HTTPStatus.METHOD_NOT_ALLOWED),
        (b"nonsense\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / SPDY/3\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET http://else.where/ HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 9000, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
        (b"GET /broken HTTP/1.1\r\n\r\n", HTTPStatus.INTERNAL_SERVER_ERROR),
    ],
)
async def test_what_is_refused(said: bytes, expected: HTTPStatus) -> None:
    async with serving() as port:
        assert await status(port, said) == expected
        assert await status(port, b"GET / HTTP/1.1\r\n\r\n") == 200


async def test_who_says_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "READ_S", 0.05)
    async with serving() as port:
        assert await talk(port, b"GET /") == b""


async def test_an_answer_that_does_not_come_is_503(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "ANSWER_S", 0.05)
    async with serving() as port:
        assert await status(port, b"GET /slow HTTP/1.1\r\n\r\n") == 503


async def test_too_many_are_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 1)
    async with serving() as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as first:
            await first.send(b"GET /")
            await anyio.wait_all_tasks_blocked()
            assert await talk(port) == b""
        await anyio.wait_all_tasks_blocked()
        assert await status(port, b"GET / HTTP/1.1\r\n\r\n") == 200


async def test_a_port_that_is_taken_is_said_at_once() -> None:
    async with serving() as port:
        with pytest.raises(ConfigError, match="cannot listen"):
            await HttpServer(f"127.0.0.1:{port}", echo).open()


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        ("127.0.0.1:8800", ("127.0.0.1", 8800)),
        ("localhost:0", ("127.0.0.1", 0)),
        ("[::1]:80", ("::1", 80)),
        ("127.8.8.8:1", ("127.8.8.8", 1)),
    ],
)
def test_loopback_is_an_address(listen: str, expected: tuple[str, int]) -> None:
    assert address_of(listen) == expected


@pytest.mark.parametrize(
    "listen",
    ["0.0.0.0:80", "[::]:80", "10.0.0.1:80", "example.org:80", ":80", "127.0.0.1", "127.0.0.1:x",
     "127.0.0.1:70000", "[::ffff:10.0.0.1]:80"],
)  # fmt: skip
def test_no_other_address_is(listen: str) -> None:
    with pytest.raises(ConfigError):
        address_of(listen)
