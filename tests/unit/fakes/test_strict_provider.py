"""The fake provider turns down what the real one would: known-bad requests, sent over HTTP."""

import copy
import json
from typing import Any

import anyio
import pytest

from tests.fakes.provider import KEY, Say, provider, text, thought, use

pytestmark = pytest.mark.anyio

Body = dict[str, Any]
TOOL: Body = {"name": "look", "description": "Look.", "input_schema": {"type": "object"}}


def result(id: str, **more: Any) -> Body:  # noqa: A002 -- the provider's word
    return {"type": "tool_result", "tool_use_id": id, "content": "ok", **more}


def good() -> Body:
    """A whole conversation: two calls, two results, a thought."""
    said = [thought("so"), text("I look."), use("look", "t1", key="a"), use("look", "t2", key="b")]
    return {
        "model": "claude-opus-5-5",
        "max_tokens": 100,
        "stream": True,
        "system": "Do it.",
        "tools": [TOOL],
        "messages": [
            {"role": "user", "content": [text("go")]},
            {"role": "assistant", "content": said},
            {"role": "user", "content": [result("t1"), result("t2")]},
        ],
    }


def bad(path: str, value: Any) -> Body:
    """The good one with one place changed; ``...``: taken out."""
    body = copy.deepcopy(good())
    *way, last = [int(step) if step.isdecimal() else step for step in path.split(".")]
    place: Any = body
    for step in way:
        place = place[step]
    if value is ...:
        del place[last]
    elif last == len(place):
        place.append(value)
    else:
        place[last] = value
    return body


KNOWN_BAD = {
    "a result is missing": bad("messages.2.content", [result("t1")]),
    "a result too many": bad("messages.2.content.2", result("t3")),
    "results in another order": bad("messages.2.content", [result("t2"), result("t1")]),
    "a result twice": bad("messages.2.content", [result("t1"), result("t1"), result("t2")]),
    "text before the results": bad("messages.2.content", [text("x"), result("t1"), result("t2")]),
    "a call without any results": bad("messages.2", ...),
    "results come too late": bad("messages.2.content", [text("wait")]),
    "an id twice": bad("messages.1.content.3.id", "t1"),
    "an id with a dot": bad("messages.1.content.2.id", "t.1"),
    "a name with a dot": bad("messages.1.content.2.name", "a.look"),
    "a name that is too long": bad("messages.1.content.2.name", "n" * 129),
    "a tool's name with a space": bad("tools.0.name", "look up"),
    "two tools of a name": bad("tools.1", TOOL),
    "a tool without an object": bad("tools.0.input_schema", {"type": "string"}),
    "calls without tools": bad("tools", ...),
    "input that is text": bad("messages.1.content.2.input", '{"key": "a"}'),
    "input that is a list": bad("messages.1.content.2.input", []),
    "a field of ours in a call": bad("messages.1.content.2.unreadable", "why"),
    "empty text": bad("messages.0.content.0.text", ""),
    "blank text": bad("messages.1.content.1.text", " \n"),
    "blank text in a result": bad("messages.2.content.0.content", [text(" ")]),
    "a message without content": bad("messages.1.content", []),
    "two user messages": bad("messages.3", {"role": "user", "content": [text("more")]}),
    "an assistant first": bad("messages.0.role", "assistant"),
    "prefill": bad("messages.3", {"role": "assistant", "content": [text("The answer is")]}),
    "a thought that was changed": bad("messages.1.content.0.thinking", "sooo"),
    "a thought without its signature": bad("messages.1.content.0.signature", ""),
    "a temperature": bad("temperature", 1.0),
    "a parameter nobody knows": bad("retries", 2),
    "no room for an answer": bad("max_tokens", 0),
    "a forced choice": bad("tool_choice", {"type": "any"}),
    "five ends of the cache": bad(
        "tools", [{**TOOL, "name": f"t{n}", "cache_control": {}} for n in range(5)]
    ),
    "no messages": bad("messages", []),
    "messages that are none": bad("messages", ["go"]),
}


async def send(url: str, body: bytes, key: str = KEY) -> tuple[int, str]:
    """One request without any SDK, which might mend it."""
    host, port = url.removeprefix("http://").split(":")
    async with await anyio.connect_tcp(host, int(port)) as stream:
        head = (
            f"POST /v1/messages HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {key}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        await stream.send(head.encode() + body)
        answer = b""
        while b"}" not in answer and b"message_stop" not in answer:
            answer += await stream.receive()
    return int(answer.split(b" ", 2)[1]), answer.decode()


async def test_the_good_request_is_taken() -> None:
    async with provider(Say(blocks=[text("ok")])) as fake:
        assert (await send(fake.url, json.dumps(good()).encode()))[0] == 200
        assert fake.broken == []


@pytest.mark.parametrize("name", KNOWN_BAD)
async def test_a_bad_request_is_refused_and_says_why(name: str) -> None:
    async with provider(Say(blocks=[text("ok")])) as fake:
        status, answer = await send(fake.url, json.dumps(KNOWN_BAD[name]).encode())
        assert status == 400, answer
        assert "invalid_request_error" in answer
        assert len(fake.broken) == 1


@pytest.mark.parametrize("body", [b"{", b"[]", b"null", b'"go"', b"\xff"])
async def test_what_is_no_request_at_all_is_refused(body: bytes) -> None:
    async with provider() as fake:
        assert (await send(fake.url, body))[0] == 400


async def test_a_changed_prefix_is_refused() -> None:
    async with provider(*[Say(blocks=[text("ok")])] * 2) as fake:
        first = {**good(), "messages": good()["messages"][:1]}
        assert (await send(fake.url, json.dumps(first).encode()))[0] == 200
        other = bad("system", "Do something else.")
        assert (await send(fake.url, json.dumps(other).encode()))[0] == 400


async def test_a_wrong_key_is_refused() -> None:
    async with provider() as fake:
        assert (await send(fake.url, json.dumps(good()).encode(), key="other"))[0] == 401
