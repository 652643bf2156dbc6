"""One writer per ledger file: a lock that the kernel gives back when its holder dies."""

import fcntl
import os
from pathlib import Path

from messages.errors import AlreadyRunning, StorageError

_MOST_BYTES = 256


class FileLock:
    """An exclusive lock on a file of its own, which says who has it: pid, and name in the ledger.

    The file stays when the lock is released: removing it would let a third process lock a new file
    of the same name while a second still waits on the old one.
    """

    def __init__(self, path: Path) -> None:
        """Args: path: the lock file."""
        self._path = path
        self._fd: int | None = None

    def acquire(self, name: str = "") -> str:
        """Take the lock or say who has it; never waits.

        Args:
            name: of this process in the ledger; its successor is told.

        Returns:
            The name of whoever had the lock last; the kernel gave it back, so that process is dead
            or has closed its ledger. Empty: nobody, or one without a name.

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
            holder, _ = _holder(fd)
            os.close(fd)
            raise AlreadyRunning("ledger", str(self._path), holder) from error
        _, last = _holder(fd)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n{name}".encode(), 0)
        self._fd = fd
        return last

    def release(self) -> None:
        """Let go; closing the descriptor gives up the lock."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _holder(fd: int) -> tuple[int | None, str]:
    text = os.pread(fd, _MOST_BYTES, 0).decode(errors="replace")
    pid, _, name = text.partition("\n")
    return (int(pid) if pid.strip().isdigit() else None), name.strip()
