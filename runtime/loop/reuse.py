"""Whether a read need not be made: its answer stands in the run's own record and is young enough.

Read off the journal, so it holds over restarts and there is nothing to keep or to clear. Only a
read that declares ``cache_s`` is looked for. A write of the run makes everything before it stale,
whatever it wrote to, and also what was read beside it: nobody knows which of the two came first.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from messages.agent import ToolSpec
from messages.base import Timestamp
from messages.canon import arguments_hash
from messages.parts import Evidence
from messages.state import CallState, LoopState, ToolRecord
from runtime.loop.calls import OPEN_PHASES

_NOT_STARTED = frozenset({"rejected", "refused", "denied", "expired", "unmet", "not_started"})
"""Ends of a write that cannot have changed anything."""


def answered_before(
    state: LoopState, spec: ToolSpec, call: CallState, now: Timestamp
) -> Evidence | None:
    """The recorded answer to this call as a new observation, or None where it must be made.

    Args:
        state: the run, folded.
        spec: what the agent says of the tool.
        call: an allowed one.
        now: the ledger's clock.
    """
    if spec.cache_s <= 0 or call.action is None or call.action.key is not None or _writes(state):
        return None
    wanted = (call.tool, arguments_hash(call.action.arguments))
    found = _newest(state, wanted, now, spec.cache_s)
    if found is None:
        return None
    note = f"from {found.id}, fetched {now - found.fetched_at:.0f} s ago; not read again"
    return replace(
        found,
        id=state.next_evidence_id,
        duration_s=0.0,
        notes=(*found.notes, note),
        reused=found.id,
    )


def _writes(state: LoopState) -> bool:
    """A write of the open turn may be under way."""
    calls = state.turn.calls if state.turn else ()
    return any(call.phase in OPEN_PHASES for call in calls)


def _newest(
    state: LoopState, wanted: tuple[str, str], now: Timestamp, cache_s: float
) -> Evidence | None:
    """The newest answer to that call which is still good, searched no further than need be."""
    found: tuple[int, Evidence] | None = None
    for record, evidence in _backwards(state):
        if found is not None and record.step != found[0]:
            break
        if _is_started_write(record):
            return None
        if found is not None or evidence is None or evidence.reused:
            continue  # what was itself not read again is as old as what it repeats
        if now - evidence.fetched_at >= cache_s:
            return None
        if _is_answer(record, wanted) and evidence.fetched_at <= now:
            found = record.step, evidence
    return found[1] if found is not None else None


def _backwards(state: LoopState) -> Iterator[tuple[ToolRecord, Evidence | None]]:
    """Tool history from its end, each line with the evidence it brought."""
    evidence = reversed(state.evidence)
    for record in reversed(state.tool_history):
        yield record, next(evidence) if record.evidence_id is not None else None


def _is_started_write(record: ToolRecord) -> bool:
    return record.idempotency_key is not None and record.outcome not in _NOT_STARTED


def _is_answer(record: ToolRecord, wanted: tuple[str, str]) -> bool:
    return record.outcome == "ok" and (record.tool, record.args_hash) == wanted
