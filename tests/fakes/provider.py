"""A small Messages API over HTTP: says what a test wrote down, and turns down a broken request.

What is strict here is what a conversation must keep: roles, pairs of calls and results, text that
is not blank, signed thinking that comes back as it went out, a prefix that does not change.
"""

import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.fakes.rules import broken_rule

Block = dict[str, Any]
KEY = "sk-test-canary"
_STREAM = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
DEFAULT_USAGE = {"input_tokens": 1000, "output_tokens": 50}


@dataclass(frozen=True, kw_only=True)
class Say:
    """One answer.

    Attributes:
        blocks: Content; ``input`` of a tool_use may be text, which is then sent as it is.
        stop_reason: None: tool_use if there is a call, else end_turn.
        usage: As the provider counts; None: nothing is said of it.
        cut: Bytes after which the connection ends; negative: from the end.
        is_rude: It ends as a crash does, not with the end of a body.
        stall: Nothing comes after the first event.
        trickle_s: Waited before each piece.
        garbage: Sent as an event in place of the first delta.
        error: Type of an ``error`` event in place of the end.
    """

    blocks: Sequence[Block] = ()
    stop_reason: str | None = None
    usage: dict[str, int] | None = field(default_factory=lambda: dict(DEFAULT_USAGE))
    cut: int | None = None
    is_rude: bool = False
    stall: bool = False
    trickle_s: float = 0.0
    garbage: str = ""
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Refuse:
    """An HTTP error; a ``body`` that is text is sent as it is."""

    status: int
    type: str = ""
    code: str = ""
    message: str = "no"
    body: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


Reply = Say | Refuse
Replies = Sequence[Reply | Callable[[], Reply]]
"""A reply that hangs on the time of its request is made then."""


class FakeProvider:
    """Plays its replies in order, whoever asks.

    Attributes:
        url: For ``ANTHROPIC_BASE_URL``.
        requests: Bodies, in order.
        headers: Of each request, names in lower case.
        times: When each came, in epoch seconds.
        connections: Opened so far.
        left: Connections whose client went away in the middle of an answer.
        broken: Rules that requests broke; each such request got its 400.
    """

    def __init__(self, replies: Replies, key: str = KEY) -> None:
        self.url = ""
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.broken: list[str] = []
        self.connections = 0
        self.left = 0
        self._replies = list(replies)
        self._key = key

    def reply_to(self, body: dict[str, Any], headers: dict[str, str]) -> Reply:
        """What one request gets."""
        before, self.requests = self.requests, [*self.requests, body]
        self.headers.append(headers)
        self.times.append(time.time())
        if headers.get("authorization") != f"Bearer {self._key}":
            return Refuse(status=401, type="authentication_error", message="invalid bearer token")
        if rule := broken_rule(body, before):
            self.broken.append(rule)
            return Refuse(status=400, type="invalid_request_error", message=rule)
        if body.get("tool_choice") == {"type": "none"}:  # nobody's turn: it is to be summed up
            return Say(blocks=(text("Some keys were looked up."),))
        if not self._replies:
            return Refuse(status=500, type="api_error", message="the script is over")
        reply = self._replies.pop(0)
        return reply() if callable(reply) else reply

    def _heard(self, sent: bytes, headers: dict[str, str]) -> Reply:
        body: Any = None
        with suppress(ValueError):
            body = json.loads(sent)
        if not isinstance(body, dict):
            self.broken.append("the body is no JSON object")
            return Refuse(status=400, type="invalid_request_error", message=self.broken[-1])
        return self.reply_to(cast("dict[str, Any]", body), headers)

    async def serve(self, stream: ByteStream) -> None:
        """One connection, for as many requests as it is used for."""
        self.connections += 1
        buffered = BufferedByteReceiveStream(stream)
        try:
            while True:
                head = (await buffered.receive_until(b"\r\n\r\n", 65_536)).decode()
                lines = [line.split(": ", 1) for line in head.split("\r\n")[1:]]
                headers = {name.lower(): value for name, value in lines}
                sent = await buffered.receive_exactly(int(headers["content-length"]))
                await self._answer(stream, self._heard(sent, headers))
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError):
            pass  # the client left, or the fake cut it off
        finally:
            with anyio.CancelScope(shield=True):
                await stream.aclose()

    async def _answer(self, stream: ByteStream, reply: Reply) -> None:
        if isinstance(reply, Refuse):
            await stream.send(_refusal(reply, len(self.requests)))
            return
        events = [_event(event) for event in _events(reply, len(self.requests))]
        await stream.send(_head(200, len(self.requests), _STREAM))
        if reply.stall:
            await stream.send(_chunk(events[0]))
            await self._wait_for_goodbye(stream)
        body = b"".join(events)[: reply.cut]
        for start in range(0, len(body), 211):  # never at the border of an event
            await anyio.sleep(reply.trickle_s)
            await stream.send(_chunk(body[start : start + 211]))
        if reply.is_rude:
            raise anyio.EndOfStream
        await stream.send(b"0\r\n\r\n")

    async def _wait_for_goodbye(self, stream: ByteStream) -> None:
        try:
            while True:
                await stream.receive()
        finally:
            self.left += 1


@asynccontextmanager
async def provider(
    *replies: Reply | Callable[[], Reply], key: str = KEY
) -> AsyncGenerator[FakeProvider]:
    """A fake that is up while the block runs."""
    fake = FakeProvider(replies, key)
    async with listening(fake):
        yield fake


@asynccontextmanager
async def listening(fake: FakeProvider) -> AsyncGenerator[None]:
    """It can be reached at its ``url`` while the block runs."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - not of Django
        fake.url = f"http://127.0.0.1:{port}"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, fake.serve)
            yield
            tasks.cancel_scope.cancel()


def thought(text: str) -> Block:
    """A thinking block with a signature that ``rules`` can check."""
    return {"type": "thinking", "thinking": text, "signature": f"sig:{len(text)}:EqQBCkYIAxgC/+=="}


def use(tool: str, id: str, /, **arguments: Any) -> Block:  # noqa: A002 - the provider's word
    """A call."""
    return {"type": "tool_use", "id": id, "name": tool, "input": arguments}


def text(words: str) -> Block:
    """Words."""
    return {"type": "text", "text": words}


# ------------------------------------------------------------------ bytes
def _head(status: int, number: int, more: dict[str, str]) -> bytes:
    headers = {"request-id": f"req_{number:02d}", **more}
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def _refusal(reply: Refuse, number: int) -> bytes:
    error: dict[str, Any] = {"type": reply.type, "message": reply.message}
    if reply.code:
        error["details"] = {"error_code": reply.code}
    body = reply.body
    if body is None:
        body = json.dumps({"type": "error", "error": error})
    more = {"content-type": "application/json", "content-length": str(len(body.encode()))}
    return _head(reply.status, number, {**more, **reply.headers}) + body.encode()


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def _event(event: dict[str, Any] | str) -> bytes:
    if isinstance(event, str):
        return f"event: content_block_delta\ndata: {event}\n\n".encode()
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _events(reply: Say, number: int) -> list[dict[str, Any] | str]:
    blocks = reply.blocks
    is_call = any(block["type"] == "tool_use" for block in blocks)
    message: dict[str, Any] = {
        "id": f"msg_{number:02d}",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }
    end: dict[str, Any] = {"type": "message_delta"}
    end["delta"] = {"stop_reason": reply.stop_reason or ("tool_use" if is_call else "end_turn")}
    if reply.usage is not None:
        message["usage"] = {**reply.usage, "output_tokens": 1}
        end["usage"] = {"output_tokens": reply.usage["output_tokens"]}
    events: list[dict[str, Any] | str] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(blocks):
        events += _block_events(index, block)
    if reply.garbage:
        events.insert(2, reply.garbage)
    if reply.error:
        failure = {"type": reply.error, "message": "in the middle"}
        return [*events, {"type": "error", "error": failure}]
    return [*events, {"type": "ping"}, end, {"type": "message_stop"}]


def _block_events(index: int, block: Block) -> list[dict[str, Any]]:
    """A block as it streams: its frame, its text in pieces, its end."""
    frame, deltas = dict(block), list[dict[str, Any]]()
    match block["type"]:
        case "text":
            frame["text"] = ""
            deltas = [{"type": "text_delta", "text": part} for part in _parts(block["text"])]
        case "thinking":
            frame |= {"thinking": "", "signature": ""}
            parts = _parts(block["thinking"])
            deltas = [{"type": "thinking_delta", "thinking": part} for part in parts]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "tool_use":
            frame["input"] = {}
            written = block["input"]
            written = written if isinstance(written, str) else json.dumps(written)
            parts = _parts(written)
            deltas = [{"type": "input_json_delta", "partial_json": part} for part in parts]
        case _:
            pass  # whatever it is, it comes whole
    start = {"type": "content_block_start", "index": index, "content_block": frame}
    grown = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [start, *grown, {"type": "content_block_stop", "index": index}]


def _parts(text: str) -> list[str]:
    return re.findall(r"(?s).{1,7}", text)
