"""What an iteration must cost whoever writes it: six hops over NATS and one durable row.

Two floors. The bare one is nats-py and SQLite with no thought of ours: six requests and replies
with the raw client, then one row through one writer that commits in groups. The product floor is
the same hops, but the row is what the product itself appends for such a step (its operation, its
rules, its hash chain, its group commit), and one grant is signed and verified. What the product
spends above the second is orchestration: the loop, validation, policy, the model's input, events.
"""

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec
import nats
from msgspec.structs import replace
from nats.aio.client import Client
from nats.aio.msg import Msg

from actors.checkpointer import Checkpointer
from messages.authority import Grant, GrantedAction
from messages.ledger import Append, Committed, Create, Created, Entry, Summary
from runtime.bus.memory import connect as memory_bus
from runtime.bus.permissions import Credentials
from runtime.clock import MachineClock, MachineIds
from runtime.ledger.sqlite import SqliteLedger
from runtime.loop.evolve import fold_entry
from runtime.loop.summary import summarise
from runtime.policy.grants import Signer, Verifier

HOPS = 6
"""Requests of a read-only iteration: decide, validate, authorise, execute, assess, append."""
_GROUP = 512
_WAIT_S = 30.0
_PREFIX = "treadle.signals.floor"
"""Subjects that the daemon's user may use and that no role answers."""


class Hop(msgspec.Struct, array_like=True):
    """What travels: about as much as a small message of ours."""

    run: str
    seq: int
    kind: str
    body: dict[str, Any]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Hop).decode

Iterate = Callable[[str, int], Awaitable[None]]
"""One iteration of a run: its id, and which iteration."""


class BareWriter:
    """One thread owns the connection, commits all that waits, wakes everybody in one go."""

    def __init__(self, path: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self._path = path
        self._waiting: queue.SimpleQueue[tuple[tuple[Any, ...], asyncio.Future[None]] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def write(self, row: tuple[Any, ...]) -> asyncio.Future[None]:
        """Durable once the future is done."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._waiting.put((row, done))
        return done

    def close(self) -> None:
        self._waiting.put(None)

    def _run(self) -> None:
        db = sqlite3.connect(self._path, isolation_level=None)
        db.execute("PRAGMA journal_mode = wal")
        db.execute("PRAGMA synchronous = FULL")
        db.execute(
            "CREATE TABLE rows (run TEXT, seq INT, body BLOB, PRIMARY KEY (run, seq)) WITHOUT ROWID"
        )
        while (first := self._waiting.get()) is not None:
            group = [first]
            while len(group) < _GROUP and not self._waiting.empty():
                item = self._waiting.get()
                if item is None:
                    return
                group.append(item)
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT INTO rows VALUES (?, ?, ?)", [row for row, _ in group])
            db.execute("COMMIT")
            self._loop.call_soon_threadsafe(_wake, [done for _, done in group])


def _wake(waiting: list[asyncio.Future[None]]) -> None:
    for done in waiting:
        if not done.done():
            done.set_result(None)


@dataclass
class Floors:
    """Both floors, ready to be measured."""

    bare: Iterate
    product: Iterate
    begin: Callable[[str], Awaitable[None]]
    """Before a run's first iteration on the product floor."""


async def _connection(url: str, user: Credentials) -> Client:
    return await nats.connect(
        url, user=user.user, password=user.password, inbox_prefix=user.inbox_prefix.encode()
    )


async def _echo(message: Msg) -> None:
    await message.respond(_encode(_decode(message.data)))


def _hops(client: Client) -> Callable[[str, int], Awaitable[Hop]]:
    async def hops(run_id: str, place: int) -> Hop:
        body = {"tool": "look", "args": {"place": place, "text": "x" * 60}}
        hop = Hop(run_id, place, "step", body)
        for number in range(HOPS):
            subject = f"{_PREFIX}.h{number}"
            hop = _decode((await client.request(subject, _encode(hop), timeout=_WAIT_S)).data)
        return hop

    return hops


class _Appender:
    """The product's own append and its group commit, without its bus."""

    def __init__(self, checkpointer: Checkpointer, journal: Sequence[Entry]) -> None:
        """Args: journal: of a real run; its entries are appended to every run of the floor."""
        self._checkpointer = checkpointer
        self._birth = journal[0]
        self._steps: list[Append] = []
        self._summary: Summary | None = None
        self._heads: dict[str, str] = {}
        state = None
        for entry in journal:
            state = fold_entry(state, entry)
            if state.status.is_terminal:
                break
            summary = summarise(state)
            self._summary = self._summary or summary
            step = Append(
                tenant="floor",
                run_id="",
                version=entry.version,
                append_id="",
                prev_hash="",
                process="floor",
                take_id="floor",
                active_s=entry.active_s,
                events=entry.events,
                summary=summary,
            )
            self._steps.append(step)

    async def begin(self, run_id: str) -> None:
        if self._summary is None:
            raise AssertionError("the journal is empty")
        create = Create(
            tenant="floor",
            run_id=run_id,
            append_id=run_id,
            events=self._birth.events,
            summary=self._summary,
        )
        if not isinstance(await self._handle(create), Created):
            raise AssertionError("the floor's run was not created")
        # the hash of version 0 is told by nobody: the first append asks for it by a load
        self._heads[run_id] = ""

    async def append(self, run_id: str, version: int) -> None:
        raise NotImplementedError

    async def _handle(self, request: Any) -> Any:
        return await self._checkpointer.handle(request, cast("Any", None))
