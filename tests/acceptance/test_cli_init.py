import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.cli_process import treadle

FILES = {
    "app.py",
    "tools.py",
    "policy.toml",
    "treadle.toml",
    "tests/test_app.py",
    "README.md",
}


@pytest.fixture
def scaffold(tmp_path: Path) -> Path:
    done = treadle("init", "mine", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    return tmp_path / "mine"


def test_init_writes_an_app(scaffold: Path) -> None:
    written = {str(path.relative_to(scaffold)) for path in scaffold.rglob("*") if path.is_file()}
    assert written == FILES


def test_the_app_passes_check(scaffold: Path) -> None:
    done = treadle("check", "app:app", cwd=scaffold)
    assert (done.code, done.err) == (0, ""), done.out


def test_the_test_passes(scaffold: Path) -> None:
    line = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
    done = subprocess.run(line, cwd=scaffold, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_init_as_json_names_the_files(tmp_path: Path) -> None:
    done = treadle("init", "mine", "-o", "json", cwd=tmp_path)
    assert {str(Path(name).relative_to("mine")) for name in done.json["files"]} == FILES


def test_init_touches_no_folder_that_holds_something(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note.txt").write_text("keep me")
    done = treadle("init", "mine", cwd=tmp_path)
    assert done.code == 2
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["note.txt"]


def test_init_fills_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert treadle("init", "mine", cwd=tmp_path).code == 0
