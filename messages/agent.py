"""AgentSpec: the pure data of an agent, all that the loop knows of it.

User code (tools, rules, preconditions, lookups, ``done``) never enters the pure loop; it runs in
the executor, the authoriser and the monitor. What the loop needs to decide is here.
"""

from typing import Literal

from messages.base import Part
from messages.parts import EffectClass, JsonValue, Limits, Price


class ToolSpec(Part, kw_only=True):
    """One tool as data."""

    name: str
    description: str
    kind: Literal["read", "write"]
    parameters: dict[str, JsonValue]
    """JSON schema of the arguments, ``type: object`` at the root."""
    scope: str = ""
    source: str = ""
    key: str | None = None
    """Key template of a write; None with ``is_each_call``."""
    is_each_call: bool = False
    replay_for_s: float | None = None
    """How long the downstream honours our key."""
    has_lookup: bool = False
    has_precondition: bool = False
    has_rule: bool = False
    timeout_s: float = 30.0
    late_commit_s: float = 10.0
    """How long the downstream may still commit after we gave up."""
    is_polling: bool = False
    cache_s: float = 0.0

    @property
    def effect(self) -> EffectClass:
        """How an unknown outcome is resolved first."""
        if self.kind == "read":
            return "read"
        if self.replay_for_s is not None:
            return "replay"
        return "lookup" if self.has_lookup else "blind"

    @property
    def settle_after_s(self) -> float:
        """W of DESIGN.md section 6: after the claim, "absent" counts only later than this."""
        return self.timeout_s + self.late_commit_s


class ProgressSpec(Part, kw_only=True):
    """Thresholds of the progress monitor, over equal (action, result) pairs and steps."""

    warn_at: int = 3
    stop_at: int = 4
    stall_at: int = 3
    window: int = 6


class ErrorSpec(Part, kw_only=True):
    """Ceilings on errors; what exceeds one escalates to a person or ends the run."""

    max_consecutive: int = 3
    max_total: int = 4
    max_corrections: int = 3
    escalate_to: str | None = None
    """A group of people; None: the run ends FAILED."""


ModelRole = Literal["final", "summary"]
"""What an agent asks a model for besides its steps: the last turn without tools, and a summary of
what no longer fits the window."""


class ContextSpec(Part, kw_only=True):
    """How much of a run the model is shown at once."""

    window_tokens: int = 200_000
    """No request is larger, its answer included; a token for every byte."""
    keep_turns: int = 3
    """So many of the newest turns stay whole when older ones are shortened, where they fit."""


class ModelUse(Part, kw_only=True):
    """A model, and what it costs."""

    model: str
    price: Price | None = None
    """None: no price is known; a cost budget then stops the run."""


class AgentSpec(Part, kw_only=True):
    """One agent as data."""

    name: str
    code: str
    """SHA-256 of what the user declared: instructions, schemas, options, source of the hooks."""
    model: str
    instructions: str
    tools: tuple[ToolSpec, ...] = ()
    limits: Limits = Limits()
    progress: ProgressSpec = ProgressSpec()
    context: ContextSpec = ContextSpec()
    errors: ErrorSpec = ErrorSpec()
    strategy: Literal["loop"] = "loop"
    output_schema: dict[str, JsonValue] | None = None
    """Schema of ``finish(output)``; None: the agent has no ``output=``."""
    has_done: bool = False
    on_policy_deny: Literal["end", "tell"] = "end"
    on_expired_approval: Literal["tell", "needs_input"] = "tell"
    approval_ttl_s: float = 7200.0
    max_output_tokens: int = 4096
    price: Price | None = None
    """None: the model has no known price; a cost budget then stops the run."""
    roles: dict[ModelRole, ModelUse] = {}
    """Models of their own for some roles; every other is played by ``model``."""
    prompt_bytes: int = 0
    """Bytes of instructions, tool schemas and fixed overhead: an upper bound of their tokens."""

    def use(self, role: ModelRole | None = None) -> ModelUse:
        """The model that plays a role; None: that of the steps."""
        own = None if role is None else self.roles.get(role)
        return own or ModelUse(model=self.model, price=self.price)

    @property
    def uses(self) -> tuple[ModelUse, ...]:
        """Every model that this agent may ask, that of the steps first."""
        return (self.use(), *self.roles.values())

    def tool(self, name: str) -> ToolSpec | None:
        """The tool of that name, or None."""
        for tool in self.tools:
            if tool.name == name:
                return tool
        return None
