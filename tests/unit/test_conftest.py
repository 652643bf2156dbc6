"""The guard against a blocked event loop is itself tested: a silent guard is worse than none."""

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

pytest_plugins = ["pytester"]

SWALLOWED = """
import time

async def test_swallowed():
    try:
        time.sleep(0.001)
    except Exception:
        pass
"""

WAIVED = """
import time
import pytest

@pytest.mark.blocking("shows that the waiver works")
async def test_waived():
    time.sleep(0.001)

@pytest.mark.blocking
async def test_waived_without_a_reason():
    pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    here = Path(__file__).parents[1]
    pytester.makeconftest((here / "conftest.py").read_text())
    pytester.makeini("[pytest]\nanyio_mode = auto\nmarkers =\n    blocking(reason): waived\n")
    return pytester


def run(suite: pytest.Pytester) -> pytest.RunResult:
    return suite.runpytest_subprocess("-p", "no:cacheprovider")


def test_a_swallowed_blocking_call_still_fails(suite: pytest.Pytester) -> None:
    suite.makepyfile(SWALLOWED)
    result = run(suite)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*time.sleep, in *test_swallowed*"])


def test_a_waiver_needs_a_reason(suite: pytest.Pytester) -> None:
    suite.makepyfile(WAIVED)
    run(suite).assert_outcomes(passed=1, errors=1)


async def test_threads_may_block(data_dir: Path) -> None:
    def use() -> int:
        time.sleep(0.001)
        with closing(sqlite3.connect(data_dir / "x.db")) as database:
            database.execute("create table t (a)")
        return 1

    assert await anyio.to_thread.run_sync(use) == 1


async def test_processes_may_be_started() -> None:
    done = await anyio.run_process([sys.executable, "-c", "print(1)"])
    assert done.stdout.strip() == b"1"


@pytest.fixture
def child() -> int:
    return subprocess.run([sys.executable, "-c", ""], check=False).returncode


async def test_a_fixture_may_run_a_process(child: int) -> None:
    assert child == 0
