"""``treadle eval`` as a user runs it, and what its runs look like afterwards."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.cli_process import TREADLE, treadle
from tests.acceptance.seeds_table import FIGURES
from tests.acceptance.test_cli_daemon import running

pytestmark = pytest.mark.timeout(120)

ROOT = Path(__file__).parents[2]
IN_CHECKOUT = "treadle/examples/evals/loop_detection.toml"
SUITE = IN_CHECKOUT if (ROOT / IN_CHECKOUT).exists() else "loop_detection"
"""The file where there is a checkout, else the suite of that name that ships in the wheel."""
SLOW = """
name = "slow"
[configurations.a]
budget = { max_steps = 900, max_tokens = 100_000_000, max_seconds = 900 }
progress = { warn_at = 1000, stop_at = 1000, stall_at = 1000, window = 1 }
[tools.look]
description = "Look."
results = [{ returns = 1 }]
[[tasks]]
name = "t"
repeat = 20
turns = [{ call = "look", repeat = 800 }, { finish = "x" }]
"""


def test_the_suite_of_the_source_gives_its_table_twice_and_is_stored(tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "data"))
    for times in (1, 2):
        done = treadle("-o", "json", "eval", SUITE, *data, cwd=ROOT)
        assert done.code == 0, done.err
        assert done.json == {"v": 1, "configurations": FIGURES}
        for name, figures in FIGURES.items():
            labels = ("--label", "eval=loop_detection", "--label", f"configuration={name}")
            listed = treadle("ls", *labels, *data, "-o", "json", cwd=tmp_path).json["runs"]
            assert len(listed) == 20 * times
            stored = treadle("metrics", *labels, *data, "-o", "json", cwd=tmp_path).json
            assert {key: stored[key] for key in figures} == {**figures, "runs": 20 * times}
    evaluation = done.err.split("evaluation=")[1].strip()
    mine = treadle("metrics", "--label", f"evaluation={evaluation}", *data, "-o", "json", cwd=ROOT)
    assert mine.json["runs"] == 40


def test_a_suite_that_ships_needs_no_path_and_people_read_a_table(tmp_path: Path) -> None:
    done = treadle("eval", "loop_detection", cwd=tmp_path)
    assert done.code == 0, done.err
    head, on, off, _, on_ends, off_ends = done.out.splitlines()
    assert head.split()[:4] == ["CONFIGURATION", "LOOPS", "BUDGET", "STOPS"]
    assert on.split()[:5] == ["on", "25.0%", "0.0%", "100.0%", "75.0%"]
    assert off.split()[:5] == ["off", "0.0%", "0.0%", "100.0%", "100.0%"]
    assert on_ends.split(maxsplit=1)[1] == (
        "15 SUCCEEDED (unverified), 5 NO_PROGRESS (repeated_action)"
    )
    assert off_ends.endswith("20 SUCCEEDED (unverified)")


def test_mistakes_are_named_and_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text('name = "x"\ntask = []\n')
    (tmp_path / "folder").mkdir()
    for arguments, code, word in (
        (("bad.toml",), 2, "CONFIG"),
        (("folder",), 2, "CONFIG"),
        (("nothing.toml",), 3, "NOT_FOUND"),
        (("../nothing",), 3, "NOT_FOUND"),
        ((), 2, "USAGE"),
        (("loop_detection", "--nats", "nats://127.0.0.1:4222"), 2, "USAGE"),
        (("loop_detection", "--timeout", "soon"), 2, "USAGE"),
        (("loop_detection", "--data-dir", "bad.toml"), 1, "IO"),
    ):
        done = treadle("eval", *arguments, "-o", "json", cwd=tmp_path)
        assert (done.code, done.error["code"], done.out) == (code, word, ""), done.err
    assert not (tmp_path / ".treadle").exists()


def test_beside_a_daemon_it_says_what_to_do(tmp_path: Path) -> None:
    with running(cwd=tmp_path):
        done = treadle("eval", "loop_detection", "-o", "json", cwd=tmp_path)
        assert (done.code, done.error["code"]) == (1, "ALREADY_RUNNING")
        assert "stop the daemon, or give another --data-dir" in done.error["hint"]
        beside = treadle("eval", "loop_detection", "--data-dir", "other", cwd=tmp_path)
        assert beside.code == 0, beside.err


def test_too_late_is_124_and_nothing_stays_open(tmp_path: Path) -> None:
    (tmp_path / "slow.toml").write_text(SLOW)
    done = treadle("eval", "slow.toml", "--timeout", "1", "-o", "json", cwd=tmp_path)
    assert (done.code, done.error["code"]) == (124, "DEADLINE")
    assert ended(tmp_path) == {"CANCELLED"}


def test_an_interrupted_evaluation_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "slow.toml").write_text(SLOW)
    command = [TREADLE, "eval", "slow.toml", "-o", "json"]
    playing = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert playing.stderr is not None
    assert "20 runs of slow" in playing.stderr.readline()
    while not (tmp_path / ".treadle" / "ledger.db").exists() or not ended(tmp_path):
        assert playing.poll() is None
    os.kill(playing.pid, signal.SIGINT)
    assert playing.wait(30) == 130
    assert "the runs under way were cancelled" in playing.stderr.read()
    playing.stderr.close()
    assert ended(tmp_path) == {"CANCELLED"}
    assert treadle("eval", "loop_detection", cwd=tmp_path).code == 0


def ended(place: Path) -> set[str]:
    """The statuses of the suite's runs."""
    rows = treadle("ls", "--label", "eval=slow", "-o", "json", cwd=place).json["runs"]
    return {row["status"] for row in rows}
