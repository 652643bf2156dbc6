"""The refund task decided by the real SDK over HTTP, as ``treadle up --model claude-…`` runs it."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from runtime.model.retry import ATTEMPTS
from tests.fakes.provider import (
    KEY,
    Block,
    FakeProvider,
    Refuse,
    Reply,
    Say,
    provider,
    text,
    thought,
    use,
)
from tests.system.conftest import QUICK
from tests.system.daemon import APP, Daemon, ask
from tests.system.test_refund import approve_all, publish, result_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

MODEL = ("--model", "claude-opus-5-5")
REFUND = {"order_id": "8472", "payment_id": "pay_5a2", "amount_inr": 2000}
OUTCOME = {
    "order_id": "8472",
    "refund_id": "rf_9001",
    "amount_inr": 2000,
    "explanation": "The later payment was refunded.",
}
USAGE = {"input_tokens": 40, "output_tokens": 90}
CACHED = {**USAGE, "cache_read_input_tokens": 1500, "cache_creation_input_tokens": 300}
NOTE = {"order_id": "8472", "template": "refund-created", "text": "Refund rf_9001 is pending."}


def say(*blocks: Block, **more: Any) -> Say:
    return Say(blocks=blocks, usage=CACHED, **more)


TASK: tuple[Reply, ...] = (
    say(
        thought("The order, its refunds and the policy can be read at once."),
        {"type": "redacted_thinking", "data": "EroBCkYIAxgC"},
        text("I look at the records."),
        use("lookup_order", "toolu_01A", order_id="8472"),
        use("get_refund_status", "toolu_01B", order_id="8472"),
        use("search_policy", "toolu_01C", query="duplicate capture"),
    ),
    say(thought("The later one."), use("issue_refund", "toolu_02A", **REFUND)),
    say(
        thought("It is there; the customer may know."),
        use("get_refund_status", "toolu_03A", order_id="8472"),
        use("notify_customer", "toolu_03B", **NOTE),
    ),
    say(use("finish", "toolu_04A", output=OUTCOME)),
)
CUT_REFUND = {**use("issue_refund", "toolu_00"), "input": '{"order_id": "8472", "payment_id": "pa'}


@asynccontextmanager
async def served(
    data_dir: Path, *replies: Reply, **env: str
) -> AsyncGenerator[tuple[Daemon, FakeProvider]]:
    """The daemon over a provider that says these."""
    async with provider(*replies) as fake:
        known = {**QUICK, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": fake.url, **env}
        daemon = Daemon(data_dir, env=known)
        try:
            await daemon.up(*MODEL)
            yield daemon, fake
        finally:
            await daemon.close()


async def ended(daemon: Daemon) -> tuple[dict[str, Any], list[str]]:
    """The result of one run, approved where it asks, and the effects that happened."""
    async with daemon.client("submitter") as client:
        await publish(client, "x1")
        await approve_all(daemon, "x1")
        result = await result_of(client, "x1")
    try:
        effects = await daemon.effects()
    except FileNotFoundError:
        effects = []
    return result, sorted(effect["kind"] for effect in effects)


async def shown(daemon: Daemon) -> dict[str, Any]:
    async with daemon.client("operator") as client:
        return await ask(client, "show", {"run_id": "x1"}, "operator")


async def journal(daemon: Daemon) -> str:
    async with daemon.client("operator") as client:
        answer = await client.request(
            "treadle.api.default.operator.events", b'{"run_id":"x1"}', timeout=10
        )
        return answer.data.decode()


async def test_thinking_parallel_calls_and_an_approval_refund_once(data_dir: Path) -> None:
    async with served(data_dir, *TASK) as (daemon, fake):
        result, effects = await ended(daemon)
        assert (result["status"], result["reason"]) == ("SUCCEEDED", "verified"), result
        assert effects == ["notification", "refund"]
        assert fake.broken == []
        assert len(fake.requests) == len(TASK)
        _check_conversation(fake.requests)
        usage = (await shown(daemon))["usage"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (160, 360)
        assert (usage["cache_read_tokens"], usage["cache_write_tokens"]) == (6000, 1200)
        # 160 x 4 + 360 x 20 + 6000 x 0.20 + 1200 x 5 USD per million
        assert usage["usd"] == "0.01504"
        assert all(headers["x-stainless-retry-count"] == "0" for headers in fake.headers)
        assert not any("traceparent" in headers for headers in fake.headers)
        assert await daemon.stop() == 0
        assert KEY not in await daemon.log()


def _check_conversation(requests: Sequence[dict[str, Any]]) -> None:
    """Every turn went back as it came, and each request begins with the one before."""
    for number, request in enumerate(requests):
        messages = request["messages"]
        assert messages[: 2 * number - 1] == (requests[number - 1]["messages"] if number else [])
        said = [message["content"] for message in messages if message["role"] == "assistant"]
        expected = [list(reply.blocks) for reply in TASK[:number] if isinstance(reply, Say)]
        assert said == expected


async def test_a_refund_cut_in_the_middle_is_not_executed(data_dir: Path) -> None:
    cut = say(thought("At once."), CUT_REFUND, stop_reason="max_tokens")
    async with served(data_dir, cut, *TASK) as (daemon, fake):
        result, effects = await ended(daemon)
        assert result["status"] == "SUCCEEDED", result
        assert effects == ["notification", "refund"], "once, and not by the cut call"
        told = fake.requests[1]["messages"][-1]["content"]
        assert "OUTPUT_LIMIT" in told[0]["content"]
        assert told[0]["is_error"]
        assert fake.broken == []


async def test_a_refusal_ends_the_run_and_executes_nothing(data_dir: Path) -> None:
    no = say(text("I will not."), use("issue_refund", "t1", **REFUND), stop_reason="refusal")
    async with served(data_dir, no) as (daemon, _):
        result, effects = await ended(daemon)
        assert (result["status"], result["reason"]) == ("FAILED", "refused")
        assert effects == []


BROKEN: list[tuple[Reply, str, int]] = [
    (say(use("issue_refund", "t1", **REFUND), cut=-150), "ended before the answer did", ATTEMPTS),
    (
        say(use("issue_refund", "t1", **REFUND), cut=-150, is_rude=True),
        "RemoteProtocolError",
        ATTEMPTS,
    ),
    (
        say(use("issue_refund", "t1", **REFUND), error="overloaded_error"),
        "overloaded_error",
        ATTEMPTS,
    ),
    (Refuse(status=401, type="authentication_error"), "401 authentication_error", 1),
    (Refuse(status=529, type="overloaded_error"), "529 overloaded_error", ATTEMPTS),
]
"""What comes first, what is said of it, and the requests in all; the fake has nothing after it."""


@pytest.mark.parametrize(
    ("reply", "why", "tries"), BROKEN, ids=["cut", "dropped", "error event", "401", "529"]
)
async def test_a_call_that_fails_executes_nothing_and_says_why(
    data_dir: Path, reply: Reply, why: str, tries: int
) -> None:
    async with served(data_dir, reply) as (daemon, fake):
        result, effects = await ended(daemon)
        assert (result["status"], result["reason"]) == ("FAILED", "model_unavailable")
        assert effects == []
        assert len(fake.requests) == tries, "the planner alone tries again"
        assert why in await journal(daemon)


async def test_a_key_that_leaks_into_an_error_is_in_no_record(data_dir: Path) -> None:
    leak = Refuse(status=400, type="invalid_request_error", message=f"key {KEY} is odd")
    async with served(data_dir, leak) as (daemon, _):
        result, _ = await ended(daemon)
        assert result["status"] == "FAILED"
        assert KEY not in await journal(daemon)
        assert KEY not in await daemon.log()


async def test_without_a_key_it_does_not_start_and_says_which(data_dir: Path) -> None:
    known = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC")}
    line = [sys.executable, "-m", "treadle.cli.main", "--data-dir", str(data_dir)]
    line += ["up", "--app", APP, *MODEL]
    ran = await anyio.run_process(line, env=known, check=False, stderr=subprocess.PIPE)
    assert ran.returncode == 2
    assert "ANTHROPIC_API_KEY" in ran.stderr.decode()


async def test_a_model_without_a_price_ends_unpriced_and_configured_prices_cure_it(
    data_dir: Path,
) -> None:
    name = "claude-fable-5-2"
    async with provider(*TASK) as fake:
        env = {**QUICK, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": fake.url}
        daemon = Daemon(data_dir, env=env)
        try:
            await daemon.up("--model", name)
            result, _ = await ended(daemon)
            assert (result["status"], result["reason"]) == ("FAILED", "unpriced_model")
            assert fake.requests == []
            assert f"[models.{name}]" in await daemon.log()
        finally:
            await daemon.close()
        prices = 'input_usd_per_mtok = "0.5"\noutput_usd_per_mtok = "2.5"\n'
        config = data_dir.parent / "treadle.toml"
        await anyio.Path(config).write_text(f"[models.{name}]\n{prices}")
        daemon = Daemon(data_dir.parent / "other", env=env)
        try:
            await daemon.up("--model", name)
            assert (await ended(daemon))[0]["status"] == "SUCCEEDED"
        finally:
            await daemon.close()


async def test_the_demo_runs_with_a_real_model_by_the_same_path(tmp_path: Path) -> None:
    async with provider(*TASK) as fake:
        known = {**os.environ, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": fake.url}
        line = [sys.executable, "-m", "treadle.cli.main", "demo", "--yes", *MODEL, "-o", "json"]
        line += ["--data-dir", str(tmp_path / "demo")]
        ran = await anyio.run_process(line, env=known, check=False, cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr.decode()
        told = json.loads(ran.stdout)
        assert (told["status"], told["refunds"]) == ("SUCCEEDED", 1)
        assert fake.broken == []
