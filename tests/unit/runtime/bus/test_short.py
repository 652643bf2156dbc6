"""The short way in: however the bytes are torn, the messages are the ones that were sent."""

import asyncio
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.errors import ProtocolError

from runtime.bus.port import Delivery
from runtime.bus.short import ShortClient

if TYPE_CHECKING:
    from collections.abc import Mapping

SHORT = 1
"""The subscription that is heard the short way."""
Sent = tuple[str, str, str, bytes]


class Recorder(ShortClient):
    """Hears everything."""

    def __init__(self) -> None:
        super().__init__()
        self.got: list[tuple[str, bytes, str, Mapping[str, str]]] = []
        self.pings = 0
        self.heard[SHORT] = self._note

    async def _note(self, delivery: Delivery) -> None:
        self.got.append((delivery.subject, delivery.data, delivery.reply, delivery.headers))

    async def _process_ping(self) -> None:
        self.pings += 1

    async def read(self, *pieces: bytes) -> None:
        """As the reader does with what the socket gives."""
        for piece in pieces:
            await self._ps.parse(piece)

    def connected_anew(self) -> None:
        """As after a reconnect."""
        self._ps.reset()


payloads = st.binary(max_size=40) | st.sampled_from(
    [b"", b"\r\n", b"MSG a 1 3\r\nabc\r\n", b"PING\r\n", b"x" * 100_000]
)
names = st.from_regex(r"[a-z]{1,8}(\.[a-z]{1,8}){0,3}", fullmatch=True)
replies = st.just("") | names
plain = st.tuples(st.just("MSG"), names, replies, payloads)
headed = st.tuples(st.just("HMSG"), names, replies, payloads)
pings = st.just(("PING", "", "", b""))


def wire(kind: str, subject: str, reply: str, data: bytes) -> bytes:
    """One protocol message as a server writes it."""
    between = f"{subject} {SHORT} {reply} " if reply else f"{subject} {SHORT} "
    if kind == "PING":
        return b"PING\r\n"
    if kind == "MSG":
        return f"MSG {between}{len(data)}\r\n".encode() + data + b"\r\n"
    head = b"NATS/1.0\r\nA: b\r\n\r\n"
    return f"HMSG {between}{len(head)} {len(head) + len(data)}\r\n".encode() + head + data + b"\r\n"


@given(
    sent=st.lists(plain | headed | pings, max_size=12),
    cuts=st.lists(st.integers(0, 30) | st.integers(0, 70_000), max_size=30),
)
def test_torn_anywhere_nothing_is_lost_or_changed(sent: list[Sent], cuts: list[int]) -> None:
    client, stream = Recorder(), b"".join(wire(*each) for each in sent)
    pieces: list[bytes] = []
    for cut in cuts:
        pieces.append(stream[:cut])
        stream = stream[cut:]
    anyio.run(client.read, *pieces, stream)
    assert client.got == [
        (subject, data, reply, {"A": "b"} if kind == "HMSG" else {})
        for kind, subject, reply, data in sent
        if kind != "PING"
    ]
    assert client.pings == sum(kind == "PING" for kind, *_ in sent)


@pytest.mark.anyio
async def test_a_new_connection_does_not_begin_with_the_rest_of_the_old() -> None:
    client = Recorder()
    await client.read(b"MSG a 1 10\r\nhalf")
    client.connected_anew()
    await client.read(wire("MSG", "b", "", b"whole"))
    assert client.got == [("b", b"whole", "", {})]


@pytest.mark.anyio
async def test_a_connection_lost_while_a_message_is_heard_leaves_nothing_behind() -> None:
    """Its hearer waits, and by the time it goes on the rest of the chunk is of another life."""
    client = Recorder()

    async def lose(delivery: Delivery) -> None:
        client.connected_anew()
        await anyio.lowlevel.checkpoint()
        await client._note(delivery)

    client.heard[SHORT] = lose
    await client.read(wire("MSG", "a", "", b"1") + wire("MSG", "a", "", b"2") + b"MSG a 1 9\r\nto")
    client.heard[SHORT] = client._note
    await client.read(wire("MSG", "b", "", b"new"))
    assert client.got == [("a", b"1", "", {}), ("b", b"new", "", {})]


@pytest.mark.anyio
@pytest.mark.parametrize("line", [b"MSG a x 1\r\nx\r\n", b"MSG a\r\n", b"MSG a 1 r 9 9\r\n"])
async def test_what_is_no_message_is_refused_as_the_library_does(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        await Recorder().read(line)


class Pipe:
    """A transport that has taken so many bytes and not sent them."""

    def __init__(self, backlog: int) -> None:
        self.written: list[bytes] = []
        self._io_writer = self
        self.transport = self
        self._backlog = backlog

    def get_write_buffer_size(self) -> int:
        return self._backlog

    def write(self, data: bytes) -> None:
        self.written.append(data)


def connected(backlog: int) -> tuple[Recorder, Pipe]:
    """A client that believes to be connected over a pipe."""
    client, pipe = Recorder(), Pipe(backlog)
    client._status = Recorder.CONNECTED
    client._transport = cast("Any", pipe)
    client._max_pending_size = 1024
    client._flush_queue = asyncio.Queue()
    return client, pipe


@pytest.mark.anyio
async def test_what_one_turn_says_leaves_in_one_write_in_order() -> None:
    client, pipe = connected(0)
    assert client.put("a", b"1", "")
    assert client.put("b", b"2", "r")
    assert pipe.written == []
    await anyio.lowlevel.checkpoint()
    assert pipe.written == [b"PUB a  1\r\n1\r\nPUB b r 1\r\n2\r\n"]
    assert (client._pending, client.pending_data_size) == ([], 0)


@pytest.mark.anyio
async def test_what_the_socket_does_not_take_waits_for_the_library() -> None:
    client, pipe = connected(1_000_000)
    assert client.put("a", b"1", "")
    await anyio.lowlevel.checkpoint()
    assert (pipe.written, len(client._pending)) == ([], 1)
    assert client._flush_queue is not None
    assert client._flush_queue.qsize() == 1, "its flusher is woken"


@pytest.mark.anyio
async def test_when_too_much_waits_the_library_is_asked() -> None:
    client, _ = connected(1_000_000)
    assert client.put("a", b"x" * 2000, "")
    assert not client.put("a", b"y", "")


@pytest.mark.anyio
async def test_without_a_connection_nothing_is_taken() -> None:
    assert not Recorder().put("a", b"data", "")
