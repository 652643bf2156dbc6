"""The short way in: however the bytes are torn, the messages are the ones that were sent."""

from typing import TYPE_CHECKING

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
async def test_without_a_connection_nothing_is_taken() -> None:
    assert not Recorder().put("a", b"data", "")
