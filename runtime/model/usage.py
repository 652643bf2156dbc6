"""The provider's report of what one answer used -> what is charged. Pure.

Source: research/sdk-facts.md 1.4: ``input_tokens`` leaves out what was cached, and the counts of a
compaction that the provider made on the way stand in ``iterations`` alone.
"""

from collections.abc import Mapping
from typing import cast

from messages.parts import JsonValue, Usage

_BESIDE = frozenset({"compaction"})
"""Kinds of iterations that the report's own counts leave out."""


def counted(report: Mapping[str, JsonValue]) -> Usage | None:
    """All that a report counts; None where a count is missing or none.

    Args:
        report: ``usage`` of the answer, merged over its events.
    """
    parts = [report, *_iterations(report)]
    usages = [_usage(part) for part in parts]
    total = Usage()
    for usage in usages:
        if usage is None:
            return None
        total = total.plus(usage)
    return total


def _iterations(report: Mapping[str, JsonValue]) -> list[dict[str, JsonValue]]:
    found = report.get("iterations")
    known = cast("list[JsonValue]", found) if isinstance(found, list) else []
    parts = [cast("dict[str, JsonValue]", part) for part in known if isinstance(part, dict)]
    return [part for part in parts if part.get("type") in _BESIDE]


def _usage(report: Mapping[str, JsonValue]) -> Usage | None:
    counts = [
        report.get("input_tokens"),
        report.get("output_tokens"),
        _or_nothing(report.get("cache_read_input_tokens")),
        _or_nothing(report.get("cache_creation_input_tokens")),
        _or_nothing(_hour(report.get("cache_creation"))),
    ]
    if any(not isinstance(count, int) or isinstance(count, bool) or count < 0 for count in counts):
        return None  # a count below zero would make others cheaper
    sent, said, read, written, hour = cast("list[int]", counts)
    return Usage(
        input_tokens=sent,
        output_tokens=said,
        cache_read_tokens=read,
        cache_write_tokens=written,
        cache_write_1h_tokens=min(hour, written),
    )


def _hour(written: JsonValue) -> JsonValue:
    if not isinstance(written, dict):
        return 0
    return cast("dict[str, JsonValue]", written).get("ephemeral_1h_input_tokens")


def _or_nothing(count: JsonValue) -> JsonValue:
    """Nothing said of the cache is nothing cached."""
    return 0 if count is None else count
