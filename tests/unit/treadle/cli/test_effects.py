from typing import Any

import pytest

from tests.unit.treadle.cli.fakes import FakeDaemon, RunCli

KEY = "refund:order-8472:pay_5a2:v1"


def reply(state: str, run_id: str | None) -> dict[str, Any]:
    effect = {"key": KEY, "state": state, "run_id": "run-1", "tool": "issue_refund"}
    return {"v": 1, "effect": effect, "run_id": run_id}


def test_what_happened_is_said_with_its_result(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.replies["resolve_effect"] = reply("done", "run-2")
    said = cli("effects", "resolve", KEY, "--happened", '{"id": "rf-1"}', "--reason", "the bank")
    assert said.out == f"{KEY} is done; the work goes on in run run-2\n"
    body = {"happened": True, "result": {"id": "rf-1"}, "reason": "the bank", "run_id": None}
    assert daemon.asked == [("resolve_effect", {"key": KEY, **body})]
    assert daemon.users == ["operator"]


def test_what_did_not_happen(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.replies["resolve_effect"] = reply("free", None)
    assert cli("effects", "resolve", KEY, "--not-happened").out == f"{KEY} is free\n"
    body = {"happened": False, "result": None, "reason": "", "run_id": None}
    assert daemon.asked[0][1] == {"key": KEY, **body}
    assert cli("effects", "resolve", KEY, "--not-happened", "-o", "json").json["run_id"] is None
    assert cli("effects", "resolve", KEY, "--not-happened", "-o", "name").out == f"{KEY}\n"


def test_a_result_that_is_null_did_happen(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.replies["resolve_effect"] = reply("done", None)
    assert cli("effects", "resolve", KEY, "--happened", "null").code == 0
    assert daemon.asked[0][1]["happened"] is True


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--happened", "1", "--not-happened"),
        ("--happened", "rf-1"),
        ("--happened", "{"),
        ("--happened", "NaN"),
        ("--happened", '{"amount": -Infinity}'),
    ],
)
def test_what_is_unclear_is_not_said(
    cli: RunCli, daemon: FakeDaemon, words: tuple[str, ...]
) -> None:
    refused = cli("effects", "resolve", KEY, *words)
    assert refused.code == 2
    assert daemon.asked == []


def test_whose_attempt_it_was_and_why_nothing_goes_on(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.replies["resolve_effect"] = {**reply("free", None), "problem": "the agent is gone"}
    said = cli("effects", "resolve", KEY, "--not-happened", "--run", "run-1")
    assert said.out == f"{KEY} is free; its work does not go on: the agent is gone\n"
    assert daemon.asked[0][1]["run_id"] == "run-1"


def test_who_resolved_an_effect_is_listed(cli: RunCli, daemon: FakeDaemon) -> None:
    row = {
        "key": KEY,
        "state": "done",
        "tool": "issue_refund",
        "run_id": "run-1",
        "claims": 1,
        "updated_at": "2026-10-28T11:17:43.000Z",
        "is_flagged": False,
        "resolved_by": "ann",
    }
    daemon.ledger.append(row)
    assert "by ann" in cli("effects", "ls").out
