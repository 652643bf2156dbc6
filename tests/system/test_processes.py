"""Roles in processes of their own, under load, each killed once."""

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest

from tests.system.daemon import Daemon, ask, stream

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

PLACES = {
    "door": ("--roles", "gateway,checkpointer,authoriser,notifier"),
    "hub": ("--roles", "orchestrator,planner,validator,monitor"),
    "hand-1": ("--roles", "executor"),
    "hand-2": ("--roles", "executor"),
}
"""Three kinds of process: intake, ledger and authority; driving and deciding; two executors."""
TASKS = 200


class Fleet:
    """Processes by place; the first holds broker and ledger, the others join it."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.processes = {name: Daemon(data_dir, name=name) for name in PLACES}

    @property
    def door(self) -> Daemon:
        return self.processes["door"]

    async def up(self, name: str) -> None:
        join = () if name == "door" else ("--join", str(self.data_dir / "join.json"))
        await self.processes[name].up(*PLACES[name], *join)

    async def kill(self, name: str) -> None:
        await self.processes[name].kill()


@pytest.fixture
async def fleet(data_dir: Path) -> AsyncGenerator[Fleet]:
    fleet = Fleet(data_dir)
    async with AsyncExitStack() as stack:
        for daemon in fleet.processes.values():
            stack.push_async_callback(daemon.close)
        for name in PLACES:
            await fleet.up(name)
        yield fleet


async def _submit(fleet: Fleet) -> None:
    async with fleet.door.client("submitter") as client:
        for number in range(TASKS):
            task = {
                "goal": f"Order o{number} was charged twice.",
                "run_id": f"run-{number}",
                "inputs": {"order_id": f"o{number}"},
            }
            await stream(client).publish(
                "treadle.tasks.default.submitter.refund", json.dumps(task).encode(), timeout=10
            )


async def _approve(fleet: Fleet, done: anyio.Event) -> None:
    """Approve whatever is asked, over every restart of the broker."""
    while not done.is_set():
        try:
            async with fleet.door.client("approver") as person:
                while not done.is_set():
                    listed = await ask(person, "approvals", {}, "approver")
                    for approval in listed.get("approvals", []):
                        body = {"approval_id": approval["id"], "action": approval["action_hash"]}
                        await ask(person, "approve", body, "approver")
                    await anyio.sleep(0.05)
        except Exception:  # noqa: BLE001 -- the broker is killed under it; it tries again
            await anyio.sleep(0.1)


async def _effects_reach(fleet: Fleet, count: int) -> None:
    """Wait for so many refunds and notifications of the 400: the load is under way."""
    with anyio.fail_after(60):
        while len(await fleet.door.effects()) < count:  # noqa: ASYNC110 -- another process's file
            await anyio.sleep(0.01)


async def _statuses(fleet: Fleet) -> dict[str, int]:
    async with fleet.door.client("operator") as operator:
        counts: dict[str, int] = {}
        for number in range(TASKS):
            shown = await ask(operator, "show", {"run_id": f"run-{number}"}, "operator")
            status = str(shown.get("status", shown.get("error", {}).get("code")))
            counts[status] = counts.get(status, 0) + 1
        return counts


async def _rest(fleet: Fleet) -> dict[str, int]:
    """How the runs ended, once none is open any more."""
    open_ = {"QUEUED", "RUNNING", "WAITING", "AWAITING_APPROVAL", "NOT_FOUND"}
    with anyio.fail_after(150):
        while True:
            counts = await _statuses(fleet)
            if not open_ & counts.keys():
                return counts
            await anyio.sleep(0.5)


async def test_every_process_is_killed_once_and_every_order_is_refunded_once(fleet: Fleet) -> None:
    done = anyio.Event()
    counts: dict[str, int] = {}
    async with anyio.create_task_group() as tasks:
        await _submit(fleet)
        tasks.start_soon(_approve, fleet, done)
        for name, effects in (("hand-1", 20), ("hub", 100), ("hand-2", 180), ("door", 260)):
            await _effects_reach(fleet, effects)
            await fleet.kill(name)
            await fleet.up(name)
        counts = await _rest(fleet)
        done.set()
    assert counts == {"SUCCEEDED": TASKS}
    refunds = [e["key"] for e in await fleet.door.effects() if e["kind"] == "refund"]
    assert len(refunds) == len(set(refunds)) == TASKS
