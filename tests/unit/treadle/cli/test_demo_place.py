import json
import os
from pathlib import Path

import pytest

from messages.errors import AlreadyRunning, UsageError
from treadle.cli.demo_place import fresh_place, running_pid


def test_a_new_place_is_made_and_private(tmp_path: Path) -> None:
    place = tmp_path / "a" / "demo"
    assert fresh_place(place) is None
    assert place.stat().st_mode & 0o777 == 0o700


def test_earlier_demos_are_moved_aside_and_kept(tmp_path: Path) -> None:
    place = tmp_path / "demo"
    for expected in (None, tmp_path / "demo-1", tmp_path / "demo-2"):
        assert fresh_place(place) == expected
        (place / "ledger.db").write_text(str(expected))
    assert (tmp_path / "demo-1" / "ledger.db").read_text() == "None"


def test_an_empty_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    assert fresh_place(tmp_path) is None


def test_what_no_demo_made_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("keep me")
    with pytest.raises(UsageError, match="not made by a demo"):
        fresh_place(tmp_path)
    with pytest.raises(UsageError):
        fresh_place(tmp_path / "note.txt")
    assert (tmp_path / "note.txt").read_text() == "keep me"


def test_a_demo_that_runs_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "demo"
    fresh_place(place)
    (place / "connection.json").write_text(json.dumps({"pid": os.getpid()}))
    with pytest.raises(AlreadyRunning):
        fresh_place(place)
    assert place.exists()


@pytest.mark.parametrize("content", ["", "{}", '{"pid": "x"}', '{"pid": 999999999}'])
def test_a_stale_or_broken_connection_file_is_no_daemon(content: str, tmp_path: Path) -> None:
    (tmp_path / "connection.json").write_text(content)
    assert running_pid(tmp_path) is None
