"""The pen of a drive: events that are known but not yet durable, and when they become so.

It holds the folded state including what is buffered, so that the next directive is always read off
everything that is known, and the state as committed, from which the buffer can be told again when
the ledger refuses a part of it. The ledger's answers are the only source of versions and of time.
"""

from collections import deque
from collections.abc import Iterable

from msgspec.structs import replace

from actors.orchestrator.taken import told
from messages import events as e
from messages.errors import StorageError
from messages.events import AnyEvent, is_progress
from messages.ledger import (
    Append,
    Committed,
    Conflicted,
    Entry,
    KeysTaken,
    Load,
    Loaded,
    Missing,
    Refused,
    RunEnded,
    Signal,
    Stale,
    Taken,
    TakenKey,
)
from messages.parts import Amount, Attempt
from messages.state import LoopState
from runtime.asking import Asking
from runtime.clock import Clock, Ids
from runtime.faults import fault
from runtime.loop import evolve as loop
from runtime.loop.directives import Moment
from runtime.loop.summary import summarise

_APPEND_TRIES = 8
_WHY_LOST = {Conflicted: "conflict", RunEnded: "ended", Missing: "missing"}
_TAIL = 3
"""More entries than this a planner loads rather than being sent."""


class Lost(Exception):
    """The run is not ours any more: another history was written, or it has ended."""

    def __init__(self, why: str) -> None:
        """Args: why: conflict, ended, missing, unread or keys, for the log."""
        super().__init__(why)
        self.why = why


class Reloaded(Exception):
    """What was buffered no longer holds; it was dropped and the state read again."""


class Pen:
    """The one writer of a run during one take."""

    def __init__(  # noqa: PLR0913 - a pen belongs to one take of one run in one process
        self,
        *,
        asking: Asking,
        clock: Clock,
        ids: Ids,
        process: str,
        take_id: str,
        state: LoopState,
        taken: Taken,
        tail: Iterable[Entry],
    ) -> None:
        """Start from what Take answered, folded into ``state``."""
        self.state = state
        self.take_id = take_id
        self._asking = asking
        self._clock = clock
        self._ids = ids
        self._process = process
        self._base = state
        self._events: list[AnyEvent] = []
        self._named: set[int] = set()
        self.signals: tuple[Signal, ...] = taken.signals
        self.is_held = False
        self.has_progressed = False
        """This take has written more than reservations: the deaths before it no longer count."""
        self._ledger_now = taken.now
        self._read_at = self._stretch_from = clock.monotonic()
        self._written: list[Entry] = []
        self._tail: deque[Entry] = deque(tail, maxlen=_TAIL)
        self.may_use_reservation = state.reservation is not None and taken.is_clean
        if state.reservation is not None and not taken.is_clean:
            self.lose_step("its owner was lost")

    # ------------------------------------------------------------------ time and signals
    def now(self) -> float:
        """The ledger's clock, as far as this process can know it."""
        return self._ledger_now + (self._clock.monotonic() - self._read_at)

    def moment(self, grant_margin_s: float = 0.0) -> Moment:
        """What is pending from outside, for the next decision."""
        monotonic = self._clock.monotonic()
        quiet = Moment(
            at=self._ledger_now + (monotonic - self._read_at),
            stretch_s=monotonic - self._stretch_from,
            is_held=self.is_held,
            take_id=self.take_id,
            grant_margin_s=grant_margin_s,
        )
        if not self.signals:
            return quiet
        pending = self.pending()
        control = [s for s in pending if s.kind in {"pause", "resume"}]
        last = control[-1] if control else None
        return replace(
            quiet,
            cancel=next((s for s in pending if s.kind == "cancel"), None),
            pause=last if last and last.kind == "pause" else None,
            is_resumed=last is not None and last.kind == "resume",
            is_signalled=True,
        )

    def pending(self) -> tuple[Signal, ...]:
        """Signals that no event has dealt with yet."""
        if not self.signals:
            return ()
        return tuple(s for s in self.signals if s.id not in self._named)

    def name(self, signals: Iterable[Signal]) -> None:
        """The next entry deals with these."""
        self._named.update(signal.id for signal in signals)

    # ------------------------------------------------------------------ events
    def add(self, *events: AnyEvent) -> None:
        """Note facts; they are durable only after ``flush``."""
        for event in events:
            self.state = loop.evolve(self.state, event)
            self._events.append(event)

    def lose_step(
        self, why: str, *, charged: Amount | None = None, attempts: tuple[Attempt, ...] = ()
    ) -> None:
        """The open reservation counts as used."""
        open_ = self.state.reservation
        if open_ is None:
            return
        self.may_use_reservation = False
        self.add(
            e.StepLost(step=open_.step, charged=charged or open_.most, why=why, attempts=attempts)
        )

    @property
    def buffered(self) -> tuple[AnyEvent, ...]:
        """What is known and not durable yet."""
        return tuple(self._events)

    @property
    def tail(self) -> tuple[Entry, ...]:
        """The newest entries that no planner has been sent yet, for its cache of the journal."""
        return tuple(self._tail)

    def forget_tail(self) -> None:
        """The newest entries were sent, or are too large to travel; who misses one loads it."""
        self._tail.clear()

    def take_written(self) -> list[Entry]:
        """What has become durable since the last call."""
        written, self._written = self._written, []
        return written

    @property
    def is_dirty(self) -> bool:
        """Whether something is not durable yet; a name alone is no entry and waits for one."""
        return bool(self._events)

    @property
    def releases_cleanly(self) -> bool:
        """The reservation open in the ledger was usable by this take and is unused."""
        return self._base.reservation is None or (
            self.may_use_reservation and self.state.reservation == self._base.reservation
        )

    # ------------------------------------------------------------------ durability
    async def flush(self) -> None:
        """Append what is buffered as one entry.

        Raises:
            Lost: somebody else wrote, or the run has ended.
            Reloaded: an event no longer holds; the buffer is gone.
            TreadleError: the ledger does not answer; nothing is known to be written.
        """
        append_id = self._ids.new_id("app")
        for _ in range(_APPEND_TRIES):
            append = self._append(append_id)
            fault("orchestrator.before_append")
            answer = await self._asking.ledger(append)
            fault("orchestrator.after_append")
            match answer:
                case Committed():
                    self._committed(answer, append.active_s)
                    return
                case KeysTaken():
                    self._without(answer.keys)
                    append_id = self._ids.new_id("app")
                case Stale():
                    await self._reload()
                case Conflicted() | RunEnded() | Missing():
                    raise Lost(_WHY_LOST[type(answer)])
                case Refused():
                    raise StorageError(f"the ledger does not take this entry: {answer.message}")
        raise Lost("keys")

    def _append(self, append_id: str) -> Append:
        state = self.state
        stretch_s = round(self._clock.monotonic() - self._stretch_from, 6)
        return Append(
            tenant=state.tenant,
            run_id=state.run_id,
            version=self._base.version + 1,
            append_id=append_id,
            prev_hash=self._base.head_hash,
            process=self._process,
            take_id=self.take_id,
            active_s=stretch_s,
            events=tuple(self._events),
            summary=summarise(state, stretch_s, self.now()),
            named=tuple(sorted(self._named)),
        )

    def _committed(self, answer: Committed, stretch: float) -> None:
        reserved = self.state.reservation
        if reserved is not None and reserved is not self._base.reservation:
            self.may_use_reservation = True
        entry = Entry(
            tenant=self.state.tenant,
            run_id=self.state.run_id,
            version=answer.version,
            append_id="",
            at=answer.now,
            active_s=stretch,
            prev_hash=self._base.head_hash,
            hash=answer.hash,
            events=tuple(self._events),
        )
        self.has_progressed = self.has_progressed or is_progress(entry.events)
        self._written.append(entry)
        self._tail.append(entry)
        self.state = loop.seal(self.state, answer.version, answer.hash, answer.now, stretch)
        self._base = self.state
        self._events = []
        self._named = set()
        self.signals = answer.signals
        self.is_held = answer.is_held
        self._read(answer.now)
        self._stretch_from += stretch

    def _read(self, ledger_now: float) -> None:
        self._ledger_now = ledger_now
        self._read_at = self._clock.monotonic()

    def _without(self, keys: tuple[TakenKey, ...]) -> None:
        """Tell the buffer again, each call whose key is taken with its observation instead."""
        taken = {(key.step, key.ordinal): key for key in keys}  # two calls may share a key
        events, self._events, self.state = self._events, [], self._base
        for event in events:
            why = taken.get((event.step, event.ordinal)) if isinstance(event, e.Intended) else None
            if isinstance(event, e.Intended) and why is not None:
                self.add(told(self.state, event, why))
            else:
                self.add(event)

    async def _reload(self) -> None:
        await self.read_signals()
        self._events, self._named, self.state = [], set(), self._base
        raise Reloaded

    async def read_signals(self) -> None:
        """Ask the ledger what is pending now.

        Raises:
            Lost: the journal has grown without us, or the run is gone.
        """
        state = self._base
        answer = await self._asking.ledger(
            Load(tenant=state.tenant, run_id=state.run_id, after=state.version)
        )
        if not isinstance(answer, Loaded):
            raise Lost("missing")
        if answer.row.version != state.version:
            raise Lost("conflict")
        self.signals = answer.signals
        self._read(answer.now)
