"""``treadle up`` as a real process of a test, and a raw NATS client beside it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import Process
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext

APP = "treadle.examples.refunds:app"
READY_S = 30.0
CLOSE_S = 5.0


class Daemon:
    """One data directory and the process that serves it now."""

    def __init__(
        self,
        data_dir: Path,
        *,
        app: str = APP,
        env: dict[str, str] | None = None,
        name: str = "up",
        model: str | None = "scripted",
        ready_s: float = READY_S,
    ) -> None:
        self.data_dir = data_dir
        self._app = app
        self._model = () if model is None else ("--model", model)
        self._env = {**os.environ, "TREADLE_LOG": "json", **(env or {})}
        self._process: Process | None = None
        self._lives = 0
        self._name = name
        self._ready_s = ready_s

    async def up(self, *more: str) -> None:
        """Start and wait until it says that it is ready."""
        self._lives += 1
        file = self.data_dir.parent / f"{self._name}-{self._lives}.log"
        async with await anyio.open_file(file, "wb") as log:
            self._process = await anyio.open_process(
                [
                    *(sys.executable, "-m", "treadle.cli.main"),
                    *("--data-dir", str(self.data_dir)),
                    *("up", "--app", self._app, *self._model, *more),
                ],
                stdin=None,
                stdout=log.wrapped,
                stderr=log.wrapped,
                env=self._env,
                cwd=self.data_dir.parent,
            )
        with anyio.fail_after(self._ready_s):
            while not await self._is_ready():
                if self._process.returncode is not None:
                    raise AssertionError(f"it ended: {await self.log()}")
                await anyio.sleep(0.02)

    async def _is_ready(self) -> bool:
        file = self.data_dir.parent / f"{self._name}-{self._lives}.log"
        return "\nready nats://" in await anyio.Path(file).read_text()

    @property
    def process(self) -> Process:
        assert self._process is not None, "it was not started"
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def kill(self) -> None:
        """SIGKILL: no drain, no goodbye."""
        if self.is_running:
            self.process.kill()
        await self.process.wait()

    async def stop(self) -> int:
        """SIGTERM: drain."""
        self.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(40):
            return await self.process.wait()

    async def connection(self) -> dict[str, Any]:
        return json.loads(await anyio.Path(self.data_dir / "connection.json").read_bytes())

    async def log(self) -> str:
        """What every life so far has logged."""
        names = [
            self.data_dir.parent / f"{self._name}-{life + 1}.log" for life in range(self._lives)
        ]
        return "\n".join([await anyio.Path(name).read_text() for name in names])

    @asynccontextmanager
    async def client(self, name: str) -> AsyncGenerator[Client]:
        """A plain NATS client as one of connection.json's users."""
        connection = await self.connection()
        user = connection["users"][name]
        async with raw_client(
            connection["url"], user["user"], user["password"], user["inbox_prefix"]
        ) as client:
            yield client

    @asynccontextmanager
    async def observer(self) -> AsyncGenerator[Client]:
        """A client with the daemon's own rights, which may hear everything."""
        connection = await self.connection()
        state = json.loads(await anyio.Path(self.data_dir / "nats" / "state.json").read_bytes())
        password = state["passwords"]["daemon"]
        async with raw_client(
            connection["url"], "daemon", password, "_INBOX_daemon.test"
        ) as client:
            yield client

    async def effects(self) -> list[dict[str, Any]]:
        """What the downstream's own file says happened."""
        lines = (await anyio.Path(self.data_dir / "payments.jsonl").read_bytes()).splitlines()
        return [json.loads(line) for line in lines]

    async def close(self) -> None:
        """End the daemon, and the payments service that outlives it."""
        if self.is_running:
            await self.kill()
        try:
            place = json.loads(await anyio.Path(self.data_dir / "payments.json").read_bytes())
            os.kill(place["pid"], signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            pass


@asynccontextmanager
async def raw_client(url: str, user: str, password: str, inbox: str) -> AsyncGenerator[Client]:
    client = Client()
    try:
        await client.connect(
            url,
            user=user,
            password=password,
            inbox_prefix=inbox.encode(),
            allow_reconnect=False,
            error_cb=_ignore,
        )
        yield client
    finally:
        # Shielded: a test that cancels the block would else skip all of this.
        with anyio.move_on_after(CLOSE_S, shield=True):
            transport = client._transport  # left open by nats-py if its server is killed
            await client.close()
            if transport is not None:
                transport.close()
            await _end_tasks_of(client)


async def _end_tasks_of(client: Client) -> None:
    """nats-py leaves tasks behind when its server was killed; they would outlive the test."""
    for task in asyncio.all_tasks():
        frame = getattr(task.get_coro(), "cr_frame", None)
        owner = frame.f_locals.get("self") if frame is not None else None
        if owner is client or getattr(owner, "_conn", None) is client:
            task.cancel()
    await anyio.lowlevel.checkpoint()
    await anyio.lowlevel.checkpoint()


async def listen(client: Client, subject: str, heard: Callable[[Msg], Awaitable[None]]) -> None:
    """Hear a subject from now on."""
    await client.subscribe(subject, cb=heard)  # pyright: ignore[reportUnknownMemberType]
    await client.flush()


def stream(client: Client) -> JetStreamContext:
    """JetStream of a client."""
    return client.jetstream()  # pyright: ignore[reportUnknownMemberType]


async def _ignore(_error: Exception) -> None:
    """A killed server is what these tests are about."""


async def ask(client: Client, verb: str, body: dict[str, Any], principal: str) -> dict[str, Any]:
    """One request to the public API."""
    answer = await client.request(
        f"treadle.api.default.{principal}.{verb}", json.dumps(body).encode(), timeout=10
    )
    return json.loads(answer.data)
