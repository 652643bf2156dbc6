"""Who is alive, from what the directory answers to ``$SRV.STATS``: one row per process and role."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from messages.subjects import ROLES
from runtime.views.values import View, seconds

SUBJECT = "$SRV.STATS"
"""What to ask; every process answers once for each role it serves."""
WITHIN_S = 0.6
"""How long answers are waited for: a live process answers within milliseconds."""


class _Data(msgspec.Struct, frozen=True):
    running: int = 0
    pending: int = 0
    refused: int = 0
    breakers: dict[str, str] = {}


class _Endpoint(msgspec.Struct):
    name: str = ""
    num_requests: int = 0
    num_errors: int = 0
    processing_time: int = 0
    data: _Data = _Data()


class _Stats(msgspec.Struct):
    name: str
    id: str
    started: str = ""
    metadata: dict[str, str] = {}
    endpoints: list[_Endpoint] = []


def actor_rows(replies: Iterable[bytes]) -> list[View]:
    """A row for each role of each process, in the order of the roles."""
    rows = [_row(stats) for data in replies if (stats := _stats(data)) is not None]
    return sorted(rows, key=_place)


def missing_roles(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Roles that nobody serves."""
    present = {row["role"] for row in rows}
    return [role for role in ROLES if role not in present]


def _stats(data: bytes) -> _Stats | None:
    """One answer; other people's micro services on the same NATS are none of ours."""
    try:
        stats = msgspec.json.decode(data, type=_Stats)
    except msgspec.DecodeError:
        return None
    return stats if stats.metadata.get("role") in ROLES else None


def _row(stats: _Stats) -> View:
    about, ends = stats.metadata, stats.endpoints
    return {
        "role": about["role"],
        "process": stats.id,
        "name": about.get("process", ""),
        "pid": int(about["pid"]) if about.get("pid", "").isdecimal() else None,
        "host": about.get("host", ""),
        "started_at": stats.started,
        "running": sum(end.data.running for end in ends),
        "pending": sum(end.data.pending for end in ends),
        "served": sum(end.num_requests for end in ends),
        "failed": sum(end.num_errors for end in ends),
        "refused": sum(end.data.refused for end in ends),
        "busy_seconds": seconds(sum(end.processing_time for end in ends) / 1e9),
        "tools": sorted(end.name for end in ends if end.name != about["role"]),
        "breakers": {name: state for end in ends for name, state in end.data.breakers.items()},
    }


def _place(row: View) -> tuple[int, str, int]:
    return ROLES.index(row["role"]), row["host"], row["pid"] or 0
