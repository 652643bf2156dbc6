"""Metrics of a real daemon: asked, read off its data directory, and logged once for each run."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.system.daemon import Daemon, ask, stream
from tests.system.test_refund import result_of
from treadle import Client
from treadle.offline import open_data

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


async def test_a_daemon_and_its_data_directory_say_the_same(daemon: Daemon, data_dir: Path) -> None:
    await daemon.up()
    async with daemon.client("submitter") as client:
        for run_id, limits in (("r1", {}), ("r2", {}), ("r3", {"max_tokens": 10})):
            task = {
                "goal": "Order small-1 was charged twice.",
                "run_id": run_id,
                "inputs": {"order_id": f"small-{run_id}"},
                "limits": limits,
                "labels": {"kind": "test"},
            }
            subject = "treadle.tasks.default.submitter.refund"
            await stream(client).publish(subject, json.dumps(task).encode(), timeout=5)
        results = [await result_of(client, run_id, within_s=30) for run_id in ("r1", "r2", "r3")]
    assert [result["status"] for result in results] == ["SUCCEEDED"] * 2 + ["BUDGET_EXHAUSTED"]

    async with Client.connect(data_dir) as client:
        asked = await client.metrics(by=("agent", "model"), labels={"kind": "test"})
    async with daemon.client("operator") as raw:
        none = await ask(raw, "metrics", {"labels": {"kind": "other"}}, "operator")
    assert (none["runs"], none["loop_rate"]) == (0, None)
    assert (asked["runs"], asked["completion_rate"], asked["budget_stop_rate"]) == (3, 0.667, 0.333)
    usages = [result["usage"] for result in results]
    for name in ("model_calls", "tool_calls", "tool_errors", "tokens"):
        assert asked[name] == sum(usage[name] for usage in usages), name
    assert [(group["model"], group["runs"]) for group in asked["groups"]] == [
        ("", 1),
        ("scripted", 2),
    ]

    assert await daemon.stop() == 0
    async with open_data(data_dir) as offline:
        assert await offline.metrics(by=("agent", "model"), labels={"kind": "test"}) == asked
    ended = finished_lines(await daemon.log())
    assert {line["run_id"]: line["status"] for line in ended} == {
        "r1": "SUCCEEDED",
        "r2": "SUCCEEDED",
        "r3": "BUDGET_EXHAUSTED",
    }
    assert len(ended) == 3
    line = next(line for line in ended if line["run_id"] == "r1")
    assert line["tool_calls"] == usages[0]["tool_calls"]
    assert (line["models"], line["flags"]) == ("scripted", 0)


def finished_lines(log: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == "run_finished"]
