"""What the provider reports is counted once and whole, or not at all."""

from typing import Any

import pytest

from messages.parts import Usage
from runtime.model.usage import counted

SAID: dict[str, Any] = {"input_tokens": 20, "output_tokens": 50}


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (SAID, Usage(input_tokens=20, output_tokens=50)),
        (
            {**SAID, "cache_read_input_tokens": None, "cache_creation_input_tokens": None},
            Usage(input_tokens=20, output_tokens=50),
        ),
        (
            {**SAID, "cache_read_input_tokens": 9000, "cache_creation_input_tokens": 1000},
            Usage(
                input_tokens=20, output_tokens=50, cache_read_tokens=9000, cache_write_tokens=1000
            ),
        ),
        (
            {
                **SAID,
                "cache_creation_input_tokens": 1000,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": 900,
                    "ephemeral_1h_input_tokens": 100,
                },
            },
            Usage(
                input_tokens=20,
                output_tokens=50,
                cache_write_tokens=1000,
                cache_write_1h_tokens=100,
            ),
        ),
        ({**SAID, "cache_creation": {"ephemeral_1h_input_tokens": 7}}, Usage(**SAID)),
        (
            {
                **SAID,
                "iterations": [
                    {"type": "compaction", "input_tokens": 1000, "output_tokens": 200},
                    {"type": "message", **SAID},
                    {"type": "compaction", "input_tokens": 1, "output_tokens": 2},
                ],
            },
            Usage(input_tokens=1021, output_tokens=252),
        ),
    ],
)
def test_all_of_it_is_counted(report: dict[str, Any], expected: Usage) -> None:
    assert counted(report) == expected


@pytest.mark.parametrize(
    "report",
    [
        {},
        {"input_tokens": 20},
        {**SAID, "output_tokens": "50"},
        {**SAID, "input_tokens": True},
        {**SAID, "input_tokens": -1},
        {**SAID, "iterations": [{"type": "compaction", "input_tokens": -9, "output_tokens": 0}]},
        {**SAID, "cache_read_input_tokens": 1.5},
        {**SAID, "iterations": [{"type": "compaction", "input_tokens": 5}]},
    ],
)
def test_a_report_that_is_not_whole_is_none(report: dict[str, Any]) -> None:
    assert counted(report) is None
