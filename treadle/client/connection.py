"""Where a daemon is and as whom to talk to it: connection.json, or a NATS URL."""

import os
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

import anyio
import msgspec

from messages.errors import NotAllowed, Unreachable, UsageError
from runtime.bus.permissions import Credentials, inbox_prefix

CONNECTION_FILE = "connection.json"
DEFAULT_TENANT = "default"
_START_ONE = "treadle up starts a daemon"


class _User(msgspec.Struct, frozen=True):
    user: str
    password: str
    inbox_prefix: str


class _File(msgspec.Struct, frozen=True):
    url: str
    pid: int
    users: dict[str, _User]
    tenant: str = DEFAULT_TENANT


class Place(NamedTuple):
    """Where a daemon is, and the users it knows."""

    url: str
    tenant: str
    users: dict[str, Credentials]

    def user(self, name: str) -> Credentials:
        """How that user logs in.

        Raises:
            NotAllowed: connection.json has none of that name.
        """
        known = self.users.get(name)
        if known is None:
            has = ", ".join(sorted(self.users))
            raise NotAllowed(f"there is no user {name!r} here", hint=f"connection.json has: {has}")
        return known


def principal_of(credentials: Credentials) -> str:
    """Under which name NATS lets a user speak: ``principal``, or ``tenant+principal``."""
    return credentials.user.rpartition("+")[2]


async def find(path: str | os.PathLike[str], url: str | None, tenant: str | None) -> Place:
    """Where the daemon is.

    Args:
        path: A data directory, or a connection.json.
        url: NATS instead of the file's; with user and password in it, no file is needed.
        tenant: Instead of the file's.

    Raises:
        Unreachable: No daemon runs there: no file, or its process is gone.
        UsageError: The file is none of ours, or the URL is none.
    """
    if url is not None and urlsplit(url).username:
        return _from_url(url, tenant or DEFAULT_TENANT)
    file = await _read(anyio.Path(path))
    users = {name: _credentials(user) for name, user in file.users.items()}
    return Place(url or file.url, tenant or file.tenant, users)


async def _read(path: anyio.Path) -> _File:
    if await path.is_dir():
        path = path / CONNECTION_FILE
    try:
        data = await path.read_bytes()
    except FileNotFoundError as error:
        raise Unreachable(f"no daemon runs here: there is no {path}", hint=_START_ONE) from error
    except OSError as error:
        raise Unreachable(f"cannot read {path}: {error.strerror}") from error
    try:
        file = msgspec.json.decode(data, type=_File)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is no connection file: {error}") from error
    if not is_alive(file.pid):
        raise Unreachable(f"{path} is stale: process {file.pid} is gone", hint=_START_ONE)
    return file


def is_alive(pid: int) -> bool:
    """Whether there is a process of that id on this host."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def data_dir(path: str | os.PathLike[str]) -> Path:
    """The data directory of a connection file, or the directory itself."""
    given = Path(path)
    return given.parent if given.name == CONNECTION_FILE else given


def _credentials(user: _User) -> Credentials:
    return Credentials(user=user.user, password=user.password, inbox_prefix=user.inbox_prefix)


def _from_url(url: str, tenant: str) -> Place:
    parts = urlsplit(url)
    if not parts.hostname:
        raise UsageError("a NATS URL is nats://USER:PASSWORD@HOST:PORT")
    name = unquote(parts.username or "")
    credentials = Credentials(
        user=name, password=unquote(parts.password or ""), inbox_prefix=inbox_prefix(name)
    )
    bare = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    return Place(bare, tenant, _OnlyOne(credentials))


class _OnlyOne(dict[str, Credentials]):
    """Whatever user is asked for, it is the one in the URL."""

    def __init__(self, credentials: Credentials) -> None:
        super().__init__({credentials.user: credentials})
        self._only = credentials

    def get(self, _key: str, _default: Any = None, /) -> Credentials:
        """The only one."""
        return self._only
