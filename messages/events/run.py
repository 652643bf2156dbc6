"""Events about a run as a whole."""

from messages.base import Event, Part, Timestamp
from messages.parts import Identity, JsonValue, Limits
from messages.status import Reason, Status


class RunCreated(Event, kw_only=True, tag="run-created/1"):
    """A task became a durable run."""

    goal: str
    inputs: dict[str, JsonValue] = {}
    agent: str
    agent_code: str
    identity: Identity
    limits: Limits
    labels: dict[str, str] = {}
    trace_id: str
    traceparent: str | None = None
    parent: str | None = None
    continues: str | None = None
    """The run this one goes on from."""
    reply_to: str | None = None
    context_bytes: int = 0
    """Upper bound of the tokens of goal and inputs."""
    created_at: Timestamp


class Suspended(Event, kw_only=True, tag="suspended/1"):
    """The run waits; its worker is free."""

    status: Status
    reason: str
    until: Timestamp | None = None


class Resumed(Event, kw_only=True, tag="resumed/1"):
    """The run goes on."""

    why: str


class HandedOver(Event, kw_only=True, tag="handed-over/1"):
    """One strategy passed the run to another."""

    source: str
    target: str


class Finished(Event, kw_only=True, tag="finished/1"):
    """The run ended; nothing changes after this."""

    status: Status
    reason: Reason
    signal_id: int | None = None
    person: str | None = None
    why: str = ""
    output: JsonValue = None
    summary: str = ""


class Child(Part, kw_only=True):
    """A sub-agent's run and the budget carved out for it."""

    run_id: str
    agent: str
    goal: str
    inputs: dict[str, JsonValue] = {}
    carve: Limits


class ChildStarted(Event, kw_only=True, tag="child-started/1"):
    """Children were created in the transaction of this entry."""

    step: int
    ordinal: int
    children: tuple[Child, ...]


class ChildEnded(Event, kw_only=True, tag="child-ended/1"):
    """A child ended; its carve is returned and what it used is charged."""

    run_id: str
    status: Status
    reason: Reason
    used_steps: int
    used_tokens: int
    used_cost_microusd: int
    result: JsonValue = None
