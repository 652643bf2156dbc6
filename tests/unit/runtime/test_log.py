import io
import json
import subprocess
import sys
from collections.abc import Generator

import anyio
import pytest

from runtime.clock import FakeClock
from runtime.log import Level, Line, describe, log, scope, set_up, silence


@pytest.fixture
def stream() -> Generator[io.StringIO]:
    yield io.StringIO()
    silence()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_one_json_object(stream: io.StringIO) -> None:
    set_up(FakeClock(now=1_700_000_000.25), stream=stream)
    log(Line.READY, url="nats://127.0.0.1:4222", pid=7, http=None)
    assert lines(stream) == [
        {
            "ts": "2023-11-14T22:13:20.250Z",
            "level": "info",
            "event": "ready",
            "url": "nats://127.0.0.1:4222",
            "pid": 7,
        }
    ]


async def test_every_line_inside_a_scope_carries_the_run(stream: io.StringIO) -> None:
    set_up(FakeClock(), stream=stream)

    async def drive(run_id: str) -> None:
        with scope(tenant="default", run_id=run_id):
            log(Line.RUN_TAKEN)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.lowlevel.checkpoint)
                log(Line.STEP_DECIDED, step=1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(drive, "run-1")
        tasks.start_soon(drive, "run-2")
    log(Line.STOPPED)
    by_run = [(line.get("run_id"), line["event"]) for line in lines(stream)]
    assert sorted(by_run[:4], key=str) == [
        ("run-1", "run_taken"),
        ("run-1", "step_decided"),
        ("run-2", "run_taken"),
        ("run-2", "step_decided"),
    ]
    assert by_run[4] == (None, "stopped")


def test_low_levels_are_dropped(stream: io.StringIO) -> None:
    set_up(FakeClock(), stream=stream, level=Level.WARNING)
    log(Line.READY)
    log(Line.BUS_ERROR, Level.ERROR)
    assert [line["event"] for line in lines(stream)] == ["bus_error"]


def test_long_values_are_cut(stream: io.StringIO) -> None:
    set_up(FakeClock(), stream=stream)
    log(Line.NOTIFY_FAILED, message="x" * 10_000)
    assert len(str(lines(stream)[0]["message"])) == 500


def test_text_drives_no_terminal(stream: io.StringIO) -> None:
    set_up(FakeClock(), stream=stream, form="text")
    log(Line.TOOL_CALLED, tool="lookup_order", message="a\x1b[2J\nfake line")
    assert stream.getvalue() == (
        "22:13:20 info    tool_called tool=lookup_order message='a\\x1b[2J\\nfake line'\n"
    )


def test_the_environment_chooses_the_form(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_LOG", "text")
    set_up(FakeClock(), stream=stream)
    log(Line.READY)
    assert stream.getvalue() == "22:13:20 info    ready\n"


def test_nothing_is_written_before_set_up(capfd: pytest.CaptureFixture[str]) -> None:
    log(Line.READY, Level.ERROR)
    assert capfd.readouterr() == ("", "")


async def test_writing_to_stderr_inside_the_loop_is_allowed() -> None:
    set_up(FakeClock())
    log(Line.READY)
    silence()


def test_an_error_is_described_without_its_payload() -> None:
    try:
        raise ValueError("first line\nsecond line with a payload")  # noqa: TRY301 -- the text is the test
    except ValueError as error:
        described = describe(error)
    assert described["error"] == "ValueError"
    assert described["message"] == "first line"
    assert "test_log.py" in str(described["at"])


def test_importing_the_log_does_not_import_structlog() -> None:
    code = "import sys, runtime.log; sys.exit('structlog' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
