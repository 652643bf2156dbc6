"""The ledger's operations and their answers (DESIGN.md section 4).

Every operation is one transaction. ``now`` is always the ledger's clock. Which operation is
allowed and what it changes is decided in ``runtime.ledger.rules``; this file is only the words.
"""

from typing import ClassVar, Literal

from messages.base import Message, Part, ReplyT_co, Request, Timestamp
from messages.events import AnyEvent
from messages.parts import EffectClass, Evidence, JsonValue, Limits, Problem, Usage
from messages.status import Status


# ------------------------------------------------------------------ what the ledger holds
class Entry(Part, kw_only=True):
    """One atomic checkpoint of a run. ``hash`` is over all other fields, ``prev_hash`` included."""

    tenant: str
    run_id: str
    version: int
    append_id: str
    at: Timestamp
    active_s: float = 0.0
    """Active seconds since the entry before, by its owner's monotonic clock."""
    prev_hash: str = ""
    hash: str = ""
    events: tuple[AnyEvent, ...]


class Summary(Part, kw_only=True):
    """The row a listing shows, projected from the folded state by ``runtime.loop``."""

    agent: str
    agent_code: str = ""
    principal: str = ""
    goal: str = ""
    labels: dict[str, str] = {}
    status: Status
    reason: str = ""
    until: Timestamp | None = None
    step_count: int = 0
    limits: Limits = Limits()
    usage: Usage = Usage()
    cost_microusd: int = 0
    active_s: float = 0.0


SignalKind = Literal["cancel", "pause", "resume", "decision", "answer", "child"]


class Signal(Part, kw_only=True):
    """Something from outside that waits until an entry of the run names it."""

    id: int = 0
    """Given by the ledger."""
    kind: SignalKind
    at: Timestamp = 0.0
    person: str = ""
    reason: str = ""
    approval_id: str | None = None
    decision: Literal["approved", "denied"] | None = None
    credential: str = ""
    channel: str = ""
    confirmed_hash: str = ""
    question_id: str | None = None
    answer: JsonValue = None
    child_run: str | None = None
    child_status: Status | None = None
    child_reason: str = ""
    child_usage: Usage = Usage()
    child_cost_microusd: int = 0
    child_steps: int = 0
    child_result: JsonValue = None


class RunRow(Part, kw_only=True):
    """One run as the ledger lists it."""

    tenant: str
    run_id: str
    version: int
    head_hash: str
    summary: Summary
    created_at: Timestamp
    updated_at: Timestamp
    owner: str | None = None
    """Process id of the owner."""
    take_id: str | None = None
    is_clean: bool = True
    deaths: int = 0
    published: str = ""
    """Creation time of the results stream that holds the result."""
    parent: str | None = None
    continues: str | None = None
    origin: str = ""
    """Run of origin for each_call keys; itself unless forked."""

    @property
    def shown_status(self) -> Status:
        """QUEUED while no one has taken it; QUEUED is never folded, so it stands nowhere."""
        is_untaken = self.version == 0 and self.owner is None and self.deaths == 0
        if is_untaken and self.summary.status is Status.RUNNING:
            return Status.QUEUED
        return self.summary.status


KeyState = Literal["free", "intended", "started", "done", "unknown"]


class ClaimRecord(Part, kw_only=True):
    """One claim of a key, kept through later intents."""

    claim_id: str
    grant_id: str
    at: Timestamp


class EffectRow(Part, kw_only=True):
    """One idempotency key of a tenant, across runs."""

    tenant: str
    key: str
    state: KeyState
    run_id: str
    step: int = 0
    ordinal: int = 0
    tool: str
    action_hash: str
    effect: EffectClass
    grant_id: str = ""
    claims: tuple[ClaimRecord, ...] = ()
    settle_after_s: float = 40.0
    """W of its tool."""
    evidence: Evidence | None = None
    problem: Problem | None = None
    is_flagged: bool = False
    """Waits for a person: ``effects resolve``."""
    person: str = ""
    """Who resolved it by hand."""
    why: str = ""
    """What that person gave as the reason."""
    updated_at: Timestamp = 0.0


class ApprovalRow(Part, kw_only=True):
    """One approval as the ledger keeps it."""

    tenant: str
    id: str
    run_id: str
    agent: str = ""
    principal: str = ""
    """Who asked for the run: may not approve it."""
    step: int
    ordinal: int
    tool: str
    action_hash: str
    key: str | None = None
    group: str
    size: int | None = None
    rule: str = ""
    why: str = ""
    package: str = ""
    requested_at: Timestamp
    expires_at: Timestamp
    state: Literal["pending", "approved", "denied", "expired", "void"] = "pending"
    person: str = ""
    credential: str = ""
    channel: str = ""
    reason: str = ""
    decided_at: Timestamp | None = None


class QuestionRow(Part, kw_only=True):
    """One question to a person."""

    tenant: str
    id: str
    run_id: str
    text: str
    schema: dict[str, JsonValue] | None = None
    group: str | None = None
    state: Literal["open", "answered", "void"] = "open"
    answer: JsonValue = None
    person: str = ""
    asked_at: Timestamp = 0.0
    answered_at: Timestamp | None = None


class HoldRow(Part, kw_only=True):
    """A pause of an agent (``agent``), a tenant (``tenant``), or everything (both ``*``)."""

    tenant: str = "*"
    agent: str = "*"
    person: str = ""
    reason: str = ""
    at: Timestamp = 0.0


# ------------------------------------------------------------------ answers shared by several
class LedgerRequest(Request[ReplyT_co], kw_only=True, tag="ledger-request/1"):
    """An operation of the ledger."""

    role: ClassVar[str] = "checkpointer"


class Done(Message, kw_only=True, tag="done/1"):
    """It is so, whether or not this request made it so."""

    now: Timestamp


class Missing(Message, kw_only=True, tag="missing/1"):
    """There is no such thing."""

    kind: str
    name: str


class Refused(Message, kw_only=True, tag="refused/1"):
    """Not done; ``why`` is a stable word such as ALREADY_DECIDED."""

    why: str
    message: str = ""


class RunEnded(Message, kw_only=True, tag="run-ended/1"):
    """The run is terminal."""

    version: int
    status: Status


# ------------------------------------------------------------------ runs
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


# ------------------------------------------------------------------ effects
class Claimed(Message, kw_only=True, tag="claimed/1"):
    """The write may start."""

    at: Timestamp


class Claim(LedgerRequest[Claimed | Refused], kw_only=True, tag="claim/1"):
    """The executor is about to start this write."""

    verb = "claim"

    tenant: str
    run_id: str
    key: str
    grant_id: str
    claim_id: str
    expires_at: Timestamp
    """The grant's."""
    is_replay: bool = False


class Voided(Message, kw_only=True, tag="voided/1"):
    """The key is free: the write never started, or is known not to have happened."""


class Started(Message, kw_only=True, tag="started/1"):
    """The key was claimed; its outcome is not known."""

    first_claim_at: Timestamp = 0.0
    last_claim_at: Timestamp
    now: Timestamp


class Happened(Message, kw_only=True, tag="happened/1"):
    """The outcome has been settled: it happened."""

    evidence: Evidence | None = None


class Elsewhere(Message, kw_only=True, tag="elsewhere/1"):
    """Another run holds the key."""


class Void(LedgerRequest[Voided | Started | Happened | Elsewhere], kw_only=True, tag="void/1"):
    """By the run that holds the key: intended and never claimed becomes free."""

    verb = "void"

    tenant: str
    run_id: str
    key: str
    grant_id: str


class Settled(Message, kw_only=True, tag="settled/1"):
    """Recorded. ``is_proof`` false: an error that does not prove that nothing happened."""

    is_proof: bool
    now: Timestamp


class Settle(LedgerRequest[Settled], kw_only=True, tag="settle/1"):
    """The executor's outcome of a write; durable even if the orchestrator is gone."""

    verb = "settle"

    tenant: str
    run_id: str
    key: str
    grant_id: str
    claim_id: str
    outcome: Literal["ok", "error", "not_started"]
    evidence: Evidence | None = None
    problem: Problem | None = None


class EffectResolved(Message, kw_only=True, tag="effect-resolved/1"):
    """A person said what became of a flagged key; it is done or free now."""

    effect: EffectRow


class ResolveEffect(
    LedgerRequest[EffectResolved | Refused | Missing], kw_only=True, tag="resolve-effect/1"
):
    """Settle an unknown key by hand, compare-and-set on its row."""

    verb = "resolve-effect"

    tenant: str
    key: str
    finding: Literal["happened", "absent"]
    person: str
    evidence: Evidence | None = None
    why: str = ""


# ------------------------------------------------------------------ people and control
class SignalStored(Message, kw_only=True, tag="signal-stored/1"):
    """The signal waits for the run's owner."""

    run_id: str
    id: int
    also: tuple[str, ...] = ()
    """Open descendants that were told with it; worth a wake each."""


class SendSignal(
    LedgerRequest[SignalStored | RunEnded | Refused | Missing],
    kw_only=True,
    tag="send-signal/1",
):
    """Store a cancel, pause or resume; a cancel is stored for all open descendants too.

    The other kinds are written by the operation they belong to (DecideApproval, AnswerQuestion,
    the Append that ends a child). A control that is pending already is not stored again.
    """

    verb = "signal"

    tenant: str
    run_id: str
    signal: Signal


class ApprovalDecided(Message, kw_only=True, tag="approval-decided/1"):
    """The decision stands and its run has been told."""

    approval: ApprovalRow


class DecideApproval(
    LedgerRequest[ApprovalDecided | Refused | Missing], kw_only=True, tag="decide-approval/1"
):
    """Approve or deny, compare-and-set on one row; the first decision wins."""

    verb = "decide-approval"

    tenant: str
    approval_id: str
    decision: Literal["approved", "denied"]
    person: str
    credential: str = ""
    channel: str = ""
    confirmed_hash: str = ""
    """What the person saw, 12 hex digits or more; empty: not given."""
    reason: str = ""


class AnswerQuestion(
    LedgerRequest[SignalStored | Refused | Missing], kw_only=True, tag="answer-question/1"
):
    """Answer the named question, compare-and-set on one row."""

    verb = "answer-question"

    tenant: str
    run_id: str
    question_id: str
    answer: JsonValue
    person: str


class Hold(LedgerRequest[Done], kw_only=True, tag="hold/1"):
    """Take and Due pass over what the hold names, until it is lifted."""

    verb = "hold"

    hold: HoldRow


class Lift(LedgerRequest[Done], kw_only=True, tag="lift/1"):
    """End a hold."""

    verb = "lift"

    tenant: str = "*"
    agent: str = "*"


# ------------------------------------------------------------------ artifacts and queries
class Keep(LedgerRequest[Done | Refused], kw_only=True, tag="keep/1"):
    """One part of an artifact, named by the SHA-256 of the whole, which is checked at the last."""

    verb = "keep"

    tenant: str
    sha256: str
    part: int = 0
    parts: int = 1
    data: bytes


class Fetched(Message, kw_only=True, tag="fetched/1"):
    """One part of an artifact."""

    part: int
    parts: int
    data: bytes


class Fetch(LedgerRequest[Fetched | Missing], kw_only=True, tag="fetch/1"):
    """One part of an artifact."""

    verb = "fetch"

    tenant: str
    sha256: str
    part: int = 0


class RunRows(Message, kw_only=True, tag="run-rows/1"):
    """Runs, newest first."""

    rows: tuple[RunRow, ...]


class ListRuns(LedgerRequest[RunRows], kw_only=True, tag="list-runs/1"):
    """Runs that match all that is given; open ones only unless ``statuses`` says otherwise."""

    verb = "list-runs"

    tenant: str
    statuses: tuple[Status, ...] = ()
    is_open_only: bool = True
    agent: str | None = None
    labels: dict[str, str] = {}
    since: Timestamp | None = None
    limit: int = 50


class ApprovalRows(Message, kw_only=True, tag="approval-rows/1"):
    """Approvals, oldest first."""

    rows: tuple[ApprovalRow, ...]


class ListApprovals(LedgerRequest[ApprovalRows], kw_only=True, tag="list-approvals/1"):
    """Approvals of a tenant; the pending ones unless told otherwise."""

    verb = "list-approvals"

    tenant: str
    ids: tuple[str, ...] = ()
    """These, whatever their state."""
    run_id: str | None = None
    is_pending_only: bool = True
    limit: int = 100


class EffectRows(Message, kw_only=True, tag="effect-rows/1"):
    """Keys of the idempotency ledger, newest first."""

    rows: tuple[EffectRow, ...]


class ListEffects(LedgerRequest[EffectRows], kw_only=True, tag="list-effects/1"):
    """Keys of a tenant that match all that is given."""

    verb = "list-effects"

    tenant: str
    keys: tuple[str, ...] = ()
    run_id: str | None = None
    is_unresolved_only: bool = False
    """Flagged, or unknown."""
    limit: int = 100


AnyLedgerRequest = (
    Create
    | Take
    | Release
    | Renew
    | Append
    | Load
    | Due
    | Published
    | Claim
    | Void
    | Settle
    | ResolveEffect
    | SendSignal
    | DecideApproval
    | AnswerQuestion
    | Hold
    | Lift
    | Keep
    | Fetch
    | ListRuns
    | ListApprovals
    | ListEffects
)

AnyLedgerAnswer = (
    Created
    | Existing
    | Taken
    | Held
    | RunEnded
    | Missing
    | Refused
    | Done
    | Committed
    | Conflicted
    | KeysTaken
    | Stale
    | Loaded
    | DueRuns
    | Claimed
    | Voided
    | Started
    | Happened
    | Elsewhere
    | Settled
    | EffectResolved
    | SignalStored
    | ApprovalDecided
    | Fetched
    | RunRows
    | ApprovalRows
    | EffectRows
)
