"""One writer per ledger file: a lock that the kernel gives back when its holder dies."""

import fcntl
import os
from pathlib import Path

from messages.errors import AlreadyRunning, StorageError


class FileLock:
    """An exclusive lock on a file of its own, which holds the pid of whoever has it.

    The file stays when the lock is released: removing it would let a third process lock a new file
    of the same name while a second still waits on the old one.
    """

    def __init__(self, path: Path) -> None:
        """Args: path: the lock file."""
        self._path = path
        self._fd: int | None = None

    def acquire(self) -> None:
        """Take the lock or say who has it; never waits.

        Raises:
            AlreadyRunning: another process, or another ledger of this one, has it.
            StorageError: the lock file cannot be made.
        """
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            message = f"cannot open the lock file {self._path}: {error.strerror}"
            raise StorageError(message) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _pid(fd)
            os.close(fd)
            raise AlreadyRunning("ledger", str(self._path), holder) from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        self._fd = fd

    def release(self) -> None:
        """Let go; closing the descriptor gives up the lock."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _pid(fd: int) -> int | None:
    text = os.pread(fd, 32, 0).decode(errors="replace").strip()
    return int(text) if text.isdigit() else None
