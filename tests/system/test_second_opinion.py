"""A fake provider of others (llmock, from PyPI) breaks off, refuses, and judges its client."""

import json
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.cases.place import ENV, Place
from tests.fakes.provider import KEY
from tests.system.daemon import Daemon

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

RUN = "second-run"
FAULTS: dict[str, list[dict[str, Any]]] = {
    "refused and cut off": [
        {"type": "fail", "status": 429, "retry_after": 1, "times": 1},
        {"type": "fail", "status": 529, "times": 1},
        {"type": "stream_fault", "kind": "truncate", "after_chunks": 3},
    ],
    "broken": [
        {"type": "fail", "status": 500, "times": 1},
        {"type": "stream_fault", "kind": "disconnect", "after_chunks": 2},
        {"type": "stream_fault", "kind": "malformed", "after_chunks": 4},
    ],
}
"""What goes wrong with the first step; a fourth attempt is the last one."""
REPLY = {"type": "reply", "tool_calls": [{"name": "lookup", "arguments": {"key": "k1"}}]}
"""Then it says something of its own."""


class Other:
    """The fake of others, as a process."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def ask(self, verb: str, path: str, body: Any = None) -> Any:
        """One request to its control."""
        data = json.dumps(body).encode()
        async with await anyio.connect_tcp("127.0.0.1", self.port) as stream:
            await stream.send(
                f"{verb} /_llmock/{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
                f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode()
                + data
            )
            answer = b""
            try:
                while True:
                    answer += await stream.receive()
            except anyio.EndOfStream:
                return json.loads(answer.split(b"\r\n\r\n", 1)[1])


@asynccontextmanager
async def other() -> AsyncGenerator[Other]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("llmock")), "serve", "--port", str(port)]
    async with await anyio.open_process(command, stdout=None, stderr=None) as process:
        fake = Other(port)
        try:
            with anyio.fail_after(30):
                while not await _is_up(fake):  # noqa: ASYNC110 -- another process
                    await anyio.sleep(0.1)
            yield fake
        finally:
            process.kill()


async def _is_up(fake: Other) -> bool:
    try:
        await fake.ask("GET", "verdict")
    except OSError:
        return False
    return True


@pytest.mark.parametrize("kind", FAULTS)
async def test_what_it_breaks_is_mended_and_it_finds_nothing_wrong_with_us(
    data_dir: Path, kind: str
) -> None:
    async with other() as fake:
        await fake.ask("POST", "scenario", {"behaviors": [*FAULTS[kind], REPLY]})
        env = {
            **ENV,
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{fake.port}/anthropic",
        }
        daemon = Daemon(data_dir, app="tests.cases.apps.b35:app", env=env, model="claude-opus-5-5")
        place = Place(daemon, "b35")
        try:
            await daemon.up()
            await place.submit(RUN)
            result = await place.result(RUN)
            failed = await place.events(RUN, "attempt_failed")
        finally:
            await daemon.close()
        assert result["status"] == "SUCCEEDED", result
        assert len(failed) == len(FAULTS[kind])
        verdict = await fake.ask("GET", "verdict")
        assert verdict["passed"], verdict
        assert verdict["faults_injected"] == len(FAULTS[kind])
