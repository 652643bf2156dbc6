"""Four budgets: what is left, what the next step may cost at most, what is kept back.

A reservation is an upper bound from bytes, not a guess: no tokeniser makes more tokens than its
input has bytes, so prompt bytes plus conversation bytes bound the input. It is written with the
entry that closes the step before, so steps and spend are durable before the model is asked.
"""

from msgspec.structs import replace

from messages.agent import AgentSpec, ModelUse
from messages.base import Part
from messages.canon import canonical
from messages.parts import Amount, Block, Limits, Reservation
from messages.state import LoopState
from messages.status import Reason

MIN_OUTPUT_TOKENS = 256
"""A step that could answer less than this is not worth its input."""
MOST_DOUBLINGS = 2
WIDEST_OUTPUT_TOKENS = 64_000
"""No model of the price list takes less; an agent that wants more says so itself."""
STEP_OVERHEAD_BYTES = 128
"""Roles, separators and notes that the provider's rendering adds per request."""
LEFT_BYTES = 128
"""What is said at the end of a turn of the budget that is left."""
FRAME_BYTES = 64
ENVELOPE_BYTES = 320
"""Provenance, marks and framing around a result; what is longer widens the reservation."""
KEPT_SHARE = 10
"""One part in ten of tokens, money and seconds is kept back for the final turn."""
KEPT_MIN_TOKENS = 1_000
KEPT_MIN_S = 10.0


LEAST_ROOM = 4_000
"""Bytes of conversation with which a run can do anything at all."""


class Exhausted(Part, kw_only=True):
    """The next step does not fit; ``reason`` is the budget that is in the way."""

    reason: Reason


class Kept(Part, kw_only=True):
    """What no step may touch, so that the final turn can still be paid."""

    most: Amount = Amount()
    seconds: float = 0.0
    is_possible: bool = False
    """False: the budget is too small for a final turn and nothing is kept."""


def kept_back(limits: Limits) -> Kept:
    """The share of each budget that belongs to the final turn (DESIGN.md section 4)."""
    tokens = max(limits.max_tokens // KEPT_SHARE, KEPT_MIN_TOKENS)
    seconds = max(limits.max_seconds / KEPT_SHARE, KEPT_MIN_S)
    if 2 * tokens > limits.max_tokens or 2 * seconds > limits.max_seconds:
        return Kept()
    cost = (limits.max_cost_microusd or 0) // KEPT_SHARE
    return Kept(most=Amount(tokens=tokens, cost_microusd=cost), seconds=seconds, is_possible=True)


def talk_bytes(content: tuple[Block, ...]) -> int:
    """The most an assistant turn adds to later requests, its framing included."""
    return len(canonical(content)) + (len(content) + 1) * FRAME_BYTES


def result_bytes(shown: object) -> int:
    """The most a tool's result or a correction adds, with provenance and framing."""
    return len(canonical(shown)) + ENVELOPE_BYTES


def room_of(agent: AgentSpec) -> int:
    """Bytes that the conversation of a run may have, beside its prompt and one answer."""
    beside = agent.prompt_bytes + STEP_OVERHEAD_BYTES + agent.max_output_tokens
    return agent.context.window_tokens - beside


def input_bound(state: LoopState, agent: AgentSpec) -> int:
    """The most tokens the next request can have as input; what does not fit is shortened."""
    whole = agent.prompt_bytes + state.context_bytes + STEP_OVERHEAD_BYTES
    return min(whole, agent.context.window_tokens)


def cost_bound(use: ModelUse, input_tokens: int, output_tokens: int) -> int:
    """The most that many tokens can cost, in micro-USD; a cache write costs more than an input."""
    return 0 if use.price is None else use.price.cost_bound(input_tokens, output_tokens)


def _is_unpriced(limits: Limits, agent: AgentSpec) -> bool:
    """Under a limit of money every model that may be asked has a known price."""
    is_limited = limits.max_cost_microusd is not None
    return is_limited and any(use.price is None for use in agent.uses)


def left(state: LoopState) -> Amount:
    """Tokens and money that are neither spent nor reserved nor promised to children."""
    open_ = state.reservation.most if state.reservation else Amount()
    tokens = state.limits.max_tokens - state.spent.tokens - open_.tokens
    cost = (state.limits.max_cost_microusd or 0) - state.spent.cost_microusd - open_.cost_microusd
    for child in state.children:
        tokens -= child.carve.max_tokens
        cost -= child.carve.max_cost_microusd or 0
    return Amount(tokens=tokens, cost_microusd=cost)


def next_reservation(
    state: LoopState, agent: AgentSpec, *, stretch_s: float = 0.0, take_id: str = ""
) -> Reservation | Exhausted:
    """The reservation of the next step, or why there can be none.

    Args:
        state: folded; without an open reservation.
        agent: its data.
        stretch_s: active seconds since the last entry.
        take_id: the take that may use it; empty at creation.
    """
    limits = state.limits
    if _is_unpriced(limits, agent):
        return Exhausted(reason=Reason.UNPRICED_MODEL)
    if state.step_count >= limits.max_steps:
        return Exhausted(reason=Reason.MAX_STEPS)
    kept = kept_back(limits)
    if state.active_s + stretch_s >= limits.max_seconds - kept.seconds:
        return Exhausted(reason=Reason.MAX_SECONDS)
    fit = _fit(state, agent, kept.most, _room(state, agent))
    if isinstance(fit, Exhausted):  # the wider answer is a wish
        fit = _fit(state, agent, kept.most, agent.max_output_tokens)
    if isinstance(fit, Exhausted):
        return fit
    most, output = fit
    return Reservation(step=state.step_count + 1, most=most, output_tokens=output, take_id=take_id)


def _room(state: LoopState, agent: AgentSpec) -> int:
    """How long the next answer may be; after one that was cut off twice as long, then four times.

    It is what case B28 calls a recovery.
    """
    if state.turn is None or state.turn.proposal.kind != "cut":
        return agent.max_output_tokens
    wider = agent.max_output_tokens << min(state.corrections, MOST_DOUBLINGS)
    window = agent.context.window_tokens - input_bound(state, agent)
    return max(agent.max_output_tokens, min(wider, WIDEST_OUTPUT_TOKENS, window))


def _fit(
    state: LoopState, agent: AgentSpec, kept: Amount, room: int
) -> tuple[Amount, int] | Exhausted:
    input_tokens = input_bound(state, agent)
    rest = left(state)
    output = min(room, rest.tokens - kept.tokens - input_tokens)
    if output < MIN_OUTPUT_TOKENS:
        return Exhausted(reason=Reason.MAX_TOKENS)
    cost = cost_bound(agent.use(), input_tokens, output)
    if (
        state.limits.max_cost_microusd is not None
        and cost > rest.cost_microusd - kept.cost_microusd
    ):
        return Exhausted(reason=Reason.MAX_USD)
    return Amount(tokens=input_tokens + output, cost_microusd=cost), output


def final_reservation(state: LoopState, agent: AgentSpec, take_id: str) -> Reservation | None:
    """The reservation of the one tool-free final turn, or None where it cannot be had."""
    kept = kept_back(state.limits)
    if state.has_had_final_turn or not kept.is_possible or _is_unpriced(state.limits, agent):
        return None
    rest = left(state)
    tokens = min(kept.most.tokens, rest.tokens)
    output, cost = _final_size(agent, tokens)
    while state.limits.max_cost_microusd is not None and cost > rest.cost_microusd and output > 0:
        tokens //= 2  # as much as the money that is left buys
        output, cost = _final_size(agent, tokens)
    if output < MIN_OUTPUT_TOKENS:
        return None
    return Reservation(
        step=state.step_count,
        most=Amount(tokens=tokens, cost_microusd=cost),
        output_tokens=output,
        take_id=take_id,
        is_final=True,
    )


def _final_size(agent: AgentSpec, tokens: int) -> tuple[int, int]:
    """Output and cost of a final turn of so many tokens in all."""
    output = min(agent.max_output_tokens, tokens // 2)
    return output, cost_bound(agent.use("final"), tokens - output, output)


def widened(
    state: LoopState,
    reservation: Reservation,
    most: Amount,
    output_tokens: int,
    *,
    is_summary: bool = False,
) -> Reservation | Exhausted:
    """``reservation`` grown to ``most`` in all, if that still fits beside the final turn."""
    rest = left(state)
    kept = Amount() if reservation.is_final else kept_back(state.limits).most
    extra_tokens = most.tokens - reservation.most.tokens
    extra_cost = most.cost_microusd - reservation.most.cost_microusd
    if extra_tokens > rest.tokens - kept.tokens:
        return Exhausted(reason=Reason.MAX_TOKENS)
    if (
        state.limits.max_cost_microusd is not None
        and extra_cost > rest.cost_microusd - kept.cost_microusd
    ):
        return Exhausted(reason=Reason.MAX_USD)
    return replace(reservation, most=most, output_tokens=output_tokens, is_summary=is_summary)
