from pathlib import Path

import pytest

from messages.errors import DeadlineExceeded
from tests.unit.treadle.cli.fakes import FakeDaemon, RunCli, event, run_row


def test_submit_prints_the_run_id(cli: RunCli, daemon: FakeDaemon) -> None:
    result = cli("submit", "refund", "settle it", "--run-id", "run-1", "-o", "json")
    assert result.json == {"v": 1, "run_id": "run-1", "existing": False}
    assert daemon.users == ["submitter"]


def test_inputs_are_text_unless_they_are_written_as_json(cli: RunCli, daemon: FakeDaemon) -> None:
    line = ("-i", "order_id=8472", "-i", "n:=2", "-i", "tags:=[1, true]", "-i", "note=a=b")
    cli("submit", "refund", "go", *line)
    assert daemon.asked[0][1]["inputs"] == {
        "order_id": "8472",
        "n": 2,
        "tags": [1, True],
        "note": "a=b",
    }


def test_limits_and_labels_are_passed_on(cli: RunCli, daemon: FakeDaemon) -> None:
    line = "submit refund go --max-steps 8 --max-usd 0.50 --max-seconds 12.5 --label a=b"
    cli(*line.split())
    body = daemon.asked[0][1]
    assert body["limits"] == {"max_steps": 8, "max_usd": "0.50", "max_seconds": 12.5}
    assert body["labels"] == {"a": "b"}


def test_every_submission_names_a_run_id(cli: RunCli, daemon: FakeDaemon) -> None:
    cli("submit", "refund", "go")
    cli("submit", "refund", "go")
    first, second = (body["run_id"] for _, body in daemon.asked)
    assert first != second


def test_an_unanswered_submission_says_how_to_repeat_it(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.refusal = DeadlineExceeded("no reply in 10 s")
    result = cli("submit", "refund", "go", "--run-id", "run-7", "-o", "json")
    assert result.code == 124
    assert result.error["hint"] == "try again with --run-id run-7"


@pytest.mark.parametrize(
    "line",
    ["submit", "submit refund", "submit refund go -i x", "submit refund go -i n:=x",
     "submit refund go -i =v", "submit refund go --label x", "submit refund go --timeout 5s",
     "submit refund go --wait --timeout 5x", "submit refund go --max-steps 0"],
)  # fmt: skip
def test_what_cannot_be_submitted_is_2(line: str, cli: RunCli, daemon: FakeDaemon) -> None:
    assert cli(*line.split()).code == 2
    assert daemon.asked == []


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("SUCCEEDED", 0),
        ("FAILED", 5),
        ("DENIED", 5),
        ("BUDGET_EXHAUSTED", 5),
        ("NO_PROGRESS", 5),
        ("CANCELLED", 5),
        ("NEEDS_INPUT", 6),
    ],
)
def test_wait_ends_with_the_code_of_the_status(
    status: str, code: int, cli: RunCli, daemon: FakeDaemon
) -> None:
    daemon.runs = [run_row(status=status)]
    daemon.pages = [{"events": [event(2, "finished")], "version": 2, "terminal": True}]
    result = cli("submit", "refund", "go", "--run-id", "run-1", "--wait", "-o", "json")
    assert result.code == code
    assert result.json["status"] == status
    assert "finished" in result.err


def test_wait_stops_where_a_person_is_needed(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.runs = [run_row(status="AWAITING_APPROVAL")]
    suspended = event(4, "suspended", status="AWAITING_APPROVAL")
    daemon.pages = [{"events": [suspended], "version": 4, "terminal": False}]
    assert cli("submit", "refund", "go", "--run-id", "run-1", "--wait").code == 6


def test_wait_goes_on_where_the_person_was_faster(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.runs = [run_row(status="SUCCEEDED")]
    suspended = event(4, "suspended", status="AWAITING_APPROVAL")
    daemon.pages = [
        {"events": [suspended, event(5, "resumed")], "version": 5, "terminal": False},
        {"events": [event(6, "finished")], "version": 6, "terminal": True},
    ]
    assert cli("submit", "refund", "go", "--run-id", "run-1", "--wait").code == 0


def test_wait_has_a_timeout(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.runs = [run_row()]
    daemon.pages = [{"events": [], "version": -1, "terminal": False}]
    line = "submit refund go --run-id run-1 --wait --timeout 10ms -o json"
    result = cli(*line.split())
    assert result.code == 124
    assert "treadle watch run-1" in result.error["hint"]


def test_a_file_submits_every_line(cli: RunCli, daemon: FakeDaemon, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(
        '{"goal": "one", "run_id": "run-1", "labels": {"b": "2"}}\n\n'
        '{"goal": "two", "run_id": "run-2", "agent": "other", "inputs": {"order_id": "1"}}\n'
    )
    line = ("submit", "refund", "--file", str(tasks), "--label", "a=1", "-o", "json")
    result = cli(*line)
    assert [row["run_id"] for row in result.json["runs"]] == ["run-1", "run-2"]
    first, second = (body for _, body in daemon.asked)
    assert (first["agent"], first["labels"]) == ("refund", {"a": "1", "b": "2"})
    assert (second["agent"], second["inputs"]) == ("other", {"order_id": "1"})


@pytest.mark.parametrize(
    "line",
    ["nonsense", "[]", '{"goal": "x"}', '{"agent": "a", "goal": "x", "gaol": 1}',
     '{"agent": "a", "goal": "x", "inputs": []}'],
)  # fmt: skip
def test_a_bad_line_submits_nothing(
    line: str, cli: RunCli, daemon: FakeDaemon, tmp_path: Path
) -> None:
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('{"agent": "a", "goal": "fine"}\n' + line + "\n")
    result = cli("submit", "--file", str(tasks))
    assert result.code == 2
    assert "line 2" in result.err
    assert daemon.asked == []


def test_ctrl_c_while_waiting_says_that_the_run_goes_on(cli: RunCli, daemon: FakeDaemon) -> None:
    class Pages(list[dict[str, object]]):
        def __len__(self) -> int:
            raise KeyboardInterrupt

    daemon.pages = Pages()
    result = cli("submit", "refund", "go", "--wait")
    assert result.code == 130
    assert "go on" in result.err
