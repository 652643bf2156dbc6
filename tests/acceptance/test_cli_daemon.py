"""Every command against a running daemon, each side a process of its own."""

import json
import os
import re
import signal
import stat
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.acceptance.cli_process import TREADLE, Done, treadle

APP = "treadle.examples.refunds.app:app"
KEY = "refund:order-8472:pay_5a2:v1"
GOAL = "It was charged twice."


@contextmanager
def running(*options: str, cwd: Path, app: str = APP) -> Generator[subprocess.Popen[bytes]]:
    """``treadle up`` until the block ends; ready when entered, stopped in order when left."""
    said = cwd / "daemon.stderr"  # a pipe that nobody reads would fill and stop the daemon
    line = [TREADLE, "up", "--app", app, "--model", "scripted", *options]
    with said.open("wb") as stderr:
        daemon = subprocess.Popen(line, cwd=cwd, stdin=subprocess.DEVNULL, stderr=stderr)
    try:
        while not re.search(r"^ready nats://\S+", said.read_text(), re.MULTILINE):
            assert daemon.poll() is None, said.read_text()
            time.sleep(0.02)
        yield daemon
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(timeout=40)
    assert daemon.returncode == 0, said.read_text()


class Command(Protocol):
    def __call__(self, *arguments: str) -> Done: ...


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Generator[Command]:
    """A command line in the folder of a daemon that this module's tests share."""
    place = tmp_path_factory.mktemp("daemon")
    with running(cwd=place):
        yield lambda *arguments: treadle(*arguments, cwd=place)


def submit(command: Command, order_id: str, *options: str) -> Done:
    return command("submit", "refund", GOAL, "-i", f"order_id={order_id}", "-o", "json", *options)


def asked(command: Command, order_id: str) -> dict[str, Any]:
    """A run that waits for a person, and the approval it waits for."""
    run = submit(command, order_id, "--wait")
    assert run.code == 6, run.err
    rows = command("approvals", "-o", "json").json["approvals"]
    return next(row for row in rows if row["run_id"] == run.json["run_id"])


def test_up_says_where_it_is_and_cleans_up(tmp_path: Path) -> None:
    file = tmp_path / ".treadle" / "connection.json"
    with running(cwd=tmp_path) as daemon:
        connection = json.loads(file.read_text())
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert connection["v"] == 1
        assert connection["pid"] == daemon.pid
        assert set(connection["users"]) == {"submitter", "approver", "operator"}
        second = treadle("up", "--app", APP, "--model", "scripted", "-o", "json", cwd=tmp_path)
        assert second.code == 1
        assert second.error["code"] == "ALREADY_RUNNING"
    assert not file.exists()


def test_a_run_that_needs_nobody_succeeds(command: Command) -> None:
    done = submit(command, "small-1", "--wait", "--label", "ticket=7")
    assert done.code == 0, done.err
    assert (done.json["status"], done.json["existing"]) == ("SUCCEEDED", False)
    run_id = done.json["run_id"]
    shown = command("show", run_id, "-o", "json").json
    assert {"run_id", "trace_id", "agent", "usage", "limits", "evidence", "tool_history"} <= set(
        shown
    )
    found = command("ls", "--status", "succeeded", "--label", "ticket=7", "-o", "name")
    assert found.out.split() == [run_id]
    effects = command("effects", "ls", "--run", run_id, "-o", "json").json["effects"]
    assert {effect["state"] for effect in effects} == {"done"}
    assert command("effects", "show", effects[0]["key"]).code == 0


def test_the_same_run_id_is_the_same_run(command: Command) -> None:
    first = submit(command, "small-2", "--run-id", "twice")
    again = submit(command, "small-2", "--run-id", "twice")
    assert (first.code, first.json) == (0, {"v": 1, "run_id": "twice", "existing": False})
    assert (again.code, again.json) == (0, {"v": 1, "run_id": "twice", "existing": True})


def test_limits_of_the_task_hold(command: Command) -> None:
    done = submit(command, "small-3", "--max-steps", "2", "--wait")
    assert done.code == 5
    assert (done.json["status"], done.json["reason"]) == ("BUDGET_EXHAUSTED", "max_steps")


def test_approve_lets_exactly_that_action_run(command: Command) -> None:
    approval = asked(command, "8472")
    shown = command("approvals", "show", approval["id"])
    assert KEY in shown.out
    assert "POL-REF-004" in shown.out
    stranger = command("approve", approval["id"], "--as", "submitter", "-o", "json")
    assert (stranger.code, stranger.error["code"]) == (4, "NOT_ALLOWED")
    wrong = command("approve", approval["id"], "--action", "0" * 12, "-o", "json")
    assert (wrong.code, wrong.error["code"]) == (7, "HASH_MISMATCH")
    done = command("approve", approval["id"], "--action", approval["action_hash"], "-o", "json")
    assert done.code == 0, done.err
    again = command("deny", approval["id"], "--reason", "too late", "-o", "json")
    assert (again.code, again.error["code"]) == (7, "ALREADY_DECIDED")
    events = command("watch", approval["run_id"], "-o", "jsonl")
    kinds = [json.loads(line)["kind"] for line in events.out.splitlines()]
    assert kinds[-1] == "finished"
    assert kinds.count("approval_resolved") == 1
    chain = command("effects", "show", KEY, "-o", "json").json
    assert chain["approval"]["id"] == approval["id"]


def test_watch_from_a_version_starts_there(command: Command) -> None:
    run_id = submit(command, "small-4", "--wait").json["run_id"]
    lines = command("watch", run_id, "--from", "2", "-o", "jsonl").out.splitlines()
    assert json.loads(lines[0])["version"] == 2
    assert {"v", "run_id", "version", "at", "kind", "step"} <= set(json.loads(lines[0]))


def test_deny_goes_back_to_the_model(command: Command) -> None:
    approval = asked(command, "big-1")
    assert command("deny", approval["id"], "--reason", "wrong order").code == 0
    command("watch", approval["run_id"], "-q")
    run = command("show", approval["run_id"], "-o", "json").json
    assert run["status"] != "SUCCEEDED"
    keys = command("effects", "-o", "name").out.split()
    assert not [key for key in keys if key.startswith("refund:order-big-1")]


def test_cancel_ends_a_run_that_waits(command: Command) -> None:
    run_id = asked(command, "big-2")["run_id"]
    assert command("cancel", run_id, "--reason", "duplicate").code == 0
    command("watch", run_id)
    run = command("show", run_id, "-o", "json").json
    assert (run["status"], run["reason"]) == ("CANCELLED", "by_person")
    assert command("cancel", run_id).code == 7


def test_bulk_cancel_takes_all_that_match(command: Command) -> None:
    wanted = {asked(command, f"bulk-{number}")["run_id"] for number in (1, 2)}
    line = ("cancel", "--agent", "refund", "--status", "AWAITING_APPROVAL")
    refused = command(*line)
    assert refused.code == 2
    assert all(run_id in refused.err for run_id in wanted)
    done = command(*line, "--yes", "-o", "json")
    assert wanted <= {row["run_id"] for row in done.json["runs"]}


@pytest.mark.parametrize(
    ("line", "code", "exit_code"),
    [
        ("show run-9", "NOT_FOUND", 3),
        ("watch run-9", "NOT_FOUND", 3),
        ("cancel run-9", "NOT_FOUND", 3),
        ("approve apr-9 --action 000000000000", "NOT_FOUND", 3),
        ("effects show refund:nothing", "NOT_FOUND", 3),
        ("submit nobody go", "NOT_FOUND", 3),
        ("show a.b", "BAD_IDENTIFIER", 2),
        ("ls --as nobody", "NOT_ALLOWED", 4),
    ],
)
def test_refusals(line: str, code: str, exit_code: int, command: Command) -> None:
    done = command(*line.split(), "-o", "json")
    assert (done.code, done.error["code"]) == (exit_code, code), done.err
    assert done.out == ""


def test_a_file_of_tasks_is_submitted(command: Command, tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.jsonl"
    lines = [{"goal": GOAL, "inputs": {"order_id": f"small-f{number}"}} for number in range(3)]
    tasks.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = command("submit", "refund", "--file", str(tasks), "--wait", "-o", "json")
    assert done.code == 0, done.err
    assert [row["status"] for row in done.json["runs"]] == ["SUCCEEDED"] * 3


def test_wait_gives_up_after_its_timeout(tmp_path: Path) -> None:
    with running("--paused", cwd=tmp_path):
        line = ("submit", "refund", GOAL, "--wait", "--timeout", "500ms", "-o", "json")
        done = treadle(*line, cwd=tmp_path)
        assert (done.code, done.error["code"]) == (124, "TIMEOUT")
        queued = treadle("ls", "-o", "json", cwd=tmp_path).json["runs"]
        assert [run["status"] for run in queued] == ["QUEUED"]


def test_ctrl_c_leaves_the_run_alone(tmp_path: Path) -> None:
    with running("--paused", cwd=tmp_path):
        line = [TREADLE, "submit", "refund", GOAL, "--wait", "-v"]
        with subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as waiting:
            assert waiting.stderr is not None
            while "run_created" not in waiting.stderr.readline():
                assert waiting.poll() is None
            os.kill(waiting.pid, signal.SIGINT)
            _, rest = waiting.communicate(timeout=20)
        assert waiting.returncode == 130
        assert "go on" in rest
        assert len(treadle("ls", "-o", "name", cwd=tmp_path).out.split()) == 1


def test_a_scaffolded_app_runs(tmp_path: Path) -> None:
    assert treadle("init", "mine", cwd=tmp_path).code == 0
    place = tmp_path / "mine"
    with running(cwd=place, app="app:app"):
        line = ("submit", "welcome", "Welcome customer c-1", "-i", "customer_id=c-1", "--wait")
        done = treadle(*line, cwd=place)
        assert done.code == 0, done.err
    assert len((place / "outbox.jsonl").read_text().splitlines()) == 1
