"""The NATS server that a process uses: its own, one outside, or that of the daemon it joins."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from messages.errors import ConfigError
from runtime.bus.home import Home
from runtime.bus.permissions import (
    DEFAULT_PEOPLE,
    Credentials,
    Person,
    all_rights,
    inbox_prefix,
)
from runtime.bus.server import EmbeddedServer
from runtime.clock import MachineIds
from runtime.settings import Settings
from treadle.join import read_join
from treadle.options import DaemonOptions


@dataclass(frozen=True)
class Own:
    """The embedded server: this process starts, watches and ends it."""

    server: EmbeddedServer
    grant_public_key: str = ""

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.server.url

    @property
    def users(self) -> Mapping[str, Credentials]:
        """How to log in, by user."""
        return self.server.users

    def credentials(self, user: str) -> Credentials:
        """How that user logs in."""
        return self.server.users[user]

    def kill(self) -> None:
        """For a process that leaves the hard way."""
        self.server.kill()


@dataclass(frozen=True)
class Outside:
    """A server that somebody else runs, with the users that the data directory generates."""

    url: str
    users: Mapping[str, Credentials]
    grant_public_key: str = ""

    def credentials(self, user: str) -> Credentials:
        """How that user logs in."""
        return self.users[user]

    def kill(self) -> None:
        """It is not ours."""


@dataclass(frozen=True)
class Joined:
    """The server of the daemon that wrote a join file, read again at every reconnect."""

    file: Path
    url: str
    grant_public_key: str

    def credentials(self, user: str) -> Credentials:
        """How that role logs in, as the file says now."""
        return read_join(self.file).credentials(user)

    def kill(self) -> None:
        """It is not ours."""


Broker = Own | Outside | Joined


@asynccontextmanager
async def open_broker(options: DaemonOptions, settings: Settings) -> AsyncGenerator[Broker]:
    """The broker of this process, while entered.

    Raises:
        ConfigError: the join file is none of ours.
        AlreadyRunning, ServerError: the embedded server does not start.
    """
    url = options.nats or settings.nats.url
    if options.join is not None:
        join = await anyio.to_thread.run_sync(read_join, options.join)
        yield Joined(options.join, url or join.url, join.grant_public_key)
    elif url:
        people = people_of(settings)
        users = await anyio.to_thread.run_sync(outside_users, options.data_dir, people)
        yield Outside(url, users)
    else:
        async with EmbeddedServer(
            options.data_dir,
            people=people_of(settings),
            binary=settings.nats.server_binary,
            port=settings.nats.port,
        ) as server:
            yield Own(server)


def people_of(settings: Settings) -> tuple[Person, ...]:
    """Who connects from outside: the three of every data directory, and whoever is configured.

    Somebody of ``[people]`` may be asked, a principal of ``[tenants]`` may submit.
    """
    people = {person.user: person for person in DEFAULT_PEOPLE}
    asked = [
        Person(kind="approver", principal=name, tenant=person.tenant)
        for name, person in settings.people.items()
    ]
    submitting = [
        Person(kind="submitter", principal=name, tenant=tenant)
        for tenant, configured in settings.tenants.items()
        for name in configured.principals
    ]
    for person in (*asked, *submitting):
        _ = people.setdefault(person.user, person)
    return tuple(people.values())


def outside_users(data_dir: Path, people: tuple[Person, ...]) -> Mapping[str, Credentials]:
    """Users and passwords of this data directory, made once. Blocks on the disk.

    Raises:
        ConfigError: the directory cannot be written.
    """
    home = Home(data_dir / "nats")
    try:
        home.make()
        state = home.prepare(all_rights(people), 0, MachineIds())
    except OSError as error:
        raise ConfigError(str(data_dir), f"cannot be written: {error.strerror}") from error
    return {
        user: Credentials(user=user, password=password, inbox_prefix=inbox_prefix(user))
        for user, password in state.passwords.items()
    }
