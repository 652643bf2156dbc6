from typing import Any

import pytest

from runtime.views import agent_row, tool_rows
from tests.journals import SPEC
from tests.unit.treadle.cli.fakes import FakeDaemon, RunCli, event, run_row


@pytest.fixture
def known(daemon: FakeDaemon) -> FakeDaemon:
    tools = tool_rows([SPEC])
    for tool in tools:
        if tool["name"] == "lookup_order":
            tool["parameters"] = {
                "type": "object",
                "properties": {"order_id": {"type": "string"}, "limit": {"type": "integer"}},
                "required": ["order_id"],
            }
    daemon.replies["agents"] = {"v": 1, "agents": [agent_row(SPEC)]}
    daemon.replies["tools"] = {"v": 1, "tools": tools}
    return daemon


@pytest.fixture
def called(known: FakeDaemon) -> FakeDaemon:
    """A call that gives something."""
    evidence = {
        "id": "ev-1",
        "source": "payments",
        "duration_seconds": 0.002,
        "payload": {"order_id": "8472"},
    }
    known.runs = [run_row(status="SUCCEEDED", evidence=[evidence])]
    known.pages = [{"events": [event(1, "finished")], "version": 1, "terminal": True}]
    return known


def test_agents_are_listed_and_shown(cli: RunCli, known: FakeDaemon) -> None:
    assert known.replies
    assert cli("agents", "-o", "name").out == "refund\n"
    assert "8 steps, 40,000 tokens" in cli("agents", "ls").out
    shown = cli("agents", "show", "refund", "-o", "json").json
    assert [tool["name"] for tool in shown["tools"]] == ["issue_refund", "lookup_order"]
    assert "it says so (unverified)" in cli("agents", "show", "refund").out
    assert cli("agents", "show", "nobody").code == 3


def test_tools_are_listed_and_shown(cli: RunCli, known: FakeDaemon) -> None:
    assert known.replies
    assert cli("tools", "-o", "name").out == "issue_refund\nlookup_order\n"
    assert "refund:order-{order_id}" in cli("tools").out
    text = cli("tools", "show", "lookup_order").out
    assert "limit" in text
    assert "optional" in text
    assert cli("tools", "show", "nothing", "-o", "json").error["code"] == "NOT_FOUND"


def test_a_call_prints_what_it_gave(cli: RunCli, called: FakeDaemon) -> None:
    result = cli("tools", "call", "lookup_order", "order_id=8472", "limit=3")
    assert result.code == 0
    assert '"order_id": "8472"' in result.out
    sent = next(body for verb, body in called.asked if verb == "call")
    assert sent == {"tool": "lookup_order", "arguments": {"order_id": "8472", "limit": 3}}


def test_a_call_as_json(cli: RunCli, called: FakeDaemon) -> None:
    assert called.runs
    reply = cli("tools", "call", "lookup_order", "order_id:=8472", "-o", "json").json
    assert reply["ok"] is True
    assert reply["evidence"]["payload"] == {"order_id": "8472"}
    assert reply["run_id"].startswith("call-")
    assert next(b for v, b in called.asked if v == "call")["arguments"] == {"order_id": 8472}


def test_a_value_that_is_no_number_is_2(cli: RunCli, called: FakeDaemon) -> None:
    assert cli("tools", "call", "lookup_order", "limit=many").code == 2
    assert "call" not in [verb for verb, _ in called.asked]


@pytest.mark.parametrize(
    ("status", "more", "code"),
    [
        ("FAILED", {}, 1),
        ("AWAITING_APPROVAL", {"approval": {"id": "apr-1"}}, 6),
    ],
)
def test_a_call_that_gave_nothing(
    status: str, more: dict[str, Any], code: int, cli: RunCli, known: FakeDaemon
) -> None:
    known.runs = [run_row(status=status, reason="no_action", **more)]
    rejected = event(1, "proposal_rejected", code="BAD_ARGUMENTS", message="no such field")
    waits = event(2, "suspended", status=status)
    known.pages = [{"events": [rejected, waits], "version": 2, "terminal": True}]
    result = cli("tools", "call", "lookup_order", "order_id=1")
    assert result.code == code
    assert ("apr-1" if more else "no such field (BAD_ARGUMENTS)") in result.out
