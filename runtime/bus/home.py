"""The directory of an embedded server: lock, kept state, generated configuration, ports file.

Plain blocking file work, called from a thread. Everything here is readable by its owner only.
"""

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from messages.errors import AlreadyRunning, ServerError
from runtime.bus.permissions import Rights, config_text, users_config
from runtime.bus.wire import MAX_PAYLOAD
from runtime.clock import Ids

_LOG_BYTES = 16 * 1024 * 1024
_TAIL_BYTES = 4096


class State(msgspec.Struct, kw_only=True, frozen=True):
    """What a restart keeps, so that whoever joined finds the server again."""

    v: int = 1
    port: int = 0
    passwords: dict[str, str] = {}


class Home:
    """``<data-dir>/nats``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "nats-server.conf"
        self.log = path / "nats-server.log"
        self.console = path / "nats-server.out"
        self._state = path / "state.json"
        self._lock = path / "lock"

    def make(self) -> None:
        """Make the directory, private; ports files of dead servers go."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        for stale in self.path.glob("*.ports"):
            stale.unlink(missing_ok=True)

    def lock(self) -> int:
        """Take the lock.

        Returns:
            An open descriptor that holds it; a child that inherits it holds it too.

        Raises:
            AlreadyRunning: somebody has it.
        """
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise AlreadyRunning("broker", str(self._lock), self.holder()) from None
        else:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            taken, descriptor = descriptor, -1
            return taken
        finally:
            if descriptor >= 0:
                os.close(descriptor)

    def holder(self) -> int | None:
        """The process that took the lock, where it still lives."""
        with suppress(OSError, ValueError):
            pid = int(self._lock.read_text())
            os.kill(pid, 0)
            return pid
        return None

    def read_state(self) -> State:
        """What the last server of this directory used.

        Raises:
            ServerError: the file is damaged.
        """
        try:
            return msgspec.json.decode(self._state.read_bytes(), type=State)
        except FileNotFoundError:
            return State()
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ServerError(
                f"{self._state} is damaged: {error}",
                hint="delete it: joined processes and connection.json then need to be renewed",
            ) from error

    def prepare(self, rights: Mapping[str, Rights], port: int, ids: Ids) -> State:
        """Write configuration and state.

        Args:
            rights: by user.
            port: the wished one; 0: the one of the last time, or a free one.
            ids: where passwords of new users come from.
        """
        kept = self.read_state()
        passwords = {user: kept.passwords.get(user) or ids.new_secret() for user in rights}
        state = State(port=port or kept.port, passwords=passwords)
        self.write_state(state)
        settings: dict[str, Any] = {
            "server_name": "treadle",
            "listen": f"127.0.0.1:{state.port or -1}",
            "max_payload": MAX_PAYLOAD,
            "log_file": str(self.log),
            "logfile_size_limit": _LOG_BYTES,
            "ports_file_dir": str(self.path),
            "jetstream": {"store_dir": str(self.path / "store"), "sync_interval": "always"},
            "authorization": {"users": users_config(rights, passwords)},
        }
        _write_private(self.config, config_text(settings).encode())
        return state

    def write_state(self, state: State) -> None:
        """Keep it for the next start."""
        _write_private(self._state, msgspec.json.encode(state))

    def read_port(self, pid: int) -> int:
        """The port that a server listens on; 0 while it is not ready.

        Its ports file carries its pid: one that was left by a killed server is not believed.
        """
        for file in self.path.glob(f"*_{pid}.ports"):
            with suppress(ValueError, KeyError, IndexError, OSError):
                url = json.loads(file.read_text())["nats"][0]
                return int(url.rpartition(":")[2])
        return 0

    def tail(self) -> str:
        """The last thing the server complained about."""
        lines: list[str] = []
        for path in (self.log, self.console):
            with suppress(OSError):
                lines += path.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").splitlines()
        bad = [line for line in lines if "[FTL]" in line or "nats-server:" in line]
        return (bad or lines or [""])[-1][-500:]


def _write_private(path: Path, data: bytes) -> None:
    """Replace a file whole, readable by its owner only from its first byte."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
