"""The public JSON of tasks and results. It has no tags: other people's code reads and writes it."""

from typing import Any

import msgspec

from messages.parts import JsonValue


class TaskLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits a task may set for itself; the agent's are the ceiling."""

    max_steps: int | None = None
    max_tokens: int | None = None
    max_usd: str | None = None
    max_seconds: float | None = None


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One task, as published to ``treadle.tasks.<tenant>.<principal>.<agent>``."""

    goal: str
    inputs: dict[str, JsonValue] = {}
    run_id: str | None = None
    """Should be given: the same id is the same run."""
    limits: TaskLimits = TaskLimits()
    labels: dict[str, str] = {}
    reply_to: str | None = None
    """Only below ``treadle.replies.<tenant>.<principal>.``."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a task did not become a run, on ``reply_to`` and in the dead letter."""

    v: int = 1
    run_id: str | None = None
    code: str
    message: str
    hint: str = ""


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The task is a durable run."""

    v: int = 1
    run_id: str
    existing: bool


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The terminal result, on ``treadle.results.<tenant>.<run_id>``."""

    v: int = 1
    run_id: str
    agent: str
    status: str
    reason: str
    output: JsonValue = None
    summary: str = ""
    usage: dict[str, Any] = {}
    version: int
