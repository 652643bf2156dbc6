"""What a user says of an agent besides its tools, and what is computed from a declaration."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypedDict

from msgspec.structs import replace

from messages.agent import AgentSpec, ContextSpec, ErrorSpec, ModelRole, ProgressSpec
from messages.canon import canonical, digest
from messages.errors import DeclarationError, UsageError
from messages.parts import Limits
from runtime.loop.budget import LEAST_ROOM, room_of
from runtime.loop.strategies.loop import control_tools
from runtime.money import microusd
from runtime.refusals import positive

PROMPT_OVERHEAD_BYTES = 400
"""What a provider adds of its own to a request with tools: about 350 tokens, and a token is at
least a byte."""
TOOL_OVERHEAD_BYTES = 32
"""What a provider adds around each tool."""


@dataclass(frozen=True)
class Budget:
    """The most a run may use.

    Attributes:
        max_steps: Decisions of the model.
        max_tokens: All tokens, cached ones included.
        max_usd: Money as a decimal string, such as ``"0.50"``; None: no limit.
        max_seconds: Active seconds; waiting for a person does not count.
    """

    max_steps: int = 25
    max_tokens: int = 200_000
    max_usd: str | None = None
    max_seconds: float = 300.0

    def __post_init__(self) -> None:
        """Refuse a budget that nothing fits.

        Raises:
            DeclarationError: A limit is not a positive number, or ``max_usd`` is no amount.
        """
        positive("Budget", "max_steps", self.max_steps, int)
        positive("Budget", "max_tokens", self.max_tokens, int)
        positive("Budget", "max_seconds", self.max_seconds, float)
        self.limits()

    def limits(self) -> Limits:
        """The same as data."""
        try:
            cost = None if self.max_usd is None else microusd(self.max_usd)
        except UsageError as error:
            message = f"Budget(max_usd=): {error.message}; write max_usd='0.50'"
            raise DeclarationError(message) from error
        return Limits(
            max_steps=self.max_steps,
            max_tokens=self.max_tokens,
            max_cost_microusd=cost,
            max_seconds=float(self.max_seconds),
        )


@dataclass(frozen=True)
class Progress:
    """When a run that goes nowhere is warned and stopped, over equal (action, result) pairs.

    Attributes:
        warn_at: The equal pair that is warned about.
        stop_at: The equal pair that ends the run.
        stall_at: Steps without anything new before a warning.
        window: How many of the last actions are searched for an oscillation.
    """

    warn_at: int = 3
    stop_at: int = 4
    stall_at: int = 3
    window: int = 6

    def __post_init__(self) -> None:
        """Refuse thresholds that could never be reached in order.

        Raises:
            DeclarationError: One is no positive whole number, or ``stop_at`` is below ``warn_at``.
        """
        for name in ("warn_at", "stop_at", "stall_at", "window"):
            positive("Progress", name, getattr(self, name), int)
        if self.stop_at < self.warn_at:
            message = f"Progress(stop_at={self.stop_at}) must be at least warn_at={self.warn_at}"
            raise DeclarationError(message)

    def spec(self) -> ProgressSpec:
        """The same as data."""
        return ProgressSpec(
            warn_at=self.warn_at,
            stop_at=self.stop_at,
            stall_at=self.stall_at,
            window=self.window,
        )


class Options(TypedDict, total=False):
    """What an agent may say besides; see ``Agent``."""

    models: Mapping[ModelRole, str]
    budget: Budget
    progress: Progress
    window_tokens: int
    keep_turns: int
    on_policy_deny: Literal["end", "tell"]
    on_expired_approval: Literal["tell", "needs_input"]
    approval_ttl: timedelta
    max_wait: timedelta
    max_output_tokens: int
    escalate_to: str | None
    max_consecutive_errors: int
    max_tool_errors: int
    max_corrections: int


def limits_of(options: Options) -> Limits:
    """The most that a run may use, waiting included."""
    limits = options.get("budget", Budget()).limits()
    max_wait = options.get("max_wait")
    return replace(limits, max_wait_s=max_wait.total_seconds()) if max_wait else limits


def errors_of(options: Options) -> ErrorSpec:
    """The ceilings on errors."""
    default = ErrorSpec()
    return ErrorSpec(
        max_consecutive=options.get("max_consecutive_errors", default.max_consecutive),
        max_total=options.get("max_tool_errors", default.max_total),
        max_corrections=options.get("max_corrections", default.max_corrections),
        escalate_to=options.get("escalate_to"),
    )


def context_of(options: Options) -> ContextSpec:
    """How much the model is shown at once."""
    default = ContextSpec()
    return ContextSpec(
        window_tokens=options.get("window_tokens", default.window_tokens),
        keep_turns=options.get("keep_turns", default.keep_turns),
    )


def check_room(what: str, spec: AgentSpec) -> None:
    """Refuse a window that has no room for a run.

    Raises:
        DeclarationError: Instructions, tools and one answer leave less than ``LEAST_ROOM``.
    """
    window, room = spec.context.window_tokens, room_of(spec)
    if room < LEAST_ROOM:
        message = (
            f"{what}: window_tokens={window} is too small:"
            f" instructions and tools take up to {spec.prompt_bytes}, an answer"
            f" {spec.max_output_tokens}; it must be at least {window + LEAST_ROOM - room}"
        )
        raise DeclarationError(message)


def code_hash(spec: AgentSpec, hooks: Iterable[Callable[..., Any] | None]) -> str:
    """SHA-256 of what the user declared: the data of the agent and the source of its hooks."""
    bare = replace(spec, code="", prompt_bytes=0)
    return digest({"spec": bare, "hooks": [source_of(hook) for hook in hooks]})


def source_of(hook: Callable[..., Any] | None) -> str:
    """The source of a function, or of its byte code where there is no file."""
    if hook is None:
        return ""
    try:
        return inspect.getsource(hook)
    except (OSError, TypeError):
        code = inspect.unwrap(hook).__code__
        return f"{code.co_code.hex()} {code.co_names} {code.co_consts!r}"


def prompt_size(spec: AgentSpec) -> int:
    """Upper bound, in bytes and so in tokens, of what every request of an agent starts with."""
    tools = [
        {"name": each.name, "description": each.description, "input_schema": each.parameters}
        for each in spec.tools
    ]
    tools.extend(control_tools(spec.output_schema))
    return (
        len(canonical(spec.instructions))
        + len(canonical(tools))
        + TOOL_OVERHEAD_BYTES * len(tools)
        + PROMPT_OVERHEAD_BYTES
    )
