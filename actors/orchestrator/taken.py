"""A key that somebody holds: what the call is told instead of being started.

Nobody waits for a key (DESIGN.md section 6). What is done gives its recorded result, to the same
action only; what is in flight, unknown or of another action is refused.
"""

from msgspec.structs import replace

from messages import events as e
from messages.ledger import TakenKey
from messages.parts import Evidence, Problem
from messages.state import LoopState


def told(state: LoopState, event: e.Intended, taken: TakenKey) -> e.Observed:
    """What a call is told whose key is taken."""
    if taken.state == "done":
        return recorded(state, event.step, event.ordinal, taken.evidence)
    if taken.state == "busy":
        problem = Problem(
            code="KEY_BUSY",
            message=f"The same action ({event.key}) is in flight or of unknown outcome in"
            f" run {taken.run_id}; it was not started again.",
        )
    else:
        problem = Problem(
            code="KEY_MISMATCH",
            message=f"Key {event.key} was used with other arguments by run {taken.run_id}.",
            hint="The action of that key is fixed; propose another action.",
        )
    return e.Observed(step=event.step, ordinal=event.ordinal, kind="refused", problem=problem)


def recorded(state: LoopState, step: int, ordinal: int, evidence: Evidence | None) -> e.Observed:
    """A call is given the result of what was done already, as evidence of this run."""
    if evidence is not None:
        evidence = replace(evidence, id=state.next_evidence_id)
    return e.Observed(step=step, ordinal=ordinal, kind="ok", evidence=evidence)
