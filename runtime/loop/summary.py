"""Projections of a folded run: the ledger's row, and what was done in one sentence."""

from messages.ledger import Summary
from messages.state import LoopState


def summarise(state: LoopState, stretch_s: float = 0.0) -> Summary:
    """The row the ledger keeps beside the journal.

    Args:
        state: folded, the events of the entry included.
        stretch_s: active seconds that this entry adds.
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
        active_s=state.active_s + stretch_s,
    )


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
