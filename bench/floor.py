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
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
import msgspec
import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from actors.checkpointer import Checkpointer
from messages.authority import Grant, GrantedAction
from messages.canon import action_hash
from messages.ledger import Append, Committed, Create, Created, Entry, Summary, Take, Taken
from runtime.bus.permissions import Credentials
from runtime.clock import MachineClock
from runtime.ledger.sqlite import SqliteLedger
from runtime.loop.evolve import fold_entry
from runtime.loop.summary import summarise
from runtime.policy.grants import Signer, Verifier

HOPS = 6
"""Requests of a read-only iteration: decide, validate, authorise, execute, assess, append."""
OWNER = "floor"
_GROUP = 512
_WAIT_S = 30.0
_PREFIX = "treadle.signals.floor.hop"
"""The daemon's user may use these subjects, and no role listens to them."""

Row = tuple[str, int, bytes]
Run = Callable[[str, int], Coroutine[Any, Any, None]]
"""One run of a floor: its id, and how many iterations."""


class Hop(msgspec.Struct, array_like=True):
    """What travels: about as much as a small message of ours."""

    run: str
    seq: int
    kind: str
    body: dict[str, Any]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Hop).decode


class BareWriter:
    """One thread owns the connection, commits all that waits, wakes everybody in one go."""

    def __init__(self, path: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self._path = path
        self._waiting: queue.SimpleQueue[tuple[Row, asyncio.Future[None]] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def write(self, row: Row) -> asyncio.Future[None]:
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
                    break
                group.append(item)
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT INTO rows VALUES (?, ?, ?)", [row for row, _ in group])
            db.execute("COMMIT")
            self._loop.call_soon_threadsafe(_wake, [done for _, done in group])
        db.close()


def _wake(waiting: list[asyncio.Future[None]]) -> None:
    for done in waiting:
        if not done.done():
            done.set_result(None)


class Appender:
    """The product's own append and its group commit, without its bus."""

    def __init__(self, checkpointer: Checkpointer, journal: Sequence[Entry]) -> None:
        """Args: journal: of a real run; what its steps appended is appended to every floor run."""
        self._checkpointer = checkpointer
        self._birth = journal[0]
        self._steps: list[tuple[Entry, Summary]] = []
        self._heads: dict[str, str] = {}
        state = None
        for entry in journal:
            state = fold_entry(state, entry)
            if not state.status.is_terminal:
                self._steps.append((entry, summarise(state)))

    async def begin(self, run_id: str) -> None:
        create = Create(
            tenant=self._birth.tenant,
            run_id=run_id,
            append_id=run_id,
            events=self._birth.events,
            summary=self._steps[0][1],
        )
        assert isinstance(await self._handle(create), Created)
        taken = await self._handle(
            Take(tenant=self._birth.tenant, run_id=run_id, process=OWNER, take_id=run_id)
        )
        assert isinstance(taken, Taken)
        self._heads[run_id] = taken.head_hash

    async def append(self, run_id: str, version: int) -> None:
        """The entry that closes a step; ``version`` counts from 1."""
        entry, summary = self._steps[1 + (version - 1) % (len(self._steps) - 1)]
        done = await self._handle(
            Append(
                tenant=entry.tenant,
                run_id=run_id,
                version=version,
                append_id=f"{run_id}.{version}",
                prev_hash=self._heads[run_id],
                process=OWNER,
                take_id=run_id,
                active_s=entry.active_s,
                events=entry.events,
                summary=summary,
            )
        )
        assert isinstance(done, Committed)
        self._heads[run_id] = done.hash

    async def _handle(self, request: Any) -> Any:
        return await self._checkpointer.handle(request, cast("Any", None))


@dataclass
class Floors:
    """Both floors over one pair of connections.

    ``bare`` and ``product`` are one run of each; ``begin`` makes a run of the product floor, which
    is not measured.
    """

    client: Client
    writer: BareWriter
    appender: Appender
    signer: Signer
    verifier: Verifier
    arguments: dict[str, Any] = field(default_factory=lambda: {"place": 1})
    runs: int = 0

    def new_run(self) -> str:
        """The id of one more run."""
        self.runs += 1
        return f"floor-{self.runs}"

    async def begin(self, run_id: str) -> None:
        await self.appender.begin(run_id)

    async def bare(self, run_id: str, iterations: int) -> None:
        for place in range(iterations):
            hop = await self._hops(run_id, place)
            await self.writer.write((run_id, place, _encode(hop)))

    async def product(self, run_id: str, iterations: int) -> None:
        for place in range(iterations):
            _ = await self._hops(run_id, place)
            self._sign_and_verify(run_id, place)
            await self.appender.append(run_id, place + 1)

    async def _hops(self, run_id: str, place: int) -> Hop:
        body = {"tool": "look", "args": {"place": place, "text": "x" * 60}}
        hop = Hop(run_id, place, "step", body)
        for number in range(HOPS):
            answer = await self.client.request(f"{_PREFIX}.{number}", _encode(hop), timeout=_WAIT_S)
            hop = _decode(answer.data)
        return hop

    def _sign_and_verify(self, run_id: str, step: int) -> None:
        hashed = action_hash("look", self.arguments, None)
        action = GrantedAction(ordinal=0, tool="look", action_hash=hashed, purpose="execute")
        grant = Grant(
            id=f"gr-{run_id}",
            tenant=OWNER,
            run_id=run_id,
            step=step,
            actions=(action,),
            expires_at=MachineClock().now() + 20.0,
            policy="bench",
        )
        _ = self.verifier.verify(
            self.signer.sign(grant),
            tenant=OWNER,
            run_id=run_id,
            step=step,
            ordinal=0,
            tool="look",
            action_hash=hashed,
            key=None,
            purpose="execute",
            now=MachineClock().now(),
            skew_s=1.0,
        )


async def _connection(url: str, user: Credentials) -> Client:
    return await nats.connect(  # pyright: ignore[reportUnknownMemberType] -- options of any kind
        url, user=user.user, password=user.password, inbox_prefix=user.inbox_prefix.encode()
    )


async def _echo(message: Msg) -> None:
    await message.respond(_encode(_decode(message.data)))


@asynccontextmanager
async def floors(
    folder: Path, url: str, user: Credentials, journal: Sequence[Entry]
) -> AsyncGenerator[Floors]:
    """Both floors on files of their own, over the product's broker, while entered."""
    asking, answering = await _connection(url, user), await _connection(url, user)
    for number in range(HOPS):
        _ = await answering.subscribe(f"{_PREFIX}.{number}", queue="floor", cb=_echo)  # pyright: ignore[reportUnknownMemberType] -- a bare Future in its signature
    await answering.flush()
    ledger = await SqliteLedger.open(folder / "floor-ledger.db", MachineClock().now)
    checkpointer = Checkpointer(cast("Any", None), ledger)
    writer = BareWriter(folder / "floor-bare.db")
    signer = Signer(bytes(32))
    try:
        async with checkpointer.prepared():
            yield Floors(
                client=asking,
                writer=writer,
                appender=Appender(checkpointer, journal),
                signer=signer,
                verifier=Verifier(signer.public_key),
            )
    finally:
        writer.close()
        await ledger.close()
        await asking.close()
        await answering.close()


async def together(run: Run, run_ids: Sequence[str], iterations: int) -> None:
    """All of these runs at once."""
    async with anyio.create_task_group() as tasks:
        for run_id in run_ids:
            tasks.start_soon(run, run_id, iterations)
