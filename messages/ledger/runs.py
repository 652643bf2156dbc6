"""Operations on runs: create, take, append, load, and what is due."""

from typing import Literal

from messages.base import Message, Part, Timestamp
from messages.events import AnyEvent
from messages.ledger.common import Done, LedgerRequest, Missing, Refused, RunEnded
from messages.ledger.rows import Entry, RunRow, Signal, Summary
from messages.parts import Evidence
from messages.status import Status


class Created(Message, kw_only=True, tag="created/1"):
    """The run is durable now."""

    run_id: str
    now: Timestamp


class Existing(Message, kw_only=True, tag="existing/1"):
    """That id is a run already; the same id again is the same run."""

    run_id: str
    version: int
    status: Status


class Create(LedgerRequest[Created | Existing | Refused], kw_only=True, tag="create/1"):
    """Version 0 of a run: RunCreated and the reservation of step 1, or its end."""

    verb = "create"

    tenant: str
    run_id: str
    append_id: str
    events: tuple[AnyEvent, ...]
    summary: Summary
    origin: str = ""
    """Run of origin for each_call keys; empty: itself."""


class Taken(Message, kw_only=True, tag="taken/1"):
    """The take owns the run from now on."""

    entries: tuple[Entry, ...]
    """After the caller's version; not all of them if ``is_partial``: Load the rest."""
    is_partial: bool = False
    version: int
    head_hash: str
    signals: tuple[Signal, ...] = ()
    now: Timestamp
    is_clean: bool
    """The open reservation may be used by this take."""
    deaths: int = 0


class Held(Message, kw_only=True, tag="held/1"):
    """Somebody else owns it, or a hold is on it."""

    why: Literal["owned", "hold"]


class Take(LedgerRequest[Taken | Held | RunEnded | Refused | Missing], kw_only=True, tag="take/1"):
    """Make this take the owner if there is none, or the owner's process row has expired.

    Refused BROKEN_CHAIN: its journal does not hold together; it is not due until it is signalled.
    """

    verb = "take"

    tenant: str
    run_id: str
    process: str
    take_id: str
    after: int = -1
    """The version the caller has folded already."""


class Release(LedgerRequest[Done], kw_only=True, tag="release/1"):
    """The drive has stopped; without effect unless version and take are the present ones."""

    verb = "release"

    tenant: str
    run_id: str
    version: int
    process: str
    take_id: str
    is_clean: bool


class Renew(LedgerRequest[Done], kw_only=True, tag="renew/1"):
    """The process lives for another ``lease_s`` seconds; 0 takes its row away."""

    verb = "renew"

    process: str
    lease_s: float


class Committed(Message, kw_only=True, tag="committed/1"):
    """The entry is durable."""

    version: int
    hash: str
    now: Timestamp
    signals: tuple[Signal, ...] = ()
    is_held: bool = False


class Conflicted(Message, kw_only=True, tag="conflicted/1"):
    """Another history was written: whoever asked holds a stale copy and stops."""

    version: int


class TakenKey(Part, kw_only=True):
    """Why an intended key cannot be intended."""

    key: str
    state: Literal["done", "busy", "mismatch"]
    """done: same arguments, here is the result; busy: in flight or unknown elsewhere; mismatch:
    used with other arguments."""
    run_id: str
    """Of the run that holds the key."""
    step: int = 0
    ordinal: int = 0
    """Step and ordinal name the call that cannot be intended: two calls may share a key."""
    evidence: Evidence | None = None


class KeysTaken(Message, kw_only=True, tag="keys-taken/1"):
    """Nothing was written: append again without these calls, each with its observation."""

    keys: tuple[TakenKey, ...]


class Stale(Message, kw_only=True, tag="stale/1"):
    """Nothing was written: what an event says of a row (approval, question, key) is not so."""

    why: str


class Append(
    LedgerRequest[Committed | Conflicted | KeysTaken | Stale | RunEnded | Refused | Missing],
    kw_only=True,
    tag="append/1",
):
    """One entry. Repeated while it is the head, it is committed again."""

    verb = "append"

    tenant: str
    run_id: str
    version: int
    """Of the new entry."""
    append_id: str
    prev_hash: str
    process: str
    take_id: str
    active_s: float
    events: tuple[AnyEvent, ...]
    summary: Summary
    named: tuple[int, ...] = ()
    """Signals this entry deals with."""
    children: tuple[Create, ...] = ()
    """Version 0 of every child that a ChildStarted of this entry names."""


class Loaded(Message, kw_only=True, tag="loaded/1"):
    """Entries in order, after the asked version."""

    entries: tuple[Entry, ...]
    is_partial: bool = False
    row: RunRow
    signals: tuple[Signal, ...] = ()
    now: Timestamp


class Load(LedgerRequest[Loaded | Missing], kw_only=True, tag="load/1"):
    """The journal of a run after a version."""

    verb = "load"

    tenant: str
    run_id: str
    after: int = -1
    upto: int | None = None


class DueRun(Part, kw_only=True):
    """One run that wants something."""

    tenant: str
    run_id: str
    need: Literal["drive", "publish"]
    deaths: int = 0
    """Owners it lost without progress, a dead one that it still has included."""


class DueRuns(Message, kw_only=True, tag="due-runs/1"):
    """What needs a drive or a publish."""

    runs: tuple[DueRun, ...]
    now: Timestamp


class Due(LedgerRequest[DueRuns], kw_only=True, tag="due/1"):
    """Up to ``limit`` runs that need a drive by this process, or a publish. Changes nothing."""

    verb = "due"

    process: str
    limit: int
    driving: tuple[str, ...] = ()
    """``tenant/run_id`` of what the process is driving now."""
    stream: str = ""
    """Creation time of the present results stream; empty: do not list publishes."""


class Published(LedgerRequest[Done], kw_only=True, tag="published/1"):
    """The result is in the results stream created at ``stream``."""

    verb = "published"

    tenant: str
    run_id: str
    stream: str
