"""What the authoriser is asked and answers: grants, approvals, denials.

A grant is one signature per step over every action it allows. The executor has no authority of
its own: it runs the bytes of an action only under a grant that names that action's hash.
"""

from typing import Literal

from messages.base import Message, Part, Request, Timestamp
from messages.parts import Action, Problem

Purpose = Literal["execute", "recheck", "lookup"]
"""What a granted action may be used for; ``execute`` includes ``recheck``."""


class GrantedAction(Part, kw_only=True):
    """One action inside a grant."""

    ordinal: int
    tool: str
    action_hash: str
    key: str | None = None
    approval_id: str | None = None
    purpose: Purpose = "execute"
    is_replay: bool = False
    """May claim a key that this run has claimed before, a pending cancel notwithstanding."""


class Grant(Part, kw_only=True):
    """The authoriser allowed these actions for this run until ``expires_at``."""

    id: str
    tenant: str
    run_id: str
    step: int
    actions: tuple[GrantedAction, ...]
    expires_at: Timestamp
    policy: str = ""
    signature: str = ""
    """Ed25519 over the canonical form of the other fields, base64url."""

    def action(self, ordinal: int) -> GrantedAction | None:
        """The granted action of that ordinal, or None."""
        return next((action for action in self.actions if action.ordinal == ordinal), None)


class Verdict(Part, kw_only=True):
    """What policy says of one action."""

    ordinal: int
    decision: Literal["allow", "ask", "deny"]
    rule: str = ""
    """Name of the rule that decided."""
    why: str = ""
    group: str | None = None
    """Who may approve, where ``ask``."""
    size: int | None = None
    """Size of the action in the rule's unit, compared with what a group may approve."""
    ttl_s: float | None = None
    """How long the approval may wait; None: the agent's."""
    expires_at: Timestamp | None = None
    """Where ``ask``: until when a person may decide."""
    package: str = ""
    """Where ``ask``: SHA-256 of what the person is shown (an artifact)."""
    problem: Problem | None = None


class Authorisation(Message, kw_only=True, tag="authorisation/1"):
    """The authoriser's answer: a verdict per action and one grant for what may be done now."""

    verdicts: tuple[Verdict, ...]
    policy: str
    """Version of the policy that was read."""
    grant: Grant | None = None


class ApprovalUse(Part, kw_only=True):
    """The approval under which an action is to be authorised; the authoriser reads it itself."""

    ordinal: int
    approval_id: str


class Authorise(Request[Authorisation], kw_only=True, tag="authorise/1"):
    """May this run do these actions now?"""

    role = "authoriser"
    verb = "authorise"

    tenant: str
    run_id: str
    agent: str
    version: int
    step: int
    actions: tuple[Action, ...]
    approvals: tuple[ApprovalUse, ...] = ()
    purpose: Purpose = "execute"
    replays: tuple[int, ...] = ()
    """Ordinals to be settled: the authoriser looks their keys up before it believes that."""
