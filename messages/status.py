"""Statuses and reasons of a run (CONTRACT.md section 3)."""

from enum import StrEnum


class Status(StrEnum):
    """Where a run is. QUEUED is shown, never folded: an open run at version 0 without an owner."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    AWAITING_HUMAN = "AWAITING_HUMAN"
    AWAITING_CHILDREN = "AWAITING_CHILDREN"
    WAITING = "WAITING"
    PAUSED = "PAUSED"
    SUCCEEDED = "SUCCEEDED"
    NEEDS_INPUT = "NEEDS_INPUT"
    DENIED = "DENIED"
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    NO_PROGRESS = "NO_PROGRESS"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def is_terminal(self) -> bool:
        """Nothing changes any more."""
        return self in TERMINAL

    @property
    def is_suspended(self) -> bool:
        """Open, but nobody drives it until a signal or ``until``."""
        return self in SUSPENDED


TERMINAL = frozenset(
    {
        Status.SUCCEEDED,
        Status.NEEDS_INPUT,
        Status.DENIED,
        Status.BUDGET_EXHAUSTED,
        Status.NO_PROGRESS,
        Status.FAILED,
        Status.CANCELLED,
    }
)
SUSPENDED = frozenset(
    {
        Status.AWAITING_APPROVAL,
        Status.AWAITING_HUMAN,
        Status.AWAITING_CHILDREN,
        Status.WAITING,
        Status.PAUSED,
    }
)


class Reason(StrEnum):
    """Why a run is where it is; a suspension may also carry free text (the rule, the question)."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    QUESTION = "question"
    APPROVAL_EXPIRED = "approval_expired"
    POLICY = "policy"
    MAX_STEPS = "max_steps"
    MAX_TOKENS = "max_tokens"
    MAX_USD = "max_usd"
    MAX_SECONDS = "max_seconds"
    REPEATED_ACTION = "repeated_action"
    NO_STATE_CHANGE = "no_state_change"
    OSCILLATION = "oscillation"
    NEAR_DUPLICATE = "near_duplicate"
    NO_ACTION = "no_action"
    UNKNOWN_EFFECT = "unknown_effect"
    UNPRICED_MODEL = "unpriced_model"
    MODEL_UNAVAILABLE = "model_unavailable"
    REFUSED = "refused"
    OUTPUT_LIMIT = "output_limit"
    TOO_MANY_ERRORS = "too_many_errors"
    BAD_OUTPUT = "bad_output"
    CHILD_FAILED = "child_failed"
    AGENT_CHANGED = "agent_changed"
    POISON = "poison"
    BY_PERSON = "by_person"
    PARENT = "parent"
    EFFECT_UNSETTLED = "effect_unsettled"
    CHILDREN = "children"
    TIMER = "timer"
    RETRY_AFTER = "retry_after"

    @property
    def is_budget(self) -> bool:
        """A budget stopped the run."""
        return self in {Reason.MAX_STEPS, Reason.MAX_TOKENS, Reason.MAX_USD, Reason.MAX_SECONDS}

    @property
    def is_success(self) -> bool:
        """The run did what it was for."""
        return self in {Reason.VERIFIED, Reason.UNVERIFIED}
