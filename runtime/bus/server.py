"""The embedded nats-server: a child process with a generated configuration.

It keeps port and passwords over restarts, so whoever joined finds it again. It holds the lock of
its directory together with us: the store is free only once both are gone. It has no monitoring
port, which would tell user names to every local user, and its own session, so that Ctrl-C in a
terminal reaches the daemon and not the bus it still needs to drain.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import anyio.abc
from anyio import to_thread

from messages.errors import AlreadyRunning, ServerError
from runtime.bus import with_parent
from runtime.bus.binary import find_binary
from runtime.bus.home import Home, State
from runtime.bus.permissions import (
    DEFAULT_PEOPLE,
    Credentials,
    Person,
    all_rights,
    inbox_prefix,
)
from runtime.clock import Ids, MachineIds
from runtime.log import Level, Line, log

START_S = 10.0
STOP_S = 5.0
_POLL_S = 0.005
_ORPHAN_S = 3.0
"""How long to wait for the server of a killed daemon, which is ending with it."""


class EmbeddedServer:
    """A nats-server that lives as long as the context.

    Attributes:
        url: Where it listens.
        users: How to log in, by user: ``daemon``, every role, and the people.
        pid: Of the server.
        log_path: Where it writes its log.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        people: Iterable[Person] = DEFAULT_PEOPLE,
        binary: str = "",
        port: int = 0,
        ids: Ids | None = None,
        start_s: float = START_S,
    ) -> None:
        """Args.

        data_dir: everything lies in its folder ``nats``.
        people: who connects from outside.
        binary: path of nats-server; empty: see ``find_binary``.
        port: 0: a free one at the first start, the same one from then on.
        ids: where passwords come from.
        start_s: seconds it may take to be ready.
        """
        self.url = ""
        self.users: Mapping[str, Credentials] = {}
        self.pid = 0
        self._home = Home(data_dir / "nats")
        self.log_path = self._home.log
        self._rights = all_rights(people)
        self._binary = binary
        self._port = port
        self._ids = ids or MachineIds()
        self._start_s = start_s
        self._process: anyio.abc.Process | None = None
        self._lock = -1

    async def __aenter__(self) -> Self:
        """Start it and wait until it is ready.

        Raises:
            AlreadyRunning: another server uses this directory.
            ServerError: no usable program, the port is taken, or it does not become ready.
        """
        self._binary = str(await find_binary(self._binary))
        await to_thread.run_sync(self._home.make)
        self._lock = await self._take_lock()
        try:
            await self._start()
        except BaseException:
            os.close(self._lock)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it: politely, then not."""
        await self._stop()
        os.close(self._lock)

    async def watch(self) -> None:
        """Wait for its end; returns if it was stopped on purpose.

        Raises:
            ServerError: it ended by itself; ``restart`` brings it back under the same address.
        """
        process = self._process
        while process is not None:
            status = await process.wait()
            if process is self._process:
                log(Line.SERVER_EXITED, Level.ERROR, pid=process.pid, status=status)
                told = await to_thread.run_sync(self._home.tail)
                raise ServerError(f"nats-server ended by itself (status {status})", hint=told)
            process = self._process

    async def restart(self) -> None:
        """Start it again with the same port and passwords; clients reconnect by themselves.

        Raises:
            ServerError: as at the first start.
        """
        await self._stop()
        await self._start()

    def kill(self) -> None:
        """End it at once, for a process that is about to leave the hard way itself."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def _take_lock(self) -> int:
        with anyio.move_on_after(_ORPHAN_S):
            while True:
                try:
                    return await to_thread.run_sync(self._home.lock)
                except AlreadyRunning:
                    if await to_thread.run_sync(self._home.holder):
                        raise
                await anyio.sleep(_POLL_S)
        return await to_thread.run_sync(self._home.lock)

    async def _start(self) -> None:
        state = await to_thread.run_sync(self._home.prepare, self._rights, self._port, self._ids)
        with self._home.console.open("wb") as console:
            process = await anyio.open_process(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
                pass_fds=[self._lock],
            )
        self._process = process
        self.pid = process.pid
        try:
            port = await self._ready_port(process, state.port)
        except BaseException:
            await self._stop()
            raise
        if port != state.port:
            fresh = State(port=port, passwords=state.passwords)
            await to_thread.run_sync(self._home.write_state, fresh)
        self.url = f"nats://127.0.0.1:{port}"
        self.users = {
            user: Credentials(user=user, password=password, inbox_prefix=inbox_prefix(user))
            for user, password in state.passwords.items()
        }
        log(Line.SERVER_STARTED, url=self.url, pid=process.pid, binary=self._binary)

    def _command(self) -> list[str]:
        server = [self._binary, "--config", str(self._home.config)]
        if sys.platform != "linux":
            return server
        helper = str(Path(with_parent.__file__))
        return [sys.executable, "-I", "-S", helper, str(os.getpid()), *server]

    async def _ready_port(self, process: anyio.abc.Process, wanted: int) -> int:
        with anyio.move_on_after(self._start_s):
            while process.returncode is None:
                port = await to_thread.run_sync(self._home.read_port, process.pid)
                if port:
                    return port
                await anyio.sleep(_POLL_S)
        told = await to_thread.run_sync(self._home.tail)
        if "address already in use" in told:
            raise ServerError(
                f"port {wanted} of 127.0.0.1 is in use by another program",
                hint=f"end that program, or set nats.port; this port is kept in {self._home.path}",
            )
        if process.returncode is None:
            raise ServerError(f"nats-server was not ready within {self._start_s:.0f} s", hint=told)
        raise ServerError(f"nats-server ended at once ({process.returncode})", hint=told)

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.terminate()
                with anyio.move_on_after(STOP_S):
                    await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()
            await process.aclose()
