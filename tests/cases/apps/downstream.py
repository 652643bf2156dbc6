"""The system that the tools of the cases act upon: a file of their own beside the ledger.

What happened is counted here and never in our database, so a test believes the downstream alone.
"""

import json
import os
from pathlib import Path
from typing import Any

import anyio

FILE = "downstream.jsonl"
REQUESTS = "requests.jsonl"


def place() -> Path:
    """The data directory of the daemon that hosts the tools."""
    return Path(os.environ["TREADLE_DATA_DIR"])


def note(file: str, **line: Any) -> None:
    """Append one line, whole or not at all; what happened is on disk before anybody is told."""
    data = json.dumps(line).encode() + b"\n"
    handle = os.open(place() / file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, data)
        if file == FILE:
            os.fsync(handle)
    finally:
        os.close(handle)


def lines(directory: Path, file: str = FILE) -> list[dict[str, Any]]:
    """What was noted so far."""
    try:
        text = (directory / file).read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines()]


def effects(key: str) -> list[dict[str, Any]]:
    """What happened under an idempotency key: what a downstream says that can be asked by it."""
    return [line for line in lines(place()) if line["kind"] == "effect" and line["key"] == key]


async def while_held(name: str) -> None:
    """Wait for as long as a test keeps the file ``hold-<name>`` there."""
    while await anyio.Path(place() / f"hold-{name}").exists():  # noqa: ASYNC110 -- another process
        await anyio.sleep(0.01)
