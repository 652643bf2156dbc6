"""Where a case runs: its app in a real ``treadle up``, and what people and the downstream see."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from tests.cases.apps import downstream
from tests.fakes.provider import KEY, FakeProvider, Reply, Say, provider
from tests.fakes.rules import broken_rule
from tests.system.conftest import QUICK
from tests.system.daemon import Daemon, stream
from tests.system.test_refund import result_of
from treadle import Client

ROOT = Path(__file__).parents[2]
ENV = {**QUICK, "PYTHONPATH": str(ROOT)}
"""A daemon of a test finds the apps that lie among the tests."""
PATIENCE_S = 30.0
Json = dict[str, Any]


class Place:
    """One case in a data directory of its own."""

    def __init__(self, daemon: Daemon, agent: str) -> None:
        self.daemon = daemon
        self.agent = agent

    @property
    def data_dir(self) -> Path:
        return self.daemon.data_dir

    # ------------------------------------------------------------------ people
    async def submit(self, run_id: str, *, variant: str = "a", **more: object) -> None:
        """Publish a task with a plain NATS client."""
        task = {"goal": "Do it.", "run_id": run_id, "inputs": {"variant": variant}, **more}
        async with self.daemon.client("submitter") as client:
            await stream(client).publish(
                f"treadle.tasks.default.submitter.{self.agent}",
                json.dumps(task).encode(),
                timeout=5,
            )

    async def result(self, run_id: str) -> Json:
        """The terminal result, off the results stream."""
        async with self.daemon.client("submitter") as client:
            return await result_of(client, run_id, within_s=PATIENCE_S)

    @asynccontextmanager
    async def client(self, user: str | None = None) -> AsyncGenerator[Client]:
        async with Client.connect(self.data_dir, user=user) as client:
            yield client

    async def show(self, run_id: str) -> Json:
        async with self.client() as client:
            return await client.show(run_id)

    async def until(self, run_id: str, status: str) -> Json:
        """``show`` once the run has that status."""
        with anyio.fail_after(PATIENCE_S):
            async with self.client() as client:
                while True:
                    listed = await client.list(limit=50)
                    if any(run["run_id"] == run_id for run in listed["runs"]):
                        shown = await client.show(run_id)
                        if shown["status"] == status:
                            return shown
                    await anyio.sleep(0.02)

    async def events(self, run_id: str, *kinds: str) -> list[Json]:
        """Events of these kinds, in order."""
        async with self.client() as client:
            page = await client.events(run_id)
        return [event for event in page["events"] if not kinds or event["kind"] in kinds]

    # ------------------------------------------------------------------ the downstream
    async def happened(self) -> list[Json]:
        """What the tools' own file says."""
        return await anyio.to_thread.run_sync(downstream.lines, self.data_dir)

    async def until_happened(self, count: int) -> list[Json]:
        with anyio.fail_after(PATIENCE_S):
            while len(await self.happened()) < count:  # noqa: ASYNC110 -- another process's file
                await anyio.sleep(0.01)
        return await self.happened()

    async def hold(self, name: str) -> None:
        """A tool waits at this name from now on."""
        await anyio.Path(self.data_dir / f"hold-{name}").touch()

    async def let_go(self, name: str) -> None:
        await anyio.Path(self.data_dir / f"hold-{name}").unlink()

    # ------------------------------------------------------------------ the model
    async def requests(self, goal: str = "Do it.") -> list[Json]:
        """What the model was sent, each request checked against the provider's rules."""
        lines = await anyio.to_thread.run_sync(downstream.lines, self.data_dir, downstream.REQUESTS)
        found = [line for line in lines if line["goal"] == goal]
        bodies: list[Json] = []
        for line in found:
            body = _body(line)
            assert broken_rule(body, bodies) == ""
            bodies.append(body)
        return found

    async def restart(self, how: str) -> None:
        """End the process, with or without a word, and start it again."""
        if how == "kill":
            await self.daemon.kill()
        else:
            assert await self.daemon.stop() == 0
        await self.daemon.up()


def said(turn: Json, **more: Any) -> Say:
    """A turn of a case as the provider says it."""
    return Say(blocks=turn["content"], stop_reason=turn["stop_reason"], usage=turn["usage"], **more)


@asynccontextmanager
async def served(
    data_dir: Path,
    agent: str,
    *replies: Reply | Callable[[], Reply],
    model: str | None = "claude-opus-5-5",
    apps: str = "tests.cases.apps",
) -> AsyncGenerator[tuple[Place, FakeProvider]]:
    """The app of a case, or of another test, in a daemon over a provider that says these."""
    async with provider(*replies) as fake:
        env = {**ENV, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": fake.url}
        daemon = Daemon(data_dir, app=f"{apps}.{agent}:app", env=env, model=model)
        try:
            await daemon.up()
            yield Place(daemon, agent), fake
        finally:
            await daemon.close()


def _body(line: Json) -> Json:
    """The request as a provider would get it; a final turn has no tools and calls none."""
    tools = [] if line["is_final"] else [{"name": "t", "input_schema": {"type": "object"}}]
    return {"messages": line["messages"], "max_tokens": 1, "stream": True, "tools": tools}


def results(request: Json) -> list[Json]:
    """The tool results of a request's newest message, their content decoded."""
    blocks = [b for b in request["messages"][-1]["content"] if b["type"] == "tool_result"]
    return [{**block, "content": json.loads(block["content"])} for block in blocks]
