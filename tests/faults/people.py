"""Who stands outside: a plain NATS client that submits, a person who approves, one who looks."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio

from messages.errors import Conflict, NotFound, TreadleError
from messages.status import Status
from tests.faults.cells import Cell
from tests.system.daemon import Daemon, stream
from treadle import Client

_LOOK_S = 0.05


async def submit(daemon: Daemon, cell: Cell, run_id: str) -> None:
    """Publish the task into the stream; the run's order has the run's name."""
    inputs = {"order_id": run_id, "effect": cell.effect, "reads": cell.reads}
    task = json.dumps({"goal": "Refund it once.", "run_id": run_id, "inputs": inputs})
    async with daemon.client("submitter") as client:
        subject = f"treadle.tasks.default.submitter.{cell.effect}"
        await stream(client).publish(subject, task.encode(), timeout=5)


async def ended(data_dir: Path, run_id: str) -> dict[str, Any]:
    """``show`` of the run once it has ended; whatever asks for approval until then gets it.

    Over every restart: a connection that is lost is opened anew.
    """
    while True:
        try:
            async with Client.connect(data_dir) as client:
                return await _ended(client, run_id)
        except (TreadleError, OSError):
            await anyio.sleep(_LOOK_S)


async def _ended(client: Client, run_id: str) -> dict[str, Any]:
    while True:
        try:
            shown = await client.show(run_id)
        except NotFound:
            await anyio.sleep(_LOOK_S)  # its task is still in the stream
            continue
        if Status(shown["status"]).is_terminal:
            return shown
        if shown["status"] == "AWAITING_APPROVAL" and shown["approval"] is not None:
            await _approve(client, shown["approval"])
        await anyio.sleep(_LOOK_S)


async def _approve(client: Client, approval: dict[str, Any]) -> None:
    with suppress(Conflict):  # decided before the process that was told could say so
        await client.approve(approval["id"], action=approval["action_hash"])


async def history(data_dir: Path, run_id: str) -> list[dict[str, Any]]:
    """The run's events."""
    async with Client.connect(data_dir) as client:
        page = await client.events(run_id)
        return page["events"]


async def unresolved(data_dir: Path) -> set[str]:
    """The runs of the keys that ``effects ls --unresolved`` names."""
    async with Client.connect(data_dir) as client:
        listed = await client.effects(unresolved=True)
        return {row["run_id"] for row in listed["effects"]}


async def key_state(data_dir: Path, cell: Cell, run_id: str) -> str:
    """What the ledger knows of the run's key."""
    async with Client.connect(data_dir) as client:
        shown = await client.effects(key=f"{cell.effect}:{run_id}:v1")
        return shown["effects"][0]["state"]
