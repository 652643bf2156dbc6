"""Turns of which nothing can be done: what the model is told, or how the run ends."""

from messages import events as e
from messages.parts import Problem
from messages.state import LoopState, Turn
from messages.status import Reason, Status
from runtime.loop.directives import Finish, Record
from runtime.loop.strategies.loop import unreadable

BROKEN = frozenset({"cut", "refused", "unknown", "unreadable", "empty"})
"""Kinds of turns of which nothing can be done."""


def broken(state: LoopState, turn: Turn) -> Record | Finish:
    """A turn that proposes nothing that could be done."""
    match turn.proposal.kind:
        case "refused":
            return Finish(status=Status.FAILED, reason=Reason.REFUSED, why=turn.proposal.text)
        case "empty":
            if state.nudges > 1:
                return Finish(status=Status.FAILED, reason=Reason.NO_ACTION)
            problem = Problem(
                code="EMPTY_TURN", message="You said nothing. Call a tool, or finish, or give up."
            )
        case "unreadable":
            problem = unreadable(turn.calls[0].tool, turn.proposal.text)
        case "unknown":
            problem = Problem(
                code="UNKNOWN_STOP",
                message=f"Your turn ended with {turn.proposal.text[:80]!r}, which is not known"
                " here; nothing of it was done.",
            )
        case _:
            problem = Problem(
                code="OUTPUT_LIMIT",
                message="Your answer was cut off at the output limit; nothing of it was done.",
                hint="Say less, or split the call.",
            )
    return Record(events=(e.ProposalRejected(step=turn.step, problem=problem),))
