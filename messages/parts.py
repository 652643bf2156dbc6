"""Structs that events, state and requests share."""

from typing import Any, Literal

from messages.base import Part, Timestamp

JsonValue = Any
"""Foreign JSON: tool arguments, tool results, task inputs, provider content blocks."""

Arguments = dict[str, JsonValue]
"""Arguments of a tool call, by parameter name."""

Block = dict[str, JsonValue]
"""One content block exactly as the provider sent it."""

UNREADABLE = "unreadable"
"""In a tool_use block: why its ``input`` is a text and not what the model wanted to send."""

EffectClass = Literal["read", "replay", "lookup", "blind"]
"""How an unknown outcome of a call is resolved; a read has none to resolve."""

ResultKind = Literal[
    "ok", "error", "rejected", "denied", "expired", "unmet", "refused", "not_started", "cancelled"
]
"""How a call ended. Only ``ok`` and ``error`` mean that the tool ran."""


class Usage(Part, kw_only=True):
    """Tokens as the provider counts them; ``input_tokens`` excludes cached ones."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    """Those of ``cache_write_tokens`` that were written for an hour."""

    @property
    def tokens(self) -> int:
        """All tokens, each counted once."""
        return (
            self.input_tokens
            + self.output_tokens
            + self.cache_read_tokens
            + self.cache_write_tokens
        )

    def plus(self, other: "Usage") -> "Usage":
        """Field-wise sum."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            cache_write_1h_tokens=self.cache_write_1h_tokens + other.cache_write_1h_tokens,
        )


class Rates(Part, kw_only=True):
    """What a million tokens cost, in micro-USD."""

    input_microusd: int = 0
    output_microusd: int = 0
    cache_read_microusd: int = 0
    cache_write_microusd: int = 0
    cache_write_1h_microusd: int = 0

    def charge(self, usage: Usage) -> int:
        """Micro-USD of that usage, rounded up so that a budget is never passed by rounding."""
        short_lived = usage.cache_write_tokens - usage.cache_write_1h_tokens
        total = (
            usage.input_tokens * self.input_microusd
            + usage.output_tokens * self.output_microusd
            + usage.cache_read_tokens * self.cache_read_microusd
            + short_lived * self.cache_write_microusd
            + usage.cache_write_1h_tokens * self.cache_write_1h_microusd
        )
        return -(-total // 1_000_000)

    def bound(self, input_tokens: int, output_tokens: int) -> int:
        """The most that many tokens cost, however the input is cached for five minutes."""
        dearest = max(self.input_microusd, self.cache_write_microusd)
        return self.charge(Usage(output_tokens=output_tokens)) - (-input_tokens * dearest // 10**6)


class Price(Rates, kw_only=True):
    """The rates of a model as of ``date``."""

    date: str
    long_above_tokens: int = 0
    """A request whose prompt has more tokens, cached ones included, is charged at ``long``."""
    long: Rates | None = None

    def cost(self, usage: Usage) -> int:
        """Micro-USD of one request with that usage."""
        return self._rates(usage.tokens - usage.output_tokens).charge(usage)

    def cost_bound(self, input_tokens: int, output_tokens: int) -> int:
        """The most that one request of at most so many tokens can cost."""
        longest = self._rates(input_tokens)
        return max(rates.bound(input_tokens, output_tokens) for rates in (self, longest))

    def _rates(self, prompt_tokens: int) -> Rates:
        if self.long is None or prompt_tokens <= self.long_above_tokens:
            return self
        return self.long


class Limits(Part, kw_only=True):
    """The budgets of a run; ``max_cost_microusd`` None is no cost limit."""

    max_steps: int = 25
    max_tokens: int = 200_000
    max_cost_microusd: int | None = None
    max_seconds: float = 300.0
    max_wait_s: float = 86_400.0
    """The most that the model may let the run wait in all."""


class Amount(Part, kw_only=True):
    """Tokens and money that belong together: a reservation's ceiling or what was charged."""

    tokens: int = 0
    cost_microusd: int = 0


class Call(Part, kw_only=True):
    """One tool call of a decision, as proposed."""

    ordinal: int
    """Place within the turn, from 0."""
    tool_use_id: str
    """The provider's id; pairs call and result, and never enters a key."""
    tool: str
    arguments: Arguments
    unreadable: str = ""
    """Why they are none, with the place; empty where they are an object."""


class Action(Part, kw_only=True):
    """A validated call: what is hashed, shown, granted and run."""

    ordinal: int
    tool: str
    arguments: Arguments
    """Decoded by the tool's types and encoded again."""
    key: str | None = None
    """Idempotency key of a write."""
    action_hash: str
    size: int | None = None
    is_polling: bool = False
    """Of a tool that is declared to be asked again and again; the progress monitor leaves it be."""


class Problem(Part, kw_only=True):
    """Why something was refused: a stable code, words for the model and the record."""

    code: str
    message: str
    hint: str = ""


class Evidence(Part, kw_only=True):
    """An observation as data, with its provenance."""

    id: str
    tool: str
    request_id: str
    fetched_at: Timestamp
    duration_s: float = 0.0
    source: str
    payload: JsonValue = None
    ref: str | None = None
    """SHA-256 of the whole payload in the artifacts, where it was too large to carry."""
    notes: tuple[str, ...] = ()
    """What the cleaning point had to change, in words the model can see."""
    reused: str = ""
    """The evidence that this repeats: the tool was not called again. Empty: it was called."""


class Attempt(Part, kw_only=True):
    """One try of a read by the executor, or of a model call by the planner."""

    request_id: str
    started_at: Timestamp
    duration_s: float = 0.0
    error: Problem | None = None


class Identity(Part, kw_only=True):
    """Who a run acts for, fixed when it was created."""

    tenant: str
    principal: str
    scopes: tuple[str, ...] = ()


class Reservation(Part, kw_only=True):
    """The most that one step may cost, durable before the model is asked."""

    step: int
    most: Amount
    output_tokens: int
    """The part of ``most.tokens`` that the answer may use: the provider's max_tokens."""
    take_id: str
    """The take that may use it; empty: reserved at creation."""
    is_final: bool = False
    """The one tool-free turn after a budget is gone; it is no step."""
    is_summary: bool = False
    """For a summary of what no longer fits the window; it is no step either."""
