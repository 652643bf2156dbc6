"""The processes of a cell, on one data directory, for as many trials as go well."""

import json
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import anyio

from messages.subjects import ROLES
from tests.faults.app import LATE_S, SETTLE_S, downstream_env
from tests.faults.cells import Cell
from tests.system.daemon import Daemon
from treadle.examples.refunds.exchange import exchange

ROOT: Final = Path(__file__).parents[2]
LEASE_S: Final = 1.0
GRACE_S: Final = 5.0
PAUSE_S: Final = max(LEASE_S, SETTLE_S) + 1.0
"""Longer than the lease and than W: whoever is stopped is given up by everybody."""
ENV: Final = {
    "PYTHONPATH": str(ROOT),
    "PYTHONFAULTHANDLER": "1",  # SIGABRT prints the stacks of a process that is stuck
    "TREADLE_RUNTIME__LEASE_S": str(LEASE_S),
    "TREADLE_RUNTIME__DUE_S": "0.2",
    "TREADLE_RUNTIME__GRACE_S": str(GRACE_S),
    "TREADLE_RUNTIME__HEARTBEAT_S": "0.3",
    "TREADLE_RUNTIME__SILENCE_S": "0.9",
}
START_S: Final = 90.0
"""Patience with a process that starts; it says nothing about what is tested."""
SLOW_S: Final = 1.2
"""A tool call of this length outlasts every phase of a drain but the one that waits for it."""
POLL_S: Final = 0.01


class World:
    """What a cell's trials run on.

    Attributes:
        base: Serves the broker and every role that has no place of its own.
        others: The processes of the cell's role; empty where one process serves all.
    """

    def __init__(self, cell: Cell, folder: Path, trials: int) -> None:
        self._cell = cell
        self._folder = folder
        self.data_dir = folder / "data"
        faults = [
            f"{cell.point}={cell.action}:{self._marker(trial)}" for trial in range(1, trials + 1)
        ]
        env = {**ENV, **downstream_env(cell.effect), "TREADLE_FAULTS": ",".join(faults)}
        names = ["own-1", "own-2"][: 1 + cell.has_peer] if cell.place else []
        self.base = self._daemon("base", env)
        self.others = [self._daemon(name, env) for name in names]

    def _daemon(self, name: str, env: dict[str, str]) -> Daemon:
        app = "tests.faults.app:app"
        return Daemon(self.data_dir, app=app, env=env, name=name, ready_s=START_S)

    @property
    def daemons(self) -> list[Daemon]:
        return [self.base, *self.others]

    # ------------------------------------------------------------------ processes
    async def up(self) -> None:
        """Start whatever does not run: broker and ledger first."""
        if not self.base.is_running:
            await self.start(self.base)
        for daemon in self.others:
            if not daemon.is_running:
                await self.start(daemon)

    async def start(self, daemon: Daemon) -> None:
        """Start one process again as it was."""
        if daemon is not self.base:
            join = str(self.data_dir / "join.json")
            await daemon.up("--roles", self._cell.place, "--join", join)
        elif self._cell.place:
            rest = ",".join(role for role in ROLES if role != self._cell.place)
            await daemon.up("--roles", rest)
        else:
            await daemon.up()

    def broken(self, fired: dict[str, Any]) -> Daemon:
        """The process that a fault hit."""
        return next(daemon for daemon in self.daemons if daemon.process.pid == fired["pid"])

    async def stopped(self, daemon: Daemon) -> None:
        """Wait until it stands still: it leaves word a moment before it does."""
        place = anyio.Path(f"/proc/{daemon.process.pid}/stat")
        while (await place.read_text()).rpartition(")")[2].split()[0] != "T":  # noqa: ASYNC110
            await anyio.sleep(POLL_S)

    # ------------------------------------------------------------------ faults
    def _marker(self, trial: int) -> Path:
        return self._folder / f"trial-{trial}" / "fired"

    async def arm(self, trial: int) -> None:
        """From now on the fault of this trial may fire; tell the downstream how slow it is."""
        if self._cell.is_late or self._cell.is_slow:
            delay_s = LATE_S if self._cell.is_late else SLOW_S
            await self._control(path="POST /refunds", delay_before_s=delay_s, delay_times=1)
        await anyio.Path(self._marker(trial).parent).mkdir()

    async def fired(self, trial: int) -> dict[str, Any] | None:
        """What the process wrote before it broke."""
        try:
            return json.loads(await anyio.Path(self._marker(trial)).read_bytes())
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    async def asked(self, order_id: str) -> None:
        """Wait until the downstream has been asked for the refund of this order."""
        key = f"{self._cell.effect}:{order_id}:v1"
        while key not in (await self._downstream("GET", "/stats", {}))["keys"]:  # noqa: ASYNC110
            await anyio.sleep(POLL_S)

    async def _control(self, **settings: object) -> None:
        """Set the downstream's faults."""
        await self._downstream("POST", "/control", settings)

    async def _downstream(self, method: str, path: str, body: dict[str, object]) -> dict[str, Any]:
        """Ask the payments service, over its own HTTP."""
        place = json.loads(await anyio.Path(self.data_dir / "payments.json").read_bytes())
        content, headers = json.dumps(body).encode(), dict[str, str]()
        reply = await exchange(
            place["url"], method, path, body=content, headers=headers, deadline_s=5.0
        )
        assert reply.status == HTTPStatus.OK, reply
        return json.loads(reply.body)

    async def kill_server(self) -> None:
        """SIGKILL to the NATS server that the base process started."""
        state = f"/proc/{self.base.process.pid}/task/{self.base.process.pid}/children"
        for child in (await anyio.Path(state).read_text()).split():
            command = await anyio.Path(f"/proc/{child}/cmdline").read_bytes()
            if b"nats-server" in command:
                os.kill(int(child), signal.SIGKILL)
                return
        raise AssertionError("the daemon has no nats-server")

    # ------------------------------------------------------------------ afterwards
    async def close(self) -> list[str]:
        """Tell everybody to stop, as an operator would. What was not in order: codes, orphans."""
        problems: list[str] = []
        for daemon in reversed(self.daemons):
            if daemon.is_running and (code := await daemon.stop()) != 0:
                problems += [f"a process ended with {code} when the world was closed"]
        return [*problems, *await self.orphans()]

    async def kill(self) -> None:
        """End everything at once."""
        for daemon in reversed(self.daemons):
            if daemon.is_running:
                os.kill(daemon.process.pid, signal.SIGCONT)
                await daemon.kill()
        await self.base.close()

    async def orphans(self) -> list[str]:
        """Processes that still work on this data directory though nobody they belong to is left."""
        ours = {str(daemon.process.pid) for daemon in self.daemons if daemon.is_running}
        left = [e.name async for e in anyio.Path("/proc").iterdir() if e.name not in ours]
        commands = [await _command(name) for name in left]
        return [f"left behind: {text}" for text in commands if str(self.data_dir) in text]

    async def effects(self) -> dict[str, int]:
        """How often each order was refunded, as the downstream's own file says."""
        counts: dict[str, int] = {}
        for effect in await self.base.effects():
            order = str(effect["payload"]["order_id"])
            counts[order] = counts.get(order, 0) + 1
        return counts

    async def log(self) -> str:
        """What everybody logged."""
        return "\n".join([await daemon.log() for daemon in self.daemons])


async def _command(entry: str) -> str:
    if not entry.isdigit():
        return ""
    try:
        data = await anyio.Path(f"/proc/{entry}/cmdline").read_bytes()
    except OSError:
        return ""
    return data.replace(b"\0", b" ").decode(errors="replace")


@asynccontextmanager
async def opened(cell: Cell, folder: Path, trials: int) -> AsyncGenerator[World]:
    """A world with everybody up; whatever happens, nothing of it outlives the block."""
    world = World(cell, folder, trials)
    await anyio.Path(world.data_dir).mkdir(mode=0o700)
    try:
        await world.up()
        yield world
    finally:
        with anyio.CancelScope(shield=True):
            await world.kill()
