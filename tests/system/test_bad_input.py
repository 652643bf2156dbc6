"""What a stranger may send or set up wrongly, over the real server and to a real daemon."""

import json
import socket
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.acceptance.cli_process import treadle
from tests.system.daemon import Daemon, ask, listen, stream
from tests.system.test_refund import GOAL, result_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

REPLY = "treadle.replies.default.submitter"
TASK = "treadle.tasks.default.submitter"
APP = '''
from treadle import Agent, App, Ctx, read
from treadle.testing import call, finish


@read(source="x")
async def odd(ctx: Ctx[None], kind: str) -> object:
    """Return what no journal wants."""
    return {"huge": "x" * 2_000_000, "object": object(), "half": "\\ud800"}[kind]


calls = [call(odd, kind=kind) for kind in ("object", "half", "huge")]
odd_agent = Agent("odd", model="scripted", instructions="Look.", tools=[odd])
app = App(odd_agent, script=[*calls, finish("seen")])
'''


@pytest.fixture
async def daemon(data_dir: Path) -> AsyncGenerator[Daemon]:
    running = Daemon(data_dir)
    try:
        await running.up()
        yield running
    finally:
        await running.close()


async def answers(daemon: Daemon, *tasks: bytes) -> list[dict[str, Any]]:
    """What the submitter hears on its reply subject about each task, in turn."""
    heard: list[dict[str, Any]] = []
    async with daemon.client("submitter") as client:

        async def hear(message: Msg) -> None:
            heard.append(json.loads(message.data))

        await listen(client, f"{REPLY}.>", hear)
        for place, task in enumerate(tasks):
            await stream(client).publish(f"{TASK}.refund", task, timeout=5)
            with anyio.fail_after(20):
                while len(heard) <= place:  # noqa: ASYNC110 -- whoever asked looks
                    await anyio.sleep(0.02)
    return heard


async def letters(client: Client) -> list[str]:
    reply = await ask(client, "letters", {}, "operator")
    return [letter["code"] for letter in reply["letters"]]


async def test_a_bad_task_is_refused_where_it_asked_for_a_reply_and_kept(daemon: Daemon) -> None:
    good: dict[str, Any] = {"goal": GOAL, "reply_to": f"{REPLY}.x"}
    bad: list[dict[str, Any]] = [
        {**good, "goal": ""},
        {**good, "run_id": "no.such/id"},
        {**good, "limits": {"max_steps": 1_000_000}},
        {**good, "inputs": {"big": "x" * 300_000}},
    ]
    said = await answers(daemon, *(json.dumps(task).encode() for task in bad))
    assert [answer["code"] for answer in said] == [
        "BAD_TASK",
        "BAD_IDENTIFIER",
        "NOT_ALLOWED",
        "BAD_TASK",
    ]
    async with daemon.client("operator") as operator:
        assert len(await letters(operator)) == len(bad)
        listed = await ask(operator, "list", {}, "operator")
        assert listed["runs"] == []


async def test_a_good_task_is_told_its_run_and_a_reply_elsewhere_is_refused(daemon: Daemon) -> None:
    good = json.dumps({"goal": GOAL, "run_id": "r1", "reply_to": f"{REPLY}.x"}).encode()
    [said] = await answers(daemon, good)
    assert said["run_id"] == "r1"
    elsewhere = json.dumps({"goal": GOAL, "run_id": "r2", "reply_to": "treadle.rpc.x"}).encode()
    async with daemon.client("submitter") as client, daemon.client("operator") as operator:
        await stream(client).publish(f"{TASK}.refund", elsewhere, timeout=5)
        with anyio.fail_after(20):
            while not await letters(operator):  # noqa: ASYNC110 -- of another process
                await anyio.sleep(0.02)
        assert "error" in await ask(operator, "show", {"run_id": "r2"}, "operator")


async def test_results_that_no_journal_wants_lose_nothing(data_dir: Path) -> None:
    await anyio.Path(data_dir.parent / "odd_app.py").write_text(APP)
    running = Daemon(data_dir, app="odd_app:app")
    try:
        await running.up()
        async with running.client("submitter") as client, running.client("operator") as operator:
            task = json.dumps({"goal": "look", "run_id": "r1"}).encode()
            await stream(client).publish(f"{TASK}.odd", task, timeout=5)
            result = await result_of(client, "r1")
            shown = await ask(operator, "show", {"run_id": "r1"}, "operator")
    finally:
        await running.close()
    assert result["status"] == "SUCCEEDED"
    kinds = [call["outcome"] for call in shown["tool_history"]]
    assert kinds == ["error", "ok", "ok"], (
        "an object is no result; a character is replaced; huge is kept apart"
    )
    assert any("ref" in item for item in shown["evidence"])


@pytest.mark.parametrize("which", ["port", "missing", "old"])
def test_up_says_what_is_wrong_with_the_server(tmp_path: Path, which: str) -> None:
    old = tmp_path / "nats-server"
    old.write_text("#!/bin/sh\necho 'nats-server: v2.9.25'\n")
    old.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        setting = {
            "port": f"port = {taken.getsockname()[1]}",
            "missing": f'server_binary = "{tmp_path / "nowhere"}"',
            "old": f'server_binary = "{old}"',
        }[which]
        (tmp_path / "treadle.toml").write_text(f"[nats]\n{setting}\n")
        app = ("--app", "treadle.examples.refunds:app", "--model", "scripted")
        done = treadle("-o", "json", "up", *app, cwd=tmp_path)
    assert done.code == 1
    assert "NATS_SERVER" in done.out + done.err
