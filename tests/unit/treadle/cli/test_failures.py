import click
import pytest

from messages.errors import (
    BadIdentifier,
    BrokenChain,
    BusError,
    Conflict,
    DeadlineExceeded,
    ModelError,
    NoResponders,
    NotAllowed,
    NotFound,
    RemoteFailure,
    TreadleError,
    Unreachable,
)
from tests.unit.treadle.cli.fakes import FakeDaemon, RunCli
from treadle.cli.failures import TimedOutError, describe


@pytest.mark.parametrize(
    ("error", "code", "exit_code"),
    [
        (TreadleError("no"), "ERROR", 1),
        (ModelError("overloaded", "busy"), "MODEL", 1),
        (BadIdentifier("run", "a b"), "BAD_IDENTIFIER", 2),
        (NotFound("run", "x"), "NOT_FOUND", 3),
        (NotAllowed("no"), "NOT_ALLOWED", 4),
        (Conflict("too late", why="ALREADY_DECIDED"), "ALREADY_DECIDED", 7),
        (BrokenChain("entry 3"), "BROKEN_CHAIN", 8),
        (Unreachable("no"), "UNREACHABLE", 69),
        (NoResponders("no"), "NO_RESPONDERS", 69),
        (DeadlineExceeded("late"), "DEADLINE", 124),
        (TimedOutError("late"), "TIMEOUT", 124),
        (RemoteFailure("NOT_FOUND", "no run"), "NOT_FOUND", 3),
        (RemoteFailure("SOMETHING_NEW", "?"), "SOMETHING_NEW", 1),
        (KeyboardInterrupt(), "INTERRUPTED", 130),
        (click.Abort(), "INTERRUPTED", 130),
        (PermissionError(13, "Permission denied", "x"), "IO", 1),
        (ZeroDivisionError("by zero"), "INTERNAL", 1),
    ],
)
def test_each_error_has_its_exit_code(error: BaseException, code: str, exit_code: int) -> None:
    failure = describe(error)
    assert (failure.code, failure.exit_code) == (code, exit_code)


def test_one_error_inside_task_groups_is_that_error() -> None:
    inner = ExceptionGroup("tasks", [NotFound("run", "x")])
    assert describe(BaseExceptionGroup("tasks", [inner])).code == "NOT_FOUND"


def test_different_errors_inside_a_group_stay_a_group() -> None:
    group = ExceptionGroup("tasks", [NotFound("run", "x"), BusError("down")])
    assert describe(group).code == "INTERNAL"


@pytest.mark.parametrize("line", ["-o json show run-9", "show run-9 -o jsonl", "show -ojson run-9"])
def test_an_error_is_one_json_object_on_stderr(line: str, cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.refusal = Conflict("it ended", why="ENDED", hint="look at it")
    result = cli(*line.split())
    assert (result.code, result.out) == (7, "")
    assert result.error == {
        "code": "ENDED",
        "message": "it ended",
        "hint": "look at it",
        "retryable": False,
    }


def test_an_error_for_people_names_code_and_hint(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.refusal = NotFound("run", "run-9", hint="treadle ls")
    result = cli("show", "run-9")
    assert result.code == 3
    assert result.err == "error: no run 'run-9' (NOT_FOUND)\nhint: treadle ls\n"


@pytest.mark.parametrize(
    "line",
    ["nope", "ls --nope", "show", "ls --limit x", "-o xml ls", "deny apr-1", "approve", "up"],
)
def test_wrong_usage_is_2(line: str, cli: RunCli) -> None:
    result = cli(*line.split())
    assert (result.code, result.out) == (2, "")
    assert "(USAGE)" in result.err


def test_wrong_usage_with_json_is_an_object_too(cli: RunCli) -> None:
    result = cli("ls", "--nope", "-o", "json")
    assert result.code == 2
    assert result.error["code"] == "USAGE"
    assert result.error["hint"] == "treadle ls --help"


def test_verbose_shows_where_a_defect_is(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.refusal = ZeroDivisionError("by zero")
    assert "Traceback" in cli("-v", "show", "run-1").err
    assert "Traceback" not in cli("show", "run-1").err


def test_an_unreachable_daemon_is_69(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.is_down = True
    result = cli("submit", "refund", "go", "-o", "json")
    assert result.code == 69
    assert result.error["code"] == "UNREACHABLE"
    assert result.error["retryable"] is True
