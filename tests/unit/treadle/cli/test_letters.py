from typing import Any

import pytest

from tests.unit.treadle.cli.fakes import FakeDaemon, RunCli


def letter(**more: Any) -> dict[str, Any]:
    return {
        "id": 7,
        "kind": "tasks",
        "tenant": "default",
        "subject": "treadle.tasks.default.submitter.refund",
        "run_id": "run-1",
        "code": "BAD_TASK",
        "message": "the goal is empty",
        "hint": "say what shall be done",
        "at": "2026-10-28T11:17:43.000Z",
        "deliveries": 1,
        "payload_bytes": 11,
        "is_cut": False,
        "payload": '{"goal":""}',
        "encoding": "text",
        **more,
    }


@pytest.fixture
def dead(daemon: FakeDaemon) -> FakeDaemon:
    daemon.replies["letters"] = {"letters": [letter()]}
    return daemon


def test_letters_are_listed_and_shown(cli: RunCli, dead: FakeDaemon) -> None:
    assert "the goal is empty" in cli("dlq").out
    assert cli("dlq", "ls", "-o", "name").out == "7\n"
    assert '{"goal":""}' in cli("dlq", "show", "7").out
    assert cli("dlq", "show", "7", "-o", "json").json["code"] == "BAD_TASK"
    assert dead.asked[0] == ("letters", {"letter_id": None, "limit": 100})
    assert dead.users == ["operator"] * 4


def test_no_letters(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.replies["letters"] = {"letters": []}
    assert cli("dlq").out == "no dead letters\n"


def test_a_letter_is_sent_again(cli: RunCli, dead: FakeDaemon) -> None:
    assert cli("dlq", "retry", "7").out.startswith("sent again: 7  treadle.tasks")
    assert dead.asked == [("retry_letter", {"letter_id": 7})]
    assert cli("dlq", "retry").code == 2
    assert cli("dlq", "retry", "seven").code == 2


def test_a_letter_is_dropped_with_a_reason_and_a_yes(cli: RunCli, dead: FakeDaemon) -> None:
    assert cli("dlq", "drop", "7", "--yes").code == 2
    refused = cli("dlq", "drop", "7", "--reason", "a test")
    assert refused.code == 2
    assert "the goal is empty" in refused.err
    assert [verb for verb, _ in dead.asked] == ["letters"]
    assert cli("dlq", "drop", "7", "--reason", "a test", "--yes").out.startswith("dropped: 7")
    assert dead.asked[-1] == ("drop_letter", {"letter_id": 7, "reason": "a test"})
