"""What operators do every day, against a running daemon: look, hold, answer, call, mend."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli_process import Done, treadle
from tests.acceptance.test_cli_daemon import Command, asked, running, submit

ROLES = {
    "gateway",
    "orchestrator",
    "planner",
    "validator",
    "authoriser",
    "executor",
    "monitor",
    "checkpointer",
    "notifier",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operations")


@pytest.fixture(scope="module")
def command(place: Path) -> Generator[Command]:
    with running("--http", "127.0.0.1:0", cwd=place):
        yield lambda *arguments: treadle(*arguments, cwd=place)


def connection(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((place / ".treadle" / "connection.json").read_text())
    return found


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 -- our own daemon
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def publish(place: Path, payload: bytes, agent: str = "refund") -> None:
    """A task as any NATS client sends it, without a library."""
    here = connection(place)
    host, _, port = here["url"].removeprefix("nats://").partition(":")
    user = here["users"]["submitter"]
    with socket.create_connection((host, int(port)), timeout=5) as wire:
        login = {"user": user["user"], "pass": user["password"], "verbose": False}
        subject = f"treadle.tasks.default.{user['user']}.{agent}"
        wire.sendall(f"CONNECT {json.dumps(login)}\r\n".encode())
        wire.sendall(f"PUB {subject} {len(payload)}\r\n".encode() + payload + b"\r\nPING\r\n")
        heard = b""
        while b"PONG" not in heard:
            heard += wire.recv(4096)
        assert b"-ERR" not in heard, heard


def letters(command: Command, count: int) -> list[dict[str, Any]]:
    """The dead letters, once there are so many."""
    rows: list[dict[str, Any]] = []
    for _ in range(50):
        rows = command("dlq", "ls", "-o", "json").json["letters"]
        if len(rows) == count:
            return rows
    raise AssertionError(rows)


# ------------------------------------------------------------------ looking
def test_trace_shows_what_a_run_did(command: Command) -> None:
    run_id = submit(command, "small-t1", "--wait").json["run_id"]
    run = command("trace", run_id, "-o", "json").json
    assert run["status"] == "SUCCEEDED"
    tools = [call["tool"] for step in run["steps"] for call in step["calls"]]
    assert "issue_refund" in tools
    assert sum(step["tokens"] for step in run["steps"]) == run["usage"]["tokens"]
    text = command("trace", run_id).out
    assert "issue_refund(" in text
    assert "└" in text or "- " in text
    assert command("trace", "run-9", "-o", "json").error["code"] == "NOT_FOUND"


def test_agents_tools_and_actors(command: Command) -> None:
    assert command("agents", "-o", "name").out == "refund\n"
    agent = command("agents", "show", "refund", "-o", "json").json
    assert {tool["name"] for tool in agent["tools"]} >= {"lookup_order", "issue_refund"}
    assert "lookup_order" in command("tools").out
    rows = command("actors", "-o", "json").json["actors"]
    assert {row["role"] for row in rows} == ROLES
    assert len(rows) == len(ROLES)
    executor = next(row for row in rows if row["role"] == "executor")
    assert "lookup_order" in executor["tools"]
    assert all(row["pid"] for row in rows)


def test_a_read_is_called_by_hand(command: Command) -> None:
    done = command("tools", "call", "lookup_order", "order_id=8472", "-o", "json")
    assert done.code == 0, done.err
    assert done.json["evidence"]["payload"]["order_id"] == "8472"
    run = command("show", done.json["run_id"], "-o", "json").json
    assert (run["status"], run["principal"], run["usage"]["usd"]) == (
        "SUCCEEDED",
        "operator",
        "0.00",
    )
    steps = command("trace", done.json["run_id"], "-o", "json").json["steps"]
    assert steps[0]["calls"][0]["decision"] == "allow"


def test_what_is_not_called_by_hand(command: Command) -> None:
    write = command("tools", "call", "issue_refund", "order_id=1", "-o", "json")
    assert (write.code, write.error["code"]) == (4, "NOT_ALLOWED")
    unknown = command("tools", "call", "nothing", "-o", "json")
    assert (unknown.code, unknown.error["code"]) == (3, "NOT_FOUND")
    wrong = command("tools", "call", "lookup_order", "nothing=1", "-o", "json")
    assert wrong.code == 1
    assert wrong.json["problem"]["code"] == "BAD_ARGUMENTS"


def test_approve_prints_what_was_decided(command: Command) -> None:
    approval = asked(command, "big-d1")
    shown = command("show", approval["run_id"]).out
    assert f"treadle approvals show {approval['id']}" in shown
    done = command("approve", approval["id"])
    assert done.code == 0, done.err
    assert 'order_id="big-d1"' in done.out
    assert "by approver" in done.out


# ------------------------------------------------------------------ holding
def test_pause_and_resume_one_run(command: Command) -> None:
    run_id = asked(command, "big-p1")["run_id"]
    assert command("pause", run_id, "--reason", "look").code == 0
    status = ""
    for _ in range(50):
        status = command("show", run_id, "-o", "json").json["status"]
        if status == "PAUSED":
            break
    assert status == "PAUSED"
    assert command("resume", run_id).code == 0
    for _ in range(50):
        status = command("show", run_id, "-o", "json").json["status"]
        if status != "PAUSED":
            break
    assert status == "AWAITING_APPROVAL"
    assert command("pause", "run-9", "-o", "json").error["code"] == "NOT_FOUND"


def test_an_agent_on_hold_takes_tasks_and_waits(command: Command) -> None:
    assert command("pause", "--agent", "refund").code == 2
    assert command("pause", "--agent", "nobody", "--yes", "-o", "json").error["code"] == "NOT_FOUND"
    held = command("pause", "--agent", "refund", "--yes", "-o", "json")
    assert held.json["held"] == "refund"
    run_id = submit(command, "small-h1").json["run_id"]
    assert command("show", run_id, "-o", "json").json["status"] == "QUEUED"
    assert command("resume", "--agent", "refund").code == 0
    command("watch", run_id, "-q")
    assert command("show", run_id, "-o", "json").json["status"] == "SUCCEEDED"


def test_resume_all_lifts_the_hold_of_up_paused(tmp_path: Path) -> None:
    with running("--paused", cwd=tmp_path):
        line = ("submit", "refund", "It was charged twice.", "-i", "order_id=small-1", "-o", "name")
        run_id = treadle(*line, cwd=tmp_path).out.strip()
        assert treadle("resume", "--all", cwd=tmp_path).out == "lifted: everything\n"
        treadle("watch", run_id, "-q", cwd=tmp_path)
        run = treadle("show", run_id, "-o", "json", cwd=tmp_path).json
        assert run["status"] == "SUCCEEDED"
    # and the data directory says the same without a daemon
    assert treadle("trace", run_id, "-o", "json", cwd=tmp_path).json["status"] == "SUCCEEDED"


def test_a_run_that_asks_nothing_is_not_answered(command: Command) -> None:
    run_id = submit(command, "small-a1", "--wait").json["run_id"]
    done = command("answer", run_id, "yes", "-o", "json")
    assert (done.code, done.error["code"]) == (7, "NOT_WAITING")


ASKING = '''
from treadle import Agent, App, Ctx, read
from treadle.testing import Script, call

@read(scope="a:read", source="a")
async def look(ctx: Ctx[None], what: str) -> str:
    """Look."""
    return what

def play(view):
    if "continued" in view.inputs:
        return call("finish", output=str(view.inputs["continued"]["answer"]))
    return call("ask_user", question="Which payment?")

app = App(Agent("asker", model="scripted", instructions="Ask.", tools=[look]), script=play)
'''


def test_an_answer_continues_a_run_that_needs_input(tmp_path: Path) -> None:
    (tmp_path / "asking.py").write_text(ASKING)
    with running(cwd=tmp_path, app="asking:app"):
        first = treadle("submit", "asker", "go", "--wait", "-o", "json", cwd=tmp_path)
        assert (first.code, first.json["status"]) == (6, "NEEDS_INPUT")
        run_id = first.json["run_id"]
        assert f"treadle answer {run_id}" in treadle("show", run_id, cwd=tmp_path).out
        (tmp_path / "answer.txt").write_text("PAY-78\n")
        done = treadle("answer", run_id, "-f", "answer.txt", "-o", "json", cwd=tmp_path)
        assert done.code == 0, done.err
        following = done.json["run_id"]
        assert following != run_id
        treadle("watch", following, "-q", cwd=tmp_path)
        run = treadle("show", following, "-o", "json", cwd=tmp_path).json
        assert (run["status"], run["continues"]) == ("SUCCEEDED", run_id)
        assert "PAY-78" in json.dumps(run["output"]) + run["summary"]
        again = treadle("answer", run_id, "PAY-79", "-o", "json", cwd=tmp_path)
        assert again.json["existing"] is True


# ------------------------------------------------------------------ mending
def test_dead_letters_are_shown_sent_again_and_dropped(command: Command, place: Path) -> None:
    publish(place, b'{"goal": ""}')
    [letter] = letters(command, 1)
    assert (letter["code"], letter["subject"]) == (
        "BAD_TASK",
        "treadle.tasks.default.submitter.refund",
    )
    number = str(letter["id"])
    assert '{"goal": ""}' in command("dlq", "show", number).out
    sent = command("dlq", "retry", number, "-o", "json")
    assert sent.code == 0, sent.err
    [fresh] = letters(command, 1)  # it is as bad as it was
    assert fresh["id"] > letter["id"]
    found = command("doctor", "-o", "json")
    assert found.code == 8
    assert [row["name"] for row in found.json["findings"]] == ["dead letters"]
    number = str(fresh["id"])
    assert command("dlq", "drop", number, "--reason", "a test").code == 2
    assert command("dlq", "drop", number, "--reason", "a test", "--yes").code == 0
    assert letters(command, 0) == []
    gone = command("dlq", "show", number, "-o", "json")
    assert (gone.code, gone.error["code"]) == (3, "NOT_FOUND")


def test_dead_letters_are_for_operators(command: Command) -> None:
    done = command("dlq", "--as", "submitter", "-o", "json")
    assert (done.code, done.error["code"]) == (4, "NOT_ALLOWED")


def test_a_doctor_finds_nothing_where_all_is_well(tmp_path: Path) -> None:
    with running(cwd=tmp_path):
        done = treadle("doctor", "-o", "json", cwd=tmp_path)
        assert done.code == 0, done.out
        assert {row["name"] for row in done.json["checks"]} >= {"nats", "ledger", "actors", "disk"}
    done = treadle("doctor", "-o", "json", cwd=tmp_path)
    assert done.code == 8
    assert [row["name"] for row in done.json["findings"]] == ["nats"]


# ------------------------------------------------------------------ HTTP
def test_livez_and_readyz(command: Command, place: Path) -> None:
    assert command("version").code == 0
    url = connection(place)["http"]
    assert url.startswith("http://127.0.0.1:")
    assert get(f"{url}/livez") == (200, "ok\n")
    assert get(f"{url}/readyz") == (200, "ok\n")
    status, text = get(f"{url}/readyz?verbose")
    assert status == 200
    assert {f"[+] role {role}" for role in ROLES} <= set(text.splitlines())
    assert get(f"{url}/secrets")[0] == 404


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "nowhere", "10.0.0.1:80"])
def test_http_is_for_this_host_alone(listen: str, tmp_path: Path) -> None:
    line = ("up", "--app", "treadle.examples.refunds.app:app", "--model", "scripted")
    done: Done = treadle(*line, "--http", listen, "-o", "json", cwd=tmp_path)
    assert (done.code, done.error["code"]) == (2, "CONFIG")


def test_a_process_says_what_it_serves_and_a_doctor_what_is_missing(tmp_path: Path) -> None:
    most = ",".join(sorted(ROLES - {"executor"}))
    with running("--roles", most, "--http", "127.0.0.1:0", cwd=tmp_path):
        url = connection(tmp_path)["http"]
        status, text = get(f"{url}/readyz?verbose")
        assert status == 200  # this process is as it should be
        assert "role executor" not in text
        found = treadle("doctor", "-o", "json", cwd=tmp_path)
        assert found.code == 8
        assert [row["name"] for row in found.json["findings"]] == ["actors"]
        assert "executor" in found.json["findings"][0]["detail"]
        joined = tmp_path / "joined"
        joined.mkdir()
        file = str(tmp_path / ".treadle" / "join.json")
        line = ("--roles", "executor", "--join", file, "--http", "127.0.0.1:0")
        with running(*line, cwd=joined):
            assert treadle("doctor", cwd=tmp_path).code == 0
            rows = treadle("actors", "-o", "json", cwd=tmp_path).json["actors"]
            assert len({row["pid"] for row in rows}) == 2
            said = (joined / "daemon.stderr").read_text()
            [own] = [word for word in said.split() if word.startswith("http://")]
            assert get(f"{own}/readyz?verbose")[1].splitlines() == [
                "[+] nats",
                "[+] role executor",
                "[+] ledger",
                "ok",
            ]
