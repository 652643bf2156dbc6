"""How fast tasks become durable runs: apart from driving them, since it is another path.

A hold lies on everything, so that nothing is driven meanwhile. Through the stream a task is synced
by JetStream when it is published, read by the gateway and created in the ledger; through the API it
is created and answered.
"""

from collections.abc import Callable, Coroutine
from statistics import median
from typing import Any

import anyio
import msgspec

from bench.stage import AGENT, TENANT, Stage, Stopwatch
from messages import subjects
from messages.task import Task
from runtime.bus import client
from runtime.bus.bus import WireBus

PRINCIPAL = "submitter"
TASKS = 32
"""Handed in at once."""
_LONGEST_S = 60.0
_encode = msgspec.json.Encoder().encode

Way = Callable[[WireBus, str], Coroutine[Any, Any, None]]


async def intake(stage: Stage, rounds: int) -> dict[str, float]:
    """Medians of runs accepted per second, 32 tasks at once, each way."""
    await stage.hold()
    found: dict[str, list[float]] = {"api": [], "stream": []}
    async with client.connect(stage.url, stage.users[PRINCIPAL]) as bus:
        for _ in range(rounds):
            found["api"].append(await _accepted(stage, bus, _by_api))
            found["stream"].append(await _accepted(stage, bus, _by_stream))
    return {f"{way}_runs_per_s": round(median(values), 1) for way, values in found.items()}


async def _accepted(stage: Stage, bus: WireBus, way: Way) -> float:
    watch = Stopwatch()
    with anyio.fail_after(_LONGEST_S):
        async with anyio.create_task_group() as tasks:
            for _ in range(TASKS):
                tasks.start_soon(way, bus, stage.ids.new_id("run"))
    return TASKS / watch.read().wall_s


async def _by_api(bus: WireBus, run_id: str) -> None:
    body = {"agent": AGENT, "goal": "look around", "run_id": run_id}
    subject = subjects.api(TENANT, PRINCIPAL, "submit")
    _ = await bus.request(subject, _encode(body), timeout_s=_LONGEST_S)


async def _by_stream(bus: WireBus, run_id: str) -> None:
    """Published durably, and answered where the task says once its run is durable."""
    answers = subjects.replies(TENANT, PRINCIPAL) + run_id
    task = Task(goal="look around", run_id=run_id, reply_to=answers)
    async with bus.subscribe(answers) as accepted:
        subject = subjects.task(TENANT, PRINCIPAL, AGENT)
        await bus.publish_durable(subject, _encode(task), message_id=run_id)
        _ = await accepted.receive()
