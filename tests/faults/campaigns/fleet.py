"""The processes of one round of a campaign, and the people who submit to them and approve."""

import json
import os
import signal
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec
import nats.errors

from messages.errors import Conflict, TreadleError
from messages.subjects import ROLES
from tests.faults.campaigns.app import Inputs
from tests.faults.campaigns.book import Book, opened_book
from tests.system.daemon import Daemon, stream
from treadle import Client

ROOT: Final = Path(__file__).parents[3]
APP: Final = "tests.faults.campaigns.app:app"
LOOK_S: Final = 0.1
ENV: Final = {
    "PYTHONPATH": str(ROOT),
    "PYTHONFAULTHANDLER": "1",
    "PAYMENTS_PATH": "POST /refunds",
    "PAYMENTS_HONOUR_KEYS": "0",
}
"""Nothing else: a campaign measures the times that are the defaults, or says which it sets."""
QUICK: Final = {"TREADLE_RUNTIME__LEASE_S": "1.0", "TREADLE_RUNTIME__DUE_S": "0.2"}


class Fleet:
    """A base process and others that serve one role each.

    Attributes:
        base: Ledger, intake, and every role that no other process serves.
        others: By name.
    """

    def __init__(
        self, folder: Path, *, role: str = "", names: Iterable[str] = (), env: Mapping[str, str]
    ) -> None:
        """Args: role: what each of ``names`` serves; env: besides ``ENV``."""
        self.data_dir = folder / "data"
        self._role = role
        self._env = {**ENV, **env}
        self.base = self._daemon("base")
        self.others = {name: self._daemon(name) for name in names}
        self.nats = ""
        """URL of a server that is not the base's own."""
        self.is_whole = False
        """The base serves every role, that of the others too."""

    def _daemon(self, name: str) -> Daemon:
        return Daemon(self.data_dir, app=APP, env=self._env, name=name)

    # ------------------------------------------------------------------ processes
    async def up(self, *more: str) -> None:
        """Start everybody; ``more``: options of the base."""
        outside = ("--nats", self.nats) if self.nats else ()
        rest = ",".join(role for role in ROLES if role != self._role)
        is_whole = self.is_whole or not self._role
        await self.base.up(*(() if is_whole else ("--roles", rest)), *outside, *more)
        for name in self.others:
            await self.start(name)

    async def start(self, name: str) -> None:
        """Start one of the others."""
        join = str(self.data_dir / "join.json")
        await self.others[name].up("--roles", self._role, "--join", join)

    async def close(self) -> None:
        """End everything at once."""
        for daemon in (*self.others.values(), self.base):
            if daemon.is_running:
                os.kill(daemon.process.pid, signal.SIGCONT)
                await daemon.kill()
        await self.base.close()

    async def server_pid(self) -> int:
        """The NATS server that the base started."""
        pid = self.base.process.pid
        for child in (await anyio.Path(f"/proc/{pid}/task/{pid}/children").read_text()).split():
            if b"nats-server" in await anyio.Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
        raise AssertionError("the daemon has no nats-server")

    # ------------------------------------------------------------------ what they said
    async def lines(self, name: str, event: str) -> list[dict[str, Any]]:
        """The lines of one event that a process logged; each with ``at``, epoch seconds."""
        daemon = self.base if name == "base" else self.others[name]
        found: list[dict[str, Any]] = []
        for line in (await daemon.log()).splitlines():
            if f'"event":"{event}"' in line:
                with suppress(json.JSONDecodeError):  # a killed process may leave half a line
                    seen = json.loads(line)
                    found.append({**seen, "at": datetime.fromisoformat(seen["ts"]).timestamp()})
        return found

    async def driven_by(self, name: str) -> set[str]:
        """The runs that a process drives, as far as its log says."""
        taken = {line["run_id"] for line in await self.lines(name, "run_taken")}
        gone = [await self.lines(name, event) for event in ("run_finished", "run_lost")]
        return taken - {line["run_id"] for lines in gone for line in lines}

    async def until_one_drives(self, names: Iterable[str], least: int) -> str:
        """Wait until one of the processes drives so many; nobody says that they share evenly."""
        while True:
            for name in names:
                if len(await self.driven_by(name)) >= least:
                    return name
            await anyio.sleep(LOOK_S)

    # ------------------------------------------------------------------ people
    async def submit(self, runs: Mapping[str, Inputs]) -> list[str]:
        """Publish each task into the stream; whose publish got no answer is named."""
        unsure: list[str] = []
        async with self.base.client("submitter") as client:
            for run_id, inputs in runs.items():
                task = {"goal": "Go.", "run_id": run_id, "inputs": msgspec.to_builtins(inputs)}
                body = msgspec.json.encode(task)
                subject = "treadle.tasks.default.submitter.steps"
                try:
                    await stream(client).publish(subject, body, timeout=2)
                except (nats.errors.Error, OSError):
                    unsure.append(run_id)
        return unsure

    async def submit_surely(self, runs: Mapping[str, Inputs]) -> None:
        """Publish each until it is acknowledged, over every restart of the server."""
        left = dict(runs)
        while left:
            try:
                left = {run_id: runs[run_id] for run_id in await self.submit(left)}
            except (nats.errors.Error, OSError):
                await anyio.sleep(LOOK_S)

    async def approve_all(self) -> None:
        """Approve whatever is asked, until cancelled."""
        while True:
            with suppress(TreadleError, OSError):
                async with Client.connect(self.data_dir) as client:
                    while True:
                        for asked in (await client.approvals())["approvals"]:
                            with suppress(Conflict):
                                await client.approve(asked["id"], action=asked["action_hash"])
                        await anyio.sleep(LOOK_S)
            await anyio.sleep(LOOK_S)

    # ------------------------------------------------------------------ the ledger and the effects
    @asynccontextmanager
    async def book(self) -> AsyncGenerator[Book]:
        """The ledger file itself, whoever runs."""
        async with opened_book(self.data_dir) as book:
            yield book

    async def until_ended(self, runs: Iterable[str]) -> None:
        """Wait until each of them exists and has ended."""
        async with self.book() as book:
            await book.until_ended(runs)

    async def effects(self) -> dict[str, int]:
        """How often each order was refunded, as the downstream's own file says."""
        counts: dict[str, int] = {}
        with suppress(FileNotFoundError):
            for effect in await self.base.effects():
                order = str(effect["payload"]["order_id"])
                counts[order] = counts.get(order, 0) + 1
        return counts


@asynccontextmanager
async def opened(
    folder: Path,
    *,
    role: str = "",
    names: Iterable[str] = (),
    env: Mapping[str, str] | None = None,
) -> AsyncGenerator[Fleet]:
    """A fleet, not started; whatever happens, nothing of it outlives the block."""
    fleet = Fleet(folder, role=role, names=names, env=env or {})
    await anyio.Path(fleet.data_dir).mkdir(mode=0o700)
    try:
        yield fleet
    finally:
        with anyio.CancelScope(shield=True):
            await fleet.close()


def named(prefix: str, count: int, **inputs: Any) -> dict[str, Inputs]:
    """So many runs of a kind; each refunds the order of its own name."""
    ids = [f"{prefix}{number}" for number in range(1, count + 1)]
    return {run_id: Inputs(order_id=run_id, **inputs) for run_id in ids}
