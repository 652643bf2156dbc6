"""Projections of a folded run: the ledger's row, and what was done in one sentence."""

from messages.base import Timestamp
from messages.ledger import Summary
from messages.state import LoopState


def summarise(state: LoopState, stretch_s: float = 0.0, now: Timestamp | None = None) -> Summary:
    """The row the ledger keeps beside the journal.

    Args:
        state: folded, the events of the entry included.
        stretch_s: active seconds that this entry adds.
        now: the ledger's clock, where known: it ends the wait that this entry ends.
    """
    return Summary(
        agent=state.agent,
        agent_code=state.agent_code,
        principal=state.identity.principal,
        goal=state.goal[:200],
        labels=state.labels,
        status=state.status,
        reason=state.reason,
        until=state.until,
        step_count=state.step_count,
        limits=state.limits,
        usage=state.usage,
        cost_microusd=state.spent.cost_microusd,
        children_microusd=state.children_microusd,
        active_s=state.active_s + stretch_s,
        suspended_s=_suspended_s(state, now),
        model_s=state.model_s,
        tool_s=state.tool_s,
        models=state.models,
        model_calls=state.model_calls,
        tool_calls=state.tool_calls,
        tool_errors=state.tool_errors,
        flags=state.flags,
    )


def _suspended_s(state: LoopState, now: Timestamp | None) -> float:
    """Seconds in waits that are over; the entry that ends one has not sealed the state yet."""
    if state.suspended_at is None or state.status.is_suspended or now is None:
        return state.suspended_s
    return state.suspended_s + max(0.0, now - state.suspended_at)


def what_was_done(state: LoopState) -> str:
    """One sentence from recorded facts: reads, executed writes with their keys, what is open."""
    done = [o for o in state.outstanding if o.status in {"executed", "verified"}]
    open_ = [o for o in state.outstanding if o.status in {"intended", "unknown"}]
    writes = {(o.step, o.ordinal) for o in state.outstanding}
    reads = sum(1 for line in state.tool_history if line.outcome == "ok") - len(done)
    parts = [f"{state.step_count} steps", f"{max(reads, 0)} reads"]
    if done:
        parts.append("done: " + ", ".join(f"{o.kind} ({o.key})" for o in done))
    for word, verification in (("not found", "absent"), ("not verified", "undecidable")):
        if doubted := [o for o in done if o.verification == verification]:
            parts.append(f"{word}: " + ", ".join(f"{o.kind} ({o.key})" for o in doubted))
    if open_:
        parts.append("outcome unknown: " + ", ".join(f"{o.kind} ({o.key})" for o in open_))
    if not writes:
        parts.append("no side effects")
    return "; ".join(parts)
