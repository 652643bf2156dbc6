import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.treadle.cli.fakes import FakeDaemon, RunCli, run_row
from treadle.cli.main import COMMANDS, cli
from treadle.cli.options import Command, Options, Room


@pytest.mark.parametrize(
    "line",
    ["-o json ls", "ls -o json", "ls --output json", "--output=json ls", "-o table ls -o json"],
)
def test_global_options_stand_before_or_after_the_command(
    line: str, cli: RunCli, daemon: FakeDaemon
) -> None:
    daemon.runs = [run_row()]
    result = cli(*line.split())
    assert result.code == 0
    assert result.json["runs"][0]["run_id"] == "run-1"


@pytest.mark.parametrize(
    "line", ["-o name approvals ls", "approvals -o name ls", "approvals ls -o name"]
)
def test_global_options_stand_between_a_noun_and_its_verb(
    line: str, cli: RunCli, daemon: FakeDaemon
) -> None:
    daemon.waiting = [{"id": "apr-1"}]
    assert cli(*line.split()).out == "apr-1\n"


def test_a_noun_alone_lists(cli: RunCli, daemon: FakeDaemon) -> None:
    assert cli("approvals").code == 0
    assert daemon.asked[0][0] == "approvals"


def test_help_tags_every_command(cli: RunCli) -> None:
    overview = cli("--help").out
    for name, entry in COMMANDS.items():
        assert f"[{entry.effect}] {entry.help}" in overview
        assert f"[{entry.effect}]" in cli(name, "--help").out


def test_the_table_of_commands_says_what_each_command_says() -> None:
    for name, entry in COMMANDS.items():
        found = cli_command(name)
        assert isinstance(found, Command | Room)
        assert found.effect == entry.effect
        assert found.name == name


def cli_command(name: str) -> object:
    return cli.get_command(cli.make_context("treadle", ["version"]), name)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, json\n"
        "from treadle.cli.main import run\n"
        "run(['--help']); run(['nope'])\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stderr.splitlines()[-1])}
    heavy = {"nats", "msgspec", "structlog", "anthropic", "anyio", "asyncio", "aiosqlite", "nacl"}
    assert not heavy & loaded


def test_treadle_alone_is_help(cli: RunCli) -> None:
    result = cli()
    assert result.code == 0
    assert "Usage: treadle" in result.out


@pytest.mark.parametrize(
    ("options", "is_terminal", "expected"),
    [
        (Options(), True, True),
        (Options(), False, False),
        (Options(color="always"), False, True),
        (Options(color="never"), True, False),
    ],
)
def test_color_is_for_terminals(
    options: Options, is_terminal: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert options.has_color(is_terminal=is_terminal) is expected


def test_no_color_says_no_unless_color_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert not Options().has_color(is_terminal=True)
    assert Options(color="always").has_color(is_terminal=True)


def test_the_data_directory_is_dot_treadle_here() -> None:
    assert Options().directory == Path(".treadle")
    assert Options(data_dir=Path("x")).directory == Path("x")


def test_yes_and_no_input_ask_nobody() -> None:
    assert not Options(is_yes=True).may_ask
    assert not Options(is_without_input=True).may_ask
