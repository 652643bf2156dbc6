"""A model as the planner sees it: one request, one attempt, one answer."""

from typing import Literal, Protocol

import msgspec

from messages.base import Part
from messages.parts import Block, JsonValue, Usage

FailureReason = Literal[
    "model_unavailable",  # anything else, as a script without turns
    "overloaded",  # the provider as a whole: 529
    "rate_limited",  # us: 429, usually with a time to wait
    "spend_limit",  # us, until a month ends or somebody pays
    "provider_error",  # 5xx, conflicts
    "timeout",  # no whole answer in time
    "connection",  # not reached, or the connection broke
    "incomplete",  # the stream ended before the answer did
    "garbled",  # what came is not the protocol
    "authentication",  # the key is wrong or may not do that
    "unknown_model",  # 404
    "bad_request",  # the request itself: asking again cannot help
]
"""How an attempt failed, told apart as far as a retry, a breaker or a person must tell it apart."""


class ModelRequest(Part, kw_only=True):
    """What one inference gets to see."""

    model: str
    system: str
    tools: tuple[dict[str, JsonValue], ...]
    """Definitions as the provider wants them; empty on the final turn."""
    messages: tuple[dict[str, JsonValue], ...]
    max_output_tokens: int
    goal: str = ""
    inputs: dict[str, JsonValue] = msgspec.field(default_factory=dict)
    turn: int = 0
    """Decisions before this one in the conversation; 0 is the first."""
    is_final: bool = False
    is_summary: bool = False
    """The tools are there since they belong to the conversation; none may be called."""


class ModelAnswer(Part, kw_only=True):
    """What one inference gave, exactly as received."""

    content: tuple[Block, ...]
    stop_reason: str
    usage: Usage | None = None
    """None: the provider reported none."""
    model: str
    request_id: str = ""
    parameters: dict[str, JsonValue] = msgspec.field(default_factory=dict)


class Model(Protocol):
    """A provider, or a script in its place."""

    async def attempt(self, request: ModelRequest) -> ModelAnswer:
        """One inference, without retries.

        Raises:
            ModelError: it failed; the reason says how.
        """
        ...
