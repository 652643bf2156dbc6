"""How single values are written for people: times, money, hashes, evidence."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from messages.base import Timestamp
from messages.canon import shown
from messages.errors import UsageError
from messages.parts import Evidence, Limits, Problem, Usage
from runtime.money import usd

__all__ = [
    "View",
    "evidence_view",
    "hash_or_none",
    "iso",
    "iso_or_none",
    "limits_view",
    "month_of",
    "problem_view",
    "seconds",
    "tokens_view",
    "usd",
]

View = dict[str, Any]
"""One JSON object as a user sees it."""

_MONTH = re.compile(r"[12][0-9]{3}-(0[1-9]|1[0-2])")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_TEXT_CHARS = 500
"""Reasons and questions are written by people, rules or the model; a line stays a line."""


def iso(at: Timestamp) -> str:
    """ISO 8601, UTC, milliseconds, ``Z``: one width, so that text order is time order."""
    moment = _EPOCH + timedelta(milliseconds=round(at * 1000))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def month_of(text: str) -> tuple[Timestamp, Timestamp]:
    """When a month ``YYYY-MM`` begins and ends, UTC.

    Raises:
        UsageError: it is none.
    """
    if _MONTH.fullmatch(text) is None:
        raise UsageError(f"{text[:40]!r} is no month", hint="write YYYY-MM, such as 2026-11")
    first = datetime(int(text[:4]), int(text[5:]), 1, tzinfo=UTC)
    return first.timestamp(), (first + timedelta(days=31)).replace(day=1).timestamp()


def iso_or_none(at: Timestamp | None) -> str | None:
    """``iso``, or None."""
    return None if at is None else iso(at)


def hash_or_none(value: str | None) -> str | None:
    """The shown digits of a hash; None where there is none."""
    return shown(value) if value else None


def limits_view(limits: Limits) -> View:
    """The budgets; ``max_usd`` null is no cost limit."""
    cost = limits.max_cost_microusd
    return {
        "max_steps": limits.max_steps,
        "max_tokens": limits.max_tokens,
        "max_usd": None if cost is None else usd(cost),
        "max_seconds": limits.max_seconds,
        "max_wait_seconds": limits.max_wait_s,
    }


def tokens_view(usage: Usage) -> View:
    """Tokens as the provider counts them, and their sum."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "tokens": usage.tokens,
    }


def seconds(value: float) -> float:
    """A duration to the millisecond; float dust would make equal runs look different."""
    return round(value, 3)


def evidence_view(evidence: Evidence) -> View:
    """An observation with its provenance; ``ref`` in place of a payload kept in the artifacts."""
    view: View = {
        "id": evidence.id,
        "tool": evidence.tool,
        "request_id": evidence.request_id,
        "fetched_at": iso(evidence.fetched_at),
        "duration_seconds": seconds(evidence.duration_s),
        "source": evidence.source,
    }
    if evidence.ref is None:
        view["payload"] = evidence.payload
    else:
        view["ref"] = evidence.ref
    if evidence.reused:
        view["reused"] = evidence.reused
    if evidence.notes:
        view["notes"] = list(evidence.notes)
    return view


def problem_view(problem: Problem | None) -> View | None:
    """Code, message and hint of a refusal."""
    return None if problem is None else msgspec.to_builtins(problem)


def short_problem(problem: Problem | None) -> View:
    """Code and message of a refusal, for one line."""
    return {} if problem is None else {"code": problem.code, "message": short(problem.message)}


def short(text: str | None) -> str | None:
    """The beginning of a text, for one line."""
    if text is None or len(text) <= _TEXT_CHARS:
        return text
    return text[: _TEXT_CHARS - 1] + "…"
