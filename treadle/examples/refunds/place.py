"""Where the payments service of a data directory keeps its files, and the locks beside them.

Locks are ``flock`` on open files: the kernel gives them back when their holder dies, however it
dies, so a killed daemon needs no cleaning up after and a reused process id cannot deceive anyone.
"""

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SERVICE: Final = "treadle-example-payments"
"""What ``GET /healthz`` calls itself: another program on its port is not mistaken for it."""

EXIT_HELD: Final = 75
"""Exit code of a service that finds another one owning the folder (EX_TEMPFAIL)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """Where a service listens, and which process it is."""

    url: str
    pid: int


@dataclass(frozen=True, slots=True)
class Place:
    """The files of one data directory."""

    folder: Path

    @property
    def effects(self) -> Path:
        """Every effect, one line each; locked by the service that owns it."""
        return self.folder / "payments.jsonl"

    @property
    def address(self) -> Path:
        """``{"url", "pid"}`` of the running service."""
        return self.folder / "payments.json"

    @property
    def switch(self) -> Path:
        """Locked by whoever starts or stops the service, one at a time."""
        return self.folder / "payments.lock"

    @property
    def users(self) -> Path:
        """Locked in common by every process that uses the service."""
        return self.folder / "payments.users"

    @property
    def output(self) -> Path:
        """What the service printed."""
        return self.folder / "payments.log"

    def read_address(self) -> Address | None:
        """The address that was last written; its process may be dead. None: there is none."""
        try:
            known = json.loads(self.address.read_bytes())
            return Address(url=str(known["url"]), pid=int(known["pid"]))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write_address(self, address: Address) -> None:
        """Publish an address, whole or not at all."""
        draft = self.address.with_suffix(f".{address.pid}.tmp")
        draft.write_text(json.dumps({"url": address.url, "pid": address.pid}) + "\n")
        draft.replace(self.address)

    def forget_address(self, pid: int) -> None:
        """Remove the address if it is still that of this process."""
        known = self.read_address()
        if known is not None and known.pid == pid:
            self.address.unlink(missing_ok=True)


def try_lock(path: Path, *, shared: bool = False) -> int | None:
    """Lock a file without waiting.

    Args:
        path: the file; it is made if it is not there.
        shared: share the lock with others who share it.

    Returns:
        The open file that holds the lock until it is closed; None where another holds it.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd
