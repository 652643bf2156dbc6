import sys
from pathlib import Path

import pytest

from tests.unit.treadle.cli.fakes import RunCli


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_show_prints_every_value_and_its_origin(
    cli: RunCli, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "treadle.toml").write_text("[runtime]\nslots = 7\n")
    monkeypatch.setenv("TREADLE_RUNTIME__LEASE_S", "9")
    reply = cli("config", "show", "--origin", "-o", "json").json
    assert reply["settings"]["runtime.slots"] == 7
    assert reply["origins"]["runtime.slots"].endswith("treadle.toml")
    assert reply["origins"]["runtime.lease_s"] == "TREADLE_RUNTIME__LEASE_S"
    assert reply["origins"]["nats.url"] == "default"
    assert "origins" not in cli("config", "-o", "json").json
    line = next(x for x in cli("config").out.splitlines() if x.startswith("runtime.slots"))
    assert line.split() == ["runtime.slots", "7"]


def test_secrets_are_hidden(cli: RunCli, here: Path) -> None:
    (here / "treadle.toml").write_text(
        '[nats]\nurl = "nats://me:hunter2@127.0.0.1:4222"\n'
        '[notify]\nwebhook = "https://hooks.example/T0/hunter2?k=hunter2"\n'
        'command = ["tell", "--token", "hunter2", "--api-key=hunter2", "--loud"]\n'
    )
    result = cli("config", "show", "--origin")
    assert "hunter2" not in result.out
    assert "hooks.example" in result.out
    assert "--loud" in result.out
    assert "hunter2" not in cli("config", "show", "-o", "json").out


def test_check_says_what_is_wrong(cli: RunCli, here: Path) -> None:
    assert cli("config", "check").out == "the configuration is fine\n"
    (here / "treadle.toml").write_text("[runtime]\nslotz = 7\n")
    (here / "policy.toml").write_text("[limits.x]\nvalue = 1\n")
    result = cli("config", "check", "-o", "json")
    assert result.code == 8
    wheres = [finding["where"] for finding in result.json["findings"]]
    assert len(wheres) == 2
    assert "runtime.slotz" in wheres[0]
    assert "runtime.slots" in cli("config", "check").out


def test_the_files_beside_an_app_count(
    cli: RunCli, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = here / "beside"
    folder.mkdir()
    (folder / "configured_app.py").write_text("app = None\n")
    (folder / "treadle.toml").write_text("[runtime]\nslots = 3\n")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    line = ("config", "show", "--app", "configured_app:app", "--origin", "-o", "json")
    reply = cli(*line).json
    assert reply["settings"]["runtime.slots"] == 3
    assert reply["origins"]["runtime.slots"] == str(folder / "treadle.toml")
    assert cli("config", "check", "--app", "configured_app:app").code == 8
    assert cli("config", "show", "--app", "nowhere:app").code == 2


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str, cli: RunCli) -> None:
    result = cli("completion", shell)
    assert result.code == 0
    assert "_TREADLE_COMPLETE" in result.out
    assert cli("completion", "tcsh").code == 2
