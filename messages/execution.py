"""What the executor is asked and answers."""

from typing import Literal

from messages.authority import Grant
from messages.base import Message, Request, Timestamp
from messages.parts import Action, Attempt, Evidence, Problem


class Outcome(Message, kw_only=True, tag="outcome/1"):
    """How a call went. ``unknown`` is for a write that may have happened; never for a read."""

    kind: Literal["ok", "error", "unknown"]
    evidence: Evidence | None = None
    problem: Problem | None = None
    attempts: tuple[Attempt, ...] = ()
    claimed_at: Timestamp | None = None
    duration_s: float = 0.0


class RecheckVerdict(Message, kw_only=True, tag="recheck-verdict/1"):
    """``unmet`` None: the precondition holds. ``problem``: it could not be asked."""

    unmet: str | None = None
    problem: Problem | None = None


class Finding(Message, kw_only=True, tag="finding/1"):
    """What a lookup by key found."""

    kind: Literal["happened", "absent", "undecidable"]
    evidence: Evidence | None = None
    problem: Problem | None = None


class Execute(Request[Outcome], kw_only=True, tag="execute/1"):
    """Run exactly this action under this grant."""

    role = "executor"
    verb = "execute"

    tenant: str
    run_id: str
    principal: str
    agent: str
    step: int
    action: Action
    grant: Grant
    evidence_id: str
    now: Timestamp
    """The ledger's clock as the sender knows it, against which the grant's expiry is read."""

    @property
    def tool(self) -> str:
        """The tool, a token of the subject."""
        return self.action.tool


class Recheck(Request[RecheckVerdict], kw_only=True, tag="recheck/1"):
    """Does the precondition of this action hold now?"""

    role = "executor"
    verb = "recheck"

    tenant: str
    run_id: str
    principal: str
    agent: str
    step: int
    action: Action
    grant: Grant
    now: Timestamp

    @property
    def tool(self) -> str:
        """The tool, a token of the subject."""
        return self.action.tool


class Reconcile(Request[Finding], kw_only=True, tag="reconcile/1"):
    """Ask the downstream by key whether this action happened."""

    role = "executor"
    verb = "reconcile"

    tenant: str
    run_id: str
    principal: str
    agent: str
    step: int
    action: Action
    grant: Grant
    evidence_id: str
    now: Timestamp

    @property
    def tool(self) -> str:
        """The tool, a token of the subject."""
        return self.action.tool
