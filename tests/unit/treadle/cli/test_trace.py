from typing import Any

import pytest

from runtime.views import trace_run
from tests import journals
from tests.unit.treadle.cli.fakes import FakeDaemon, RunCli


@pytest.fixture
def traced(daemon: FakeDaemon) -> dict[str, Any]:
    """Order 8472: one read, one refund that waited for a person."""
    run = trace_run(journals.state_at(4), journals.row_at(4), journals.journal(), journals.T0 + 700)
    daemon.replies["trace"] = run
    return run


def test_a_trace_tells_steps_calls_and_waits_in_order(cli: RunCli, traced: dict[str, Any]) -> None:
    head, titles, *lines = cli("trace", "task-8472-a").out.splitlines()
    assert traced["steps"]
    assert "2,965 tokens" in head
    assert "waited 10m" in head
    assert titles.split() == ["STEP", "WHAT", "TOOK", "TOKENS", "COST", "RESULT", "TIME"]
    assert [line.split()[0] for line in lines] == ["1", "└", "2", "└", "◐"]
    assert 'lookup_order(order_id="8472")' in lines[1]
    assert "1,705" in lines[2]
    assert "ok ev-2 (approved by approver)" in lines[3]
    assert "AWAITING_APPROVAL: over_limit" in lines[4]


def test_the_bars_stand_one_after_the_other(cli: RunCli, traced: dict[str, Any]) -> None:
    assert traced["waits"]
    lines = cli("trace", "task-8472-a").out.splitlines()[2:]
    starts = [min(line.find(mark) for mark in "▇▅‖" if mark in line) for line in lines]
    assert starts == sorted(starts) or starts[4] <= starts[3]  # the wait begins before the refund
    assert starts[0] < starts[2]


def test_a_trace_as_json_and_as_lines(cli: RunCli, traced: dict[str, Any]) -> None:
    assert cli("trace", "task-8472-a", "-o", "json").json == traced
    assert cli("trace", "task-8472-a", "-o", "name").out == "1\n2\n3\n"
    assert len(cli("trace", "task-8472-a", "-o", "jsonl").out.splitlines()) == 3


def test_a_trace_of_a_run_that_nobody_took(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.replies["trace"] = trace_run(
        journals.state_at(0), journals.row_at(0), journals.journal()[:1], journals.T0 + 1
    )
    assert "no step has been decided yet" in cli("trace", "task-8472-a").out
