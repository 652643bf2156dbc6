"""LoopState: everything a run is, folded from its journal and from nothing else.

It holds what a decision needs and what ``show`` prints. It is never stored as such: the journal is
the record, this is the fold (``runtime.loop.evolve``).
"""

from typing import Literal

from messages.base import Part, Timestamp
from messages.events.run import Child
from messages.parts import (
    Action,
    Amount,
    Arguments,
    Block,
    EffectClass,
    Evidence,
    Identity,
    JsonValue,
    Limits,
    Problem,
    Reservation,
    ResultKind,
    Usage,
)
from messages.status import Status

CallPhase = Literal[
    "proposed",  # as the model asked for it
    "accepted",  # well-formed
    "allowed",  # under a grant
    "asking",  # a person has to decide; the request is not out yet
    "waiting",  # a person has been asked
    "approved",  # a person allowed it; goes back to Validate
    "intended",  # a write that may have started
    "unknown",  # a write that started and whose outcome is not known
    "observed",  # has its result
]

OutstandingStatus = Literal[
    "proposed", "approved", "intended", "executed", "verified", "unknown", "dropped"
]

Verification = Literal["happened", "absent", "undecidable"]

ProposalKind = Literal[
    "calls",
    "finish",
    "ask_user",
    "wait",
    "give_up",
    "empty",
    "cut",
    "refused",
    "unreadable",  # a control tool whose arguments are none
    "unknown",  # the turn ended for a reason that this code does not know
    "final",
]


class CallResult(Part, kw_only=True):
    """How a call ended; what the model is told of it."""

    kind: ResultKind | Literal["unknown"]
    """Unknown: said only of a call whose run ended before its outcome was known."""
    evidence_id: str | None = None
    problem: Problem | None = None
    warning: str = ""
    """The progress monitor's word, shown inside the result."""


class CallState(Part, kw_only=True):
    """One call of the open turn."""

    ordinal: int
    tool_use_id: str
    tool: str
    arguments: Arguments
    unreadable: str = ""
    """Why they are none; the call is turned down then."""
    phase: CallPhase = "proposed"
    action: Action | None = None
    effect: EffectClass = "read"
    group: str = ""
    rule: str = ""
    why: str = ""
    size: int | None = None
    package: str = ""
    approval_id: str | None = None
    approval_expires_at: Timestamp | None = None
    grant_id: str = ""
    grant_expires_at: Timestamp = 0.0
    is_rechecked: bool = False
    """The precondition held since the last authorisation."""
    intents: int = 0
    result: CallResult | None = None


class Proposal(Part, kw_only=True):
    """What the model proposes in one turn, read off its content blocks."""

    kind: ProposalKind
    output: JsonValue = None
    text: str = ""
    """Question, reason, or the words of a plain text answer."""
    schema: dict[str, JsonValue] | None = None
    seconds: float = 0.0
    control_id: str | None = None
    """tool_use id of the control call, which needs a result too."""
    problem: Problem | None = None
    """What is wrong with the arguments of a control call."""


class Turn(Part, kw_only=True):
    """The open turn: from a decision to the reservation of the next step."""

    step: int
    content: tuple[Block, ...] = ()
    proposal: Proposal
    calls: tuple[CallState, ...] = ()
    problem: Problem | None = None
    """Why the proposal as a whole was rejected; the model is told."""
    is_checked: bool = False
    """A finish proposal passed the validator."""
    is_assessed: bool = False
    is_judged: bool = False
    is_met: bool = False
    """The predicate holds: what is left is to look the executed writes up."""
    is_waited: bool = False
    """The wait it asked for was begun."""
    waits_until: Timestamp = 0.0
    """The end of that wait, whatever else makes the run stop or go on meanwhile."""
    warning: str = ""
    """The progress monitor's word on a turn without calls, shown beside what was wrong with it."""
    stopped_by: str = ""
    """The progress monitor's kind, if it said stop."""


class ToolRecord(Part, kw_only=True):
    """One line of tool history."""

    step: int
    tool: str
    args_hash: str
    idempotency_key: str | None = None
    outcome: ResultKind | Literal["unknown"]
    evidence_id: str | None = None


class Outstanding(Part, kw_only=True):
    """A side-effecting action in its life."""

    kind: str
    """The tool."""
    key: str
    action_hash: str
    arguments: Arguments = {}
    """The hashed ones: a lookup is asked with them."""
    status: OutstandingStatus
    step: int
    ordinal: int
    verification: Verification | None = None
    """What the lookup before success said; None: it has not been looked up."""


class Seen(Part, kw_only=True):
    """The progress monitor's memory."""

    pairs: dict[str, int] = {}
    """How often each (action, result) pair was seen."""
    most: int = 0
    """The highest of these counts."""
    alike: dict[str, int] = {}
    """The same, with arguments that differ in form only taken as equal."""
    writes: int = 0
    """Done so far; a read after another one is no repeat."""
    recent: tuple[str, ...] = ()
    """Fingerprints of the last actions, oldest first."""
    payloads: tuple[str, ...] = ()
    """Distinct payload hashes, in order of first sight."""
    fingerprint: str = ""
    """Of what counts as progress, at the end of the last step with results."""
    stalled: int = 0
    """Consecutive steps that left it unchanged."""
    flagged: tuple[str, ...] = ()
    """Kinds the model was warned about."""
    rejections: dict[str, int] = {}
    """How often each rejected or refused call came."""


class Question(Part, kw_only=True):
    """The open question to a person."""

    id: str
    text: str
    schema: dict[str, JsonValue] | None = None
    group: str | None = None


class LoopState(Part, kw_only=True):
    """A run, folded."""

    tenant: str
    run_id: str
    trace_id: str
    agent: str
    agent_code: str
    identity: Identity
    goal: str
    inputs: dict[str, JsonValue] = {}
    labels: dict[str, str] = {}
    limits: Limits
    parent: str | None = None
    continues: str | None = None
    created_at: Timestamp
    updated_at: Timestamp
    version: int = -1
    head_hash: str = ""

    status: Status = Status.RUNNING
    reason: str = ""
    until: Timestamp | None = None
    step_count: int = 0
    """Steps decided or lost."""
    reservation: Reservation | None = None
    has_had_final_turn: bool = False
    exhausted: str = ""
    """The budget that ran out, while the final turn is under way."""
    usage: Usage = Usage()
    spent: Amount = Amount()
    """What was charged: reported usage, or reservations where nothing was reported."""
    children_microusd: int = 0
    """The part of ``spent`` that ended children used."""
    children: tuple[Child, ...] = ()
    """The open ones; what is carved out for them is not this run's to spend."""
    context_bytes: int = 0
    """Upper bound of the tokens of the conversation so far."""

    active_s: float = 0.0
    suspended_s: float = 0.0
    suspended_at: Timestamp | None = None
    waited_s: float = 0.0
    """What the model's own waits have used of ``limits.max_wait_s``."""
    model_s: float = 0.0
    tool_s: float = 0.0
    models: tuple[str, ...] = ()
    """Those that answered, in the order of their first answer."""
    model_calls: int = 0
    retry_at: Timestamp = 0.0
    """The provider asked to be left alone until then; 0: it did not."""
    failed_attempts: int = 0
    """Of the step under way, at the model."""
    tool_calls: int = 0
    tool_errors: int = 0
    flags: int = 0
    """How often the progress monitor warned or stopped it."""
    escalations: int = 0
    consecutive_errors: int = 0
    corrections: int = 0
    """Consecutive steps that were rejected as a whole."""
    nudges: int = 0
    """Consecutive empty turns."""

    turn: Turn | None = None
    evidence: tuple[Evidence, ...] = ()
    tool_history: tuple[ToolRecord, ...] = ()
    outstanding: tuple[Outstanding, ...] = ()
    seen: Seen = Seen()
    question: Question | None = None
    answers: int = 0

    output: JsonValue = None
    summary: str = ""

    @property
    def next_evidence_id(self) -> str:
        """The id the next observation gets."""
        return f"ev-{len(self.evidence) + 1}"
