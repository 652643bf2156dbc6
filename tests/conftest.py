"""What every test gets: one event loop library, guards against what blocks it or is left behind."""

import os
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from blockbuster import BlockBuster, BlockBusterFunction
from blockbuster import blockbuster as detector

from runtime import secrets


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Treadle runs on asyncio: nats-py and aiosqlite know nothing else."""
    return "asyncio"


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """An empty data directory of this test alone, private as the daemon makes it."""
    path = tmp_path / "data"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture(autouse=True)
def loop_never_blocks(request: pytest.FixtureRequest, _guard: BlockBuster) -> Iterator[None]:
    """Fail the test if anything, its fixtures included, blocks the event loop.

    ``@pytest.mark.blocking("why that is right")`` waives it for one test.
    """
    node: pytest.Item = request.node
    waiver = node.get_closest_marker("blocking")
    if waiver is not None:
        if not waiver.args:
            pytest.fail('say why: @pytest.mark.blocking("reason")', pytrace=False)
        _guard.deactivate()
    try:
        yield
    finally:
        if waiver is not None:
            _guard.activate()
        calls, _blocking_calls[:] = _blocking_calls[:], []
    if calls:
        pytest.fail("the event loop was blocked:\n  " + "\n  ".join(calls), pytrace=False)


@pytest.fixture(autouse=True)
def no_secret_is_known() -> Iterator[None]:
    """What one test keeps out of its texts is no secret to the next."""
    yield
    secrets.forget()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Fail the test if it leaves a thread that the interpreter would wait for, a database's say."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if not thread.daemon and not thread.name.startswith("AnyIO"):  # those end with their loop
            thread.join(THREAD_S)
            if thread.is_alive():
                _left_threads.append(thread.name)
                pytest.fail(f"{thread.name} was left behind", pytrace=False)


def pytest_unconfigure() -> None:
    """End where the tests end: a thread that was left behind would be waited for without end."""
    if _left_threads:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)


THREAD_S = 5.0
_left_threads: list[str] = []


@pytest.fixture(scope="session")
def _guard() -> Iterator[BlockBuster]:
    guard = _make_guard()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detector, "BlockingError", _RecordedBlockingError)
        guard.activate()
        try:
            yield guard
        finally:
            guard.deactivate()


_blocking_calls: list[str] = []


class _RecordedBlockingError(detector.BlockingError):
    """Also noted apart, since code under test may swallow it.

    A supervisor that restarts crashed children, or a tool call that turns every exception into a
    result, would leave the test green.
    """

    def __init__(self, func: str) -> None:
        stack = traceback.StackSummary.extract(traceback.walk_stack(None), lookup_lines=False)
        places = [
            f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
            for frame in stack
            if "blockbuster" not in frame.filename and "asyncio" not in frame.filename
        ]
        _blocking_calls.append(f"{func}, in " + " < ".join(places[1:6]))
        super().__init__(func)


def _is_not_waiting(_pid: int, options: int = 0) -> bool:
    return bool(options & os.WNOHANG)


def _make_guard() -> BlockBuster:
    guard = BlockBuster()
    # Two calls that a durable system is tempted to make in place and the detector does not know.
    guard.functions["os.fsync"] = BlockBusterFunction(None, "os.fsync")
    guard.functions["os.waitpid"] = BlockBusterFunction(
        None,
        "os.waitpid",
        can_block_predicate=_is_not_waiting,
        # asyncio calls it once it knows that the child is gone.
        can_block_functions=[("asyncio/unix_events.py", {"_do_wait"})],
    )
    # Starting a process reads a pipe until exec has happened; asyncio itself does so in the loop.
    guard.functions["os.read"].can_block_in("subprocess.py", "_execute_child")
    for function in guard.functions.values():
        # A lazy import reads files once in a process and cannot be awaited.
        function.can_block_in("<frozen importlib._bootstrap>", "_find_and_load")
    return guard
