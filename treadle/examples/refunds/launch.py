"""Finds the payments service of a data directory, starts it, and stops it after its last user.

The rule: every process that uses the service holds a shared lock on one file. A process that
leaves in order gives its lock back and then asks for the whole file; if it gets it, nobody is
left, and it stops the service. A process that is killed, or leaves because of an error, stops
nothing: the service stays, is found by the next ``enter``, and goes on honouring its keys. A
service whose users were all killed ends by itself after ten minutes without a request.

Starting and stopping happen under a lock of their own, so two processes never do both at once.
Everything here blocks, each wait under a deadline; ``open_shop`` calls it in a thread.
"""

import http.client
import json
import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

from treadle.examples.refunds.place import EXIT_HELD, SERVICE, Address, Place, try_lock

T = TypeVar("T")

_MODULE: Final = "treadle.examples.refunds.payments"
_START_S: Final = 15.0
_STOP_S: Final = 5.0
_ANSWER_S: Final = 2.0
_POLL_S: Final = 0.02
_IDLE_EXIT_S: Final = 600
#: A downstream gets none of the daemon's secrets: only what a Python process needs to start.
_PASSED_ON: Final = frozenset(
    {"PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "TZ", "VIRTUAL_ENV"}
)
_PASSED_ON_PREFIXES: Final = ("PAYMENTS_", "PYTHON")


class NoServiceError(Exception):
    """The payments service could not be found or started."""

    def __init__(self, place: Place, problem: str) -> None:
        """Args: place: whose service; problem: what went wrong."""
        super().__init__(f"no payments service for {place.folder}: {problem}; see {place.output}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """This process uses the service until ``leave``."""

    place: Place
    url: str
    #: The open file that holds our share of the users' lock.
    users_fd: int


def enter(place: Place) -> Lease:
    """Use the service of a data directory; start it where none runs.

    Raises:
        NoServiceError: none could be started, or the one there does not answer.
    """
    place.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _switch(place):
        address = find(place) or _start(place)
        # Only a holder of the switch ever locks the whole file, so our share is free.
        users_fd = try_lock(place.users, shared=True)
        if users_fd is None:
            raise NoServiceError(place, f"{place.users} is locked by a stranger")
        return Lease(place=place, url=address.url, users_fd=users_fd)


def leave(lease: Lease, *, is_orderly: bool) -> None:
    """Stop using the service, and stop it if nobody else uses it.

    Args:
        lease: what ``enter`` gave.
        is_orderly: False leaves it running whoever is left.
    """
    os.close(lease.users_fd)
    if not is_orderly:
        return
    with _switch(lease.place):
        if (whole := try_lock(lease.place.users)) is not None:
            try:
                _stop(lease.place)
            finally:
                os.close(whole)


def find(place: Place) -> Address | None:
    """The service that runs now, if its address is known and it answers."""
    address = place.read_address()
    if address is None:
        return None
    try:
        about = _request(address.url, "GET", "/healthz")
    except (OSError, http.client.HTTPException, ValueError):
        return None
    return address if about == {"service": SERVICE, "pid": address.pid} else None


def _start(place: Place) -> Address:
    """Start a service that outlives this process, and wait until it answers."""
    pid = _spawn(place)
    exit_code: int | None = None

    def settled() -> Address | int | None:
        nonlocal exit_code
        if exit_code is None:
            ended, status = os.waitpid(pid, os.WNOHANG)
            exit_code = os.waitstatus_to_exitcode(status) if ended else None
        # Held: a process that was killed had just started one, which will publish its address.
        return find(place) or (exit_code if exit_code != EXIT_HELD else None)

    match _wait(settled, _START_S):
        case Address() as address:
            return address
        case None:
            raise NoServiceError(place, f"none answered within {_START_S:.0f} s")
        case code:
            raise NoServiceError(place, f"it ended with {code}")


def _spawn(place: Place) -> int:
    """Start the process in a session of its own: no signal to us or our terminal reaches it.

    ``posix_spawn`` rather than ``Popen``: there is no handle to keep, since it may outlive us.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)
    }
    # The package itself must be found from any working directory, installed or not.
    roots = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, roots))
    command = [sys.executable, "-m", _MODULE, "--data-dir", str(place.folder)]
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawn(
        sys.executable,
        [*command, "--idle-exit-s", str(_IDLE_EXIT_S)],
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(place.output), append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )


def _stop(place: Place) -> None:
    """Ask the service to stop and wait until its process is gone."""
    address = find(place)
    if address is None:
        return
    with suppress(OSError, http.client.HTTPException, ValueError):
        _request(address.url, "POST", "/stop")
    # It owns the file until its process ends.
    owned = _wait(lambda: try_lock(place.effects), _STOP_S)
    if owned is not None:
        os.close(owned)
    with suppress(ChildProcessError):  # only the process that started it can collect it
        _wait(lambda: os.waitpid(address.pid, os.WNOHANG)[0] or None, _STOP_S)


@contextmanager
def _switch(place: Place) -> Generator[None]:
    fd = _wait(lambda: try_lock(place.switch), _START_S + _STOP_S)
    if fd is None:
        raise NoServiceError(place, f"{place.switch} stays locked")
    try:
        yield
    finally:
        os.close(fd)


def _wait(check: Callable[[], T | None], deadline_s: float) -> T | None:
    """Ask again and again until there is an answer or the time is up."""
    for _ in range(int(deadline_s / _POLL_S)):
        if (found := check()) is not None:
            return found
        time.sleep(_POLL_S)
    return check()


def _request(url: str, method: str, path: str) -> object:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_ANSWER_S)
    try:
        connection.request(method, path, headers={"Content-Length": "0"})
        answer: object = json.loads(connection.getresponse().read())
        return answer
    finally:
        connection.close()
