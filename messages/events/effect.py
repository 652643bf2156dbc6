"""Events about what was allowed, started, seen and settled."""

from typing import Literal

from messages.authority import Grant, Verdict
from messages.base import Event, Timestamp
from messages.parts import Attempt, Evidence, Problem, ResultKind


class Authorised(Event, kw_only=True, tag="authorised/1"):
    """Policy was asked about these actions; the grant is kept for the record."""

    step: int
    verdicts: tuple[Verdict, ...]
    policy: str
    grant: Grant | None = None


class Rechecked(Event, kw_only=True, tag="rechecked/1"):
    """The precondition of an action was asked."""

    step: int
    ordinal: int
    unmet: str | None = None


class Intended(Event, kw_only=True, tag="intended/1"):
    """A write may start from now on, under this key and this grant."""

    step: int
    ordinal: int
    tool: str
    key: str
    action_hash: str
    grant_id: str
    effect: Literal["replay", "lookup", "blind"]
    settle_after_s: float = 40.0
    """W of its tool: how long after a claim "absent" does not count yet."""


class Observed(Event, kw_only=True, tag="observed/1"):
    """A call has its result; ``unknown`` is the one that still has to be reconciled."""

    step: int
    ordinal: int
    kind: ResultKind | Literal["unknown"]
    evidence: Evidence | None = None
    problem: Problem | None = None
    attempts: tuple[Attempt, ...] = ()
    claimed_at: Timestamp | None = None
    tool_cost_microusd: int = 0


class Reconciled(Event, kw_only=True, tag="reconciled/1"):
    """What became of an intended write whose outcome was not known."""

    step: int
    ordinal: int
    key: str
    finding: Literal["happened", "absent", "undecidable"]
    how: Literal["void", "settled", "replay", "lookup", "none"]
    evidence: Evidence | None = None
    problem: Problem | None = None


class Verified(Event, kw_only=True, tag="verified/1"):
    """Before success an executed write was looked up once more."""

    step: int
    key: str
    is_there: bool
    evidence: Evidence | None = None
    problem: Problem | None = None
    """Why the lookup could not decide; ``is_there`` is False then and says nothing."""
