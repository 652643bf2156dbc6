"""The lock beside a ledger: who has it, who had it."""

import os
from pathlib import Path

import pytest

from messages.errors import AlreadyRunning
from runtime.ledger.file_lock import FileLock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db.lock"


def test_whoever_takes_it_is_told_who_had_it_last(path: Path) -> None:
    told: list[str] = []
    for name in ("proc-1", "", "proc-3"):
        lock = FileLock(path)
        told.append(lock.acquire(name))
        lock.release()
    assert told == ["", "proc-1", ""]


def test_whoever_is_refused_is_told_the_pid_and_changes_nothing(path: Path) -> None:
    lock = FileLock(path)
    _ = lock.acquire("proc-1")
    with pytest.raises(AlreadyRunning, match=str(os.getpid())):
        _ = FileLock(path).acquire("proc-2")
    lock.release()
    assert FileLock(path).acquire() == "proc-1"


@pytest.mark.parametrize("content", ["", "4711", "not a pid", "\n\n"])
def test_what_an_older_version_left_names_nobody(path: Path, content: str) -> None:
    path.write_text(content)
    assert FileLock(path).acquire("proc-1") == ""
