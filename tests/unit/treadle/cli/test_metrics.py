"""What metrics asks and how it prints figures."""

from typing import Any

import pytest

from messages.ledger import RunRow, Summary
from messages.status import Status
from runtime.tally import merge_groups, tally
from runtime.views.metrics import metrics_view
from tests.unit.treadle.cli.fakes import FakeDaemon, RunCli


def row(agent: str, status: Status, **ran: Any) -> RunRow:
    return RunRow(
        tenant="t",
        run_id="r",
        version=1,
        head_hash="",
        summary=Summary(agent=agent, status=status, **ran),
        created_at=0.0,
        updated_at=1.0,
    )


def cells(line: str) -> str:
    return " ".join(line.split())


@pytest.fixture
def reply(daemon: FakeDaemon) -> dict[str, Any]:
    rows = [
        row("a", Status.SUCCEEDED, reason="verified", step_count=2, tool_calls=4, tool_errors=1),
        row("a", Status.NO_PROGRESS, reason="oscillation", step_count=4, cost_microusd=30),
        row("b", Status.BUDGET_EXHAUSTED, reason="max_steps"),
        row("b", Status.WAITING, cost_microusd=5),
    ]
    by = ("agent",)
    tallies = merge_groups(tally(rows, by))
    found = metrics_view(tallies, by, since=None, until=None)
    daemon.replies["metrics"] = found
    return found


def test_the_columns_stand_in_the_order_of_reading(cli: RunCli, reply: dict[str, Any]) -> None:
    assert reply["runs"] == 3
    head, first, second, total, *rest = cli("metrics", "--by", "agent").out.splitlines()
    assert cells(head) == (
        "GROUP LOOPS BUDGET STOPS RECOVERY COMPLETED RUNS STEPS P50 P95 TOOL ERRORS MEAN COST"
    )
    assert cells(first) == "a 50.0% 0.0% 100.0% 50.0% 2 2 4 25.0% $0.000015"
    assert cells(second) == "b 0.0% 100.0% - 0.0% 1 0 0 - $0.00"
    assert cells(total) == "all 33.3% 33.3% 100.0% 33.3% 3 2 4 25.0% $0.00001"
    text = "\n".join(rest)
    assert "1 NO_PROGRESS (oscillation)" in text
    assert "$0.00003, $0.000005 so far by 1 open ones" in text


def test_it_passes_on_what_is_asked(cli: RunCli, daemon: FakeDaemon, reply: dict[str, Any]) -> None:
    done = cli("-o", "json", "metrics", "--since", "2h", "--by", "agent", "--label", "k=v")
    assert done.json == reply
    assert daemon.asked == [
        (
            "metrics",
            {"by": ("agent",), "labels": {"k": "v"}, "since": 7200.0, "month": None},
        )
    ]
    assert daemon.users == ["operator"]


def test_each_group_is_a_line_or_a_name(cli: RunCli, reply: dict[str, Any]) -> None:
    assert reply["by"] == ["agent"]
    assert cli("metrics", "--by", "agent", "-o", "name").out == "a\nb\nall\n"
    assert len(cli("metrics", "--by", "agent", "-o", "jsonl").out.splitlines()) == 3


@pytest.mark.parametrize("by", ["goal", "agent,agent", "", "agent,"])
def test_groups_that_are_none_are_refused(cli: RunCli, daemon: FakeDaemon, by: str) -> None:
    done = cli("metrics", "--by", by, "-o", "json")
    assert (done.code, done.error["code"]) == (2, "USAGE")
    assert daemon.asked == []


def test_no_run_is_no_figure(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.replies["metrics"] = metrics_view((), (), since=None, until=None)
    _, total, *rest = cli("metrics").out.splitlines()
    assert cells(total) == "all - - - - 0 - - - -"
    assert "Ended           none" in rest
