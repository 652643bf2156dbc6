from pathlib import Path

import pytest

from tests.unit.treadle.cli.fakes import FakeDaemon, RunCli, run_row


@pytest.fixture
def asking(daemon: FakeDaemon) -> FakeDaemon:
    question = {"id": "q-1", "text": "Which payment?", "schema": None, "group": "desk"}
    daemon.runs = [run_row(status="AWAITING_HUMAN", question=question)]
    return daemon


def answered(daemon: FakeDaemon) -> object:
    verb, body = daemon.asked[-1]
    assert verb == "answer"
    assert body["question_id"] == "q-1"
    return body["answer"]


def test_text_is_an_answer(cli: RunCli, asking: FakeDaemon) -> None:
    assert cli("answer", "run-1", "PAY-78").out == "answered run-1; the run goes on\n"
    assert answered(asking) == "PAY-78"
    assert asking.users == ["approver"]


def test_a_file_is_an_answer(cli: RunCli, asking: FakeDaemon, tmp_path: Path) -> None:
    file = tmp_path / "answer.txt"
    file.write_text("PAY-78\n")
    assert cli("answer", "run-1", "-f", str(file), "-o", "name").out == "run-1\n"
    assert answered(asking) == "PAY-78"
    assert cli("answer", "run-1", "PAY-78", "-f", str(file)).code == 2


def test_a_question_for_a_number_takes_json(cli: RunCli, asking: FakeDaemon) -> None:
    asking.runs[0]["question"]["schema"] = {"type": "integer"}
    assert cli("answer", "run-1", "12").code == 0
    assert answered(asking) == 12
    assert cli("answer", "run-1", "twelve").code == 2


def test_json_where_it_is_said(cli: RunCli, asking: FakeDaemon) -> None:
    assert cli("answer", "run-1", '{"a": 1}', "--json").code == 0
    assert answered(asking) == {"a": 1}


def test_a_continued_run_is_named(cli: RunCli, asking: FakeDaemon) -> None:
    asking.runs[0]["status"] = "NEEDS_INPUT"
    asking.replies["answer"] = {"v": 1, "run_id": "run-2", "existing": False}
    assert cli("answer", "run-1", "yes", "-o", "name").out == "run-2\n"
    assert cli("answer", "run-1", "yes").out == "run-2  goes on from run-1\n"


def test_without_words_and_without_a_person_it_is_2(cli: RunCli, asking: FakeDaemon) -> None:
    result = cli("answer", "run-1")
    assert result.code == 2
    assert "Which payment?" in result.err
    assert [verb for verb, _ in asking.asked] == ["show"]


def test_a_run_that_asks_nothing_is_7(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.runs = [run_row()]
    result = cli("answer", "run-1", "yes", "-o", "json")
    assert (result.code, result.error["code"]) == (7, "NOT_WAITING")


def test_show_says_how_to_answer(cli: RunCli, asking: FakeDaemon) -> None:
    assert asking.runs
    assert "treadle answer run-1 TEXT" in cli("show", "run-1").out
