"""Names that a task brings or that follow from it: its trace, its run."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from messages.canon import digest, sha256_hex

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_NO_TRACE = "0" * 32


class Trace(NamedTuple):
    """The W3C trace a task belongs to."""

    trace_id: str
    traceparent: str


def derived_run_id(stream_created: str, sequence: int, data: bytes) -> str:
    """The run id of a task that brought none: delivered again, it is the same run.

    The payload is part of it, so that a stream that was made anew while a message was under way
    cannot give two tasks one id.
    """
    return f"run-{digest([stream_created, sequence, sha256_hex(data)])[:20]}"


def continued_run_id(run_id: str, question_id: str) -> str:
    """The run that goes on from an answered NEEDS_INPUT one: answered twice, it is the same run."""
    return f"run-{digest([run_id, question_id])[:20]}"


def trace_of(headers: Mapping[str, str]) -> Trace | None:
    """The trace of a W3C ``traceparent`` header; None where there is no valid one."""
    for name, value in headers.items():
        match = _TRACEPARENT.fullmatch(value) if name.lower() == "traceparent" else None
        if match is not None and match.group(1) != _NO_TRACE:
            return Trace(match.group(1), value)
    return None
