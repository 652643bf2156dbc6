"""Finding a daemon: its file, a stale file, a URL; and refusals that become errors again."""

import os
import subprocess
import sys
from pathlib import Path

import anyio
import msgspec
import pytest

from actors.gateway.api import error_reply
from messages import errors
from messages.errors import (
    BadIdentifier,
    BadTask,
    Busy,
    Conflict,
    NotAllowed,
    NotFound,
    RemoteFailure,
    StorageError,
    TooLarge,
    TreadleError,
    Unreachable,
    UsageError,
)
from runtime.bus.permissions import Credentials
from treadle.client.connection import find, is_alive, principal_of
from treadle.client.failures import CONFLICTS, error_of


async def write(data_dir: Path, *, pid: int = 0, **changes: object) -> Path:
    user = {"user": "submitter", "password": "s-1", "inbox_prefix": "_INBOX_submitter"}
    record = {
        "v": 1,
        "url": "nats://127.0.0.1:4222",
        "http": None,
        "pid": pid or os.getpid(),
        "started_at": 1.0,
        "tenant": "default",
        "users": {"submitter": user, "operator": {**user, "user": "operator"}},
        **changes,
    }
    path = data_dir / "connection.json"
    await anyio.Path(path).write_bytes(msgspec.json.encode(record))
    return path


def dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


async def test_a_data_directory_and_its_file_are_the_same_place(data_dir: Path) -> None:
    path = await write(data_dir)
    place = await find(data_dir, None, None)
    assert place == await find(path, None, None)
    assert (place.url, place.tenant) == ("nats://127.0.0.1:4222", "default")
    assert place.user("submitter").password == "s-1"
    assert (await find(data_dir, "nats://other:1", "acme"))[:2] == ("nats://other:1", "acme")


async def test_no_file_a_stale_file_and_no_directory_are_unreachable(data_dir: Path) -> None:
    for place in (data_dir, data_dir / "nothing", data_dir / "connection.json"):
        with pytest.raises(Unreachable, match="no daemon runs here"):
            await find(place, None, None)


@pytest.mark.blocking("starts a process, to have the id of a dead one")
async def test_a_file_whose_process_is_gone_is_stale(data_dir: Path) -> None:
    await write(data_dir, pid=dead_pid())
    with pytest.raises(Unreachable, match="stale"):
        await find(data_dir, None, None)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"url": 5}', b"\xff"])
async def test_a_file_that_is_none_of_ours(data_dir: Path, data: bytes) -> None:
    await anyio.Path(data_dir, "connection.json").write_bytes(data)
    with pytest.raises(UsageError, match=r"connection\.json"):
        await find(data_dir, None, None)


async def test_an_unknown_user_is_refused_with_the_known_ones(data_dir: Path) -> None:
    await write(data_dir)
    with pytest.raises(NotAllowed) as caught:
        (await find(data_dir, None, None)).user("root")
    assert "operator, submitter" in caught.value.hint


async def test_a_url_with_a_user_needs_no_file(data_dir: Path) -> None:
    place = await find(data_dir, "nats://acme+shop:p%40ss@nats.example:4222", "acme")
    assert place.url == "nats://nats.example:4222"
    for name in ("submitter", "operator"):
        credentials = place.user(name)
        assert (credentials.user, credentials.password) == ("acme+shop", "p@ss")
        assert principal_of(credentials) == "shop"
    assert "p@ss" not in repr(place.user("operator"))


async def test_a_url_without_a_user_takes_the_users_of_the_file(data_dir: Path) -> None:
    with pytest.raises(Unreachable):
        await find(data_dir, "nats://nats.example:4222", None)


def test_the_principal_of_a_user() -> None:
    assert principal_of(Credentials(user="approver", password="", inbox_prefix="")) == "approver"


def test_processes() -> None:
    assert is_alive(os.getpid())
    assert is_alive(1)
    assert not is_alive(dead_pid())
    assert not is_alive(0)
    assert not is_alive(-1)


# ------------------------------------------------------------------ refusals
@pytest.mark.parametrize(
    "error",
    [
        NotFound("run", "r-1", hint="h"),
        NotAllowed("no", hint="h"),
        BadTask("bad"),
        BadIdentifier("run", "a.b"),
        UsageError("use"),
        StorageError("disk"),
        TooLarge("a reply", 2, 1),
        Busy("full"),
        *(Conflict(f"conflict {why}", why=why) for why in sorted(CONFLICTS)),
    ],
    ids=lambda error: getattr(error, "why", error.code),
)
def test_an_error_survives_the_way_through_the_api(error: TreadleError) -> None:
    back = error_of(error_reply(error).error)
    assert type(back) is type(error)
    assert (back.message, back.hint, back.exit_code) == (
        error.message,
        error.hint,
        error.exit_code,
    )
    if isinstance(error, Conflict) and isinstance(back, Conflict):
        assert back.why == error.why


@pytest.mark.parametrize(
    "error", [errors.Silent("quiet"), errors.Unreachable("away"), RemoteFailure("X", "other")]
)
def test_trouble_behind_the_gateway_is_remote_here(error: TreadleError) -> None:
    back = error_of(error_reply(error).error)
    assert isinstance(back, RemoteFailure)
    assert back.message == error.message
