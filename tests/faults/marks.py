"""The file that a process leaves before it breaks at a fault point; see ``treadle.faults``."""

import json
from pathlib import Path
from typing import Any

import anyio


async def fired(mark: Path) -> dict[str, Any] | None:
    """What it wrote: point, pid and ``at``, epoch seconds; None: it has not fired."""
    try:
        return json.loads(await anyio.Path(mark).read_bytes())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
