"""What the executor is asked and answers."""

from typing import ClassVar, Literal

from messages.authority import Grant
from messages.base import Message, ReplyT_co, Request, Timestamp
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


class ExecutorRequest(Request[ReplyT_co], kw_only=True, tag="executor-request/1"):
    """Something to be done with one action of a run, under a grant for exactly that action."""

    role: ClassVar[str] = "executor"

    tenant: str
    run_id: str
    principal: str
    agent: str
    step: int
    action: Action
    grant: Grant
    now: Timestamp
    """The ledger's clock as the sender knows it, against which the grant's expiry is read."""

    @property
    def tool(self) -> str:
        """The tool, a token of the subject."""
        return self.action.tool


class Execute(ExecutorRequest[Outcome], kw_only=True, tag="execute/1"):
    """Run exactly this action under this grant."""

    verb = "execute"

    evidence_id: str


class Recheck(ExecutorRequest[RecheckVerdict], kw_only=True, tag="recheck/1"):
    """Does the precondition of this action hold now?"""

    verb = "recheck"


class Reconcile(ExecutorRequest[Finding], kw_only=True, tag="reconcile/1"):
    """Ask the downstream by key whether this action happened."""

    verb = "reconcile"

    evidence_id: str
