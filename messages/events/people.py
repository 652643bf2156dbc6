"""Events about people: approvals and questions."""

from typing import Literal

from messages.base import Event, Timestamp
from messages.parts import JsonValue


class ApprovalRequested(Event, kw_only=True, tag="approval-requested/1"):
    """A person of ``group`` is asked to allow exactly this action."""

    step: int
    ordinal: int
    approval_id: str
    tool: str
    action_hash: str
    key: str | None = None
    group: str
    size: int | None = None
    rule: str = ""
    why: str = ""
    expires_at: Timestamp
    package: str
    """SHA-256 of what the approver is shown (an artifact)."""


class ApprovalResolved(Event, kw_only=True, tag="approval-resolved/1"):
    """A person decided."""

    step: int
    ordinal: int
    approval_id: str
    decision: Literal["approved", "denied"]
    person: str
    credential: str = ""
    channel: str = ""
    confirmed_hash: str = ""
    reason: str = ""
    decided_at: Timestamp


class ApprovalExpired(Event, kw_only=True, tag="approval-expired/1"):
    """Nobody decided in time."""

    step: int
    ordinal: int
    approval_id: str


class HumanAsked(Event, kw_only=True, tag="human-asked/1"):
    """A person is asked a question and the run waits."""

    step: int
    question_id: str
    text: str
    schema: dict[str, JsonValue] | None = None
    group: str | None = None
    package: dict[str, JsonValue] = {}


class HumanAnswered(Event, kw_only=True, tag="human-answered/1"):
    """A person answered; the model sees it as a user message."""

    question_id: str
    answer: JsonValue
    person: str
    answered_at: Timestamp
