"""What the ledger holds: entries, and the rows of runs, keys, approvals, questions, holds."""

from typing import Literal

from messages.base import Part, Timestamp
from messages.events import AnyEvent
from messages.parts import EffectClass, Evidence, JsonValue, Limits, Problem, Usage
from messages.status import Status


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
    children_microusd: int = 0
    """The part of ``cost_microusd`` that children used; each of them has a row of its own."""
    active_s: float = 0.0
    suspended_s: float = 0.0
    model_s: float = 0.0
    tool_s: float = 0.0
    models: tuple[str, ...] = ()
    """Those that answered, in the order of their first answer."""
    model_calls: int = 0
    """Failed attempts and those of other roles included."""
    tool_calls: int = 0
    tool_errors: int = 0
    flags: int = 0
    """How often the progress monitor warned or stopped it."""

    @property
    def own_microusd(self) -> int:
        """What the run itself spent, so that a sum over runs counts everything once."""
        return self.cost_microusd - self.children_microusd


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
