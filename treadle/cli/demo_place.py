"""Where the demo keeps its data, and the daemon it runs there.

The newest demo is always in the same folder. An older one is moved aside, never deleted; a folder
that the demo did not make is never touched.
"""

import json
import os
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any, Final, Self, cast

from messages.errors import AlreadyRunning, ServerError, UsageError
from runtime.clock import MachineClock

_MARKER: Final = "demo.json"
_READY_WITHIN_S: Final = 60.0
_STOP_WITHIN_S: Final = 40.0


def fresh_place(place: Path) -> Path | None:
    """Make an empty folder for this demo.

    Returns:
        Where the data of an earlier demo was moved to; None where there was none.

    Raises:
        UsageError: the folder holds something that no demo made.
        AlreadyRunning: a daemon runs on it.
    """
    moved = None
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        if not (place / _MARKER).is_file():
            raise UsageError(
                f"{place} is not empty and was not made by a demo",
                hint="choose another --data-dir; nothing was changed",
            )
        if (pid := running_pid(place)) is not None:
            raise AlreadyRunning("broker", str(place / "connection.json"), pid)
        moved = next(
            free
            for number in count(1)
            if not (free := place.with_name(f"{place.name}-{number}")).exists()
        )
        place.rename(moved)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    (place / _MARKER).write_text('{"v":1}\n', encoding="utf-8")
    return moved


def running_pid(place: Path) -> int | None:
    """The process that serves this folder, if it still lives."""
    try:
        connection = cast("dict[str, Any]", json.loads((place / "connection.json").read_bytes()))
        pid = int(connection["pid"])
        os.kill(pid, 0)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid


class DaemonProcess:
    """``treadle up`` as a child while the ``with`` block runs; its log lies beside the data."""

    def __init__(self, place: Path, app: str, model: str | None) -> None:
        """Args: place: the data directory; app: ``MODULE:APP``; model: None: the agents' own."""
        self.log = place / "daemon.log"
        self._place = place
        self._command = [sys.executable, "-P", "-m", "treadle.cli.main", "up", "--app", app]
        self._command += ["--data-dir", str(place)]
        self._command += ["--model", model] if model else []

        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start it and return once it answers.

        Raises:
            ServerError: it ended, or is not ready in time; the message holds its last line.
        """
        with self.log.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 -- our own command
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._process = process
        try:
            self._wait_until_ready(process)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Drain and stop it."""
        self._stop()

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        clock = MachineClock()
        deadline = clock.monotonic() + _READY_WITHIN_S
        while running_pid(self._place) != process.pid:
            if process.poll() is not None or clock.monotonic() > deadline:
                lines = self.log.read_text(errors="replace").strip().splitlines()
                last = lines[-1] if lines else "it said nothing"
                raise ServerError(f"the daemon did not start: {last}", hint=f"see {self.log}")
            time.sleep(0.05)

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
