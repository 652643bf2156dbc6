"""Events of one step: reserved, decided, validated, assessed."""

from typing import Literal

from messages.base import Event, Part, Timestamp
from messages.parts import (
    Action,
    Amount,
    Attempt,
    Block,
    JsonValue,
    Price,
    Problem,
    Reservation,
    Usage,
)

FlagKind = Literal["repeated_action", "no_state_change", "oscillation", "near_duplicate"]


class StepReserved(Event, kw_only=True, tag="step-reserved/1"):
    """The next step is paid for; also written to widen an open reservation of the same step."""

    reservation: Reservation


class StepLost(Event, kw_only=True, tag="step-lost/1"):
    """A reserved step produced no decision that is known; it counts as used."""

    step: int
    charged: Amount
    why: str
    attempts: tuple[Attempt, ...] = ()


class AttemptFailed(Event, kw_only=True, tag="attempt-failed/1"):
    """The model failed once and is asked again: the step goes on under a new reservation.

    An attempt costs time and tokens; it is no step.
    """

    step: int
    charged: Amount
    attempt: Attempt


class Recipe(Part, kw_only=True):
    """What the model input was made of, enough to render it again."""

    agent_code: str = ""
    instructions: str = ""
    """SHA-256."""
    tools: str = ""
    """SHA-256 of the tool schemas sent."""
    model: str = ""
    """The name by which the model was asked for."""
    first_version: int = 0
    """Cut point: the conversation starts at this entry."""
    kept_turns: int | None = None
    """For this request a new conversation began, in which only so many of the newest turns still
    show their results; None: it went on as it was."""
    tokens: int = 0
    """The most that the conversation can have which was sent; 0: not known."""


class Decided(Event, kw_only=True, tag="decided/1"):
    """The model answered; the answer is a proposal and nothing more."""

    step: int
    content: tuple[Block, ...]
    """Exactly as received."""
    stop_reason: str
    usage: Usage
    is_usage_reported: bool = True
    """False: the provider said nothing and the reservation was charged."""
    charged: Amount
    is_over_reservation: bool = False
    """The provider counted more than was reserved; it is charged in full and ends the run."""
    price_date: str = ""
    price: Price | None = None
    """What was charged at; None: no price was known."""
    model: str
    parameters: dict[str, JsonValue] = {}
    request_id: str = ""
    attempts: tuple[Attempt, ...] = ()
    started_at: Timestamp
    duration_s: float = 0.0
    recipe: Recipe = Recipe()


class Consulted(Event, kw_only=True, tag="consulted/1"):
    """Another role than the decider asked a model: it spends, it is no step."""

    purpose: str
    text: str = ""
    """What it said; of a summary, what stands for the turns that are no longer sent."""
    kept_turns: int = 0
    """Of a summary: so many of the newest turns are still sent."""
    tokens: int = 0
    """Of a summary: the most that the conversation can have which begins with it."""
    usage: Usage
    is_usage_reported: bool = True
    charged: Amount
    is_over_reservation: bool = False
    model: str
    request_id: str = ""
    started_at: Timestamp = 0.0
    price_date: str = ""
    price: Price | None = None
    """What was charged at; None: no price was known."""
    duration_s: float = 0.0


class ProposalRejected(Event, kw_only=True, tag="proposal-rejected/1"):
    """The proposal, or one call of it, is not well-formed."""

    step: int
    ordinal: int | None = None
    """None: the whole proposal."""
    problem: Problem


class Accepted(Event, kw_only=True, tag="accepted/1"):
    """These calls are well-formed; from here on the canonical action is what counts."""

    step: int
    actions: tuple[Action, ...] = ()
    """None: it is the finish proposal that is well-formed."""
    output: JsonValue = None
    """Of a finish proposal: decoded by the agent's output type and encoded again."""


class ProgressFlagged(Event, kw_only=True, tag="progress-flagged/1"):
    """The progress monitor saw a pattern; warn goes into the result, stop ends the run."""

    step: int
    ordinal: int | None = None
    kind: FlagKind
    level: Literal["warn", "stop"]
    message: str


class Assessed(Event, kw_only=True, tag="assessed/1"):
    """The results of the step were looked at for progress."""

    step: int


class Judged(Event, kw_only=True, tag="judged/1"):
    """The predicate was asked after an observation and is not met yet."""

    step: int
    unmet: str


class CompletionAccepted(Event, kw_only=True, tag="completion-accepted/1"):
    """The predicate holds over recorded evidence, for the output that is proposed where one is."""

    step: int


class CompletionRejected(Event, kw_only=True, tag="completion-rejected/1"):
    """The model proposed to finish and recorded evidence does not bear it out."""

    step: int
    problem: Problem


class Planned(Event, kw_only=True, tag="planned/1"):
    """A plan, or its revision, was recorded."""

    step: int
    plan: tuple[JsonValue, ...]
