"""Files by which other processes find a daemon: connection.json for clients, join.json for roles.

Both are readable by their owner only. connection.json is there while the daemon is ready;
join.json stays, so that a joined process that was started first, or is started again, finds the
same address and passwords.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from messages.errors import ConfigError
from messages.subjects import ROLES
from runtime.bus.permissions import DAEMON, Credentials

CONNECTION_FILE = "connection.json"
JOIN_FILE = "join.json"
_INNER = frozenset({*ROLES, DAEMON})
"""Users that are no people: connection.json does not tell their passwords."""


class _User(msgspec.Struct, frozen=True, kw_only=True):
    user: str
    password: str
    inbox_prefix: str


class Join(msgspec.Struct, frozen=True, kw_only=True):
    """What a process needs to serve roles of a daemon on this host."""

    v: int = 1
    url: str
    users: dict[str, _User]
    """By role."""
    grant_public_key: str

    def credentials(self, role: str) -> Credentials:
        """How that role logs in.

        Raises:
            ConfigError: the file knows no such role.
        """
        user = self.users.get(role)
        if user is None:
            raise ConfigError(JOIN_FILE, f"has no user for the role {role!r}")
        return Credentials(user=user.user, password=user.password, inbox_prefix=user.inbox_prefix)


def read_join(file: Path) -> Join:
    """Read a join file. Blocks on the disk.

    Raises:
        ConfigError: it is not there, or is none of ours.
    """
    try:
        return msgspec.json.decode(file.read_bytes(), type=Join)
    except OSError as error:
        raise ConfigError(str(file), f"cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise ConfigError(str(file), f"is no join file: {error}") from error


def write_join(
    data_dir: Path, url: str, users: Mapping[str, Credentials], roles: Iterable[str], key: str
) -> None:
    """Write ``<data-dir>/join.json``. Blocks on the disk.

    Args:
        data_dir: where.
        url: of the server.
        users: by name; those of ``roles`` are written.
        roles: all of them.
        key: public key of the grants.
    """
    known = {role: _user(users[role]) for role in roles}
    join = Join(url=url, users=known, grant_public_key=key)
    write_private(data_dir / JOIN_FILE, msgspec.json.encode(join))


def write_connection(
    data_dir: Path,
    url: str,
    users: Mapping[str, Credentials],
    *,
    http: str | None,
    started_at: float,
) -> Path:
    """Write ``<data-dir>/connection.json`` and say where it is. Blocks on the disk."""
    record = {
        "v": 1,
        "url": url,
        "http": http,
        "pid": os.getpid(),
        "started_at": started_at,
        "tenant": "default",
        "users": {name: _user(user) for name, user in users.items() if name not in _INNER},
    }
    place = data_dir / CONNECTION_FILE
    write_private(place, msgspec.json.encode(record))
    return place


def _user(credentials: Credentials) -> _User:
    return _User(
        user=credentials.user,
        password=credentials.password,
        inbox_prefix=credentials.inbox_prefix,
    )


def write_private(path: Path, data: bytes) -> None:
    """Replace a file whole or not at all, readable by nobody else from its first byte."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        _ = file.write(data)
    _ = draft.replace(path)
