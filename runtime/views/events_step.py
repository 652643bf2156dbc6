"""What the lines of a step's model calls say: what was reserved, answered, lost and charged."""

from typing import assert_never

from messages.events import Consulted, Decided, ProposalRejected, StepLost, StepReserved
from runtime.views.values import View, seconds, short_problem, usd


def of_step(event: StepReserved | StepLost | Decided | Consulted | ProposalRejected) -> View:
    """Fields of one of these events, beside the common ones."""
    match event:
        case StepReserved(reservation=held):
            cost = usd(held.most.cost_microusd)
            return {"tokens": held.most.tokens, "usd": cost, "is_final": held.is_final}
        case StepLost():
            charged = event.charged
            return {
                "why": event.why,
                "tokens": charged.tokens,
                "usd": usd(charged.cost_microusd),
                "attempts": len(event.attempts),
            }
        case Decided():
            return _decided(event)
        case Consulted():
            return {
                "purpose": event.purpose,
                "model": event.model,
                "tokens": event.usage.tokens,
                "usd": usd(event.charged.cost_microusd),
                "seconds": seconds(event.duration_s),
                **_over(event),
            }
        case ProposalRejected():
            return {"ordinal": event.ordinal, **short_problem(event.problem)}
        case _:
            assert_never(event)


def _decided(event: Decided) -> View:
    tools = [block.get("name") for block in event.content if block.get("type") == "tool_use"]
    return {
        "model": event.model,
        "stop_reason": event.stop_reason,
        "tools": tools,
        "tokens": event.usage.tokens,
        "usd": usd(event.charged.cost_microusd),
        "seconds": seconds(event.duration_s),
        "attempts": len(event.attempts),
        **_over(event),
    }


def _over(event: Decided | Consulted) -> View:
    return {"over_reservation": True} if event.is_over_reservation else {}
