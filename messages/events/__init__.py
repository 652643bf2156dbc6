"""Everything that can stand in a journal. ``AnyEvent`` is the closed union to match over."""

from collections.abc import Iterable
from functools import cache

from messages.events.effect import (
    Authorised,
    Intended,
    Observed,
    Rechecked,
    Reconciled,
    Verified,
)
from messages.events.people import (
    ApprovalExpired,
    ApprovalRequested,
    ApprovalResolved,
    HumanAnswered,
    HumanAsked,
)
from messages.events.run import (
    Child,
    ChildEnded,
    ChildStarted,
    Finished,
    HandedOver,
    Resumed,
    RunCreated,
    Suspended,
)
from messages.events.step import (
    Accepted,
    Assessed,
    AttemptFailed,
    CompletionAccepted,
    CompletionRejected,
    Consulted,
    Decided,
    Judged,
    Planned,
    ProgressFlagged,
    ProposalRejected,
    Recipe,
    StepLost,
    StepReserved,
)

AnyEvent = (
    RunCreated
    | StepReserved
    | StepLost
    | AttemptFailed
    | Decided
    | Consulted
    | ProposalRejected
    | Accepted
    | ProgressFlagged
    | Assessed
    | CompletionAccepted
    | Judged
    | CompletionRejected
    | Planned
    | Authorised
    | Rechecked
    | Intended
    | Observed
    | Reconciled
    | Verified
    | ApprovalRequested
    | ApprovalResolved
    | ApprovalExpired
    | HumanAsked
    | HumanAnswered
    | Suspended
    | Resumed
    | HandedOver
    | ChildStarted
    | ChildEnded
    | Finished
)

__all__ = [
    "Accepted",
    "AnyEvent",
    "ApprovalExpired",
    "ApprovalRequested",
    "ApprovalResolved",
    "Assessed",
    "AttemptFailed",
    "Authorised",
    "Child",
    "ChildEnded",
    "ChildStarted",
    "CompletionAccepted",
    "CompletionRejected",
    "Consulted",
    "Decided",
    "Finished",
    "HandedOver",
    "HumanAnswered",
    "HumanAsked",
    "Intended",
    "Judged",
    "Observed",
    "Planned",
    "ProgressFlagged",
    "ProposalRejected",
    "Rechecked",
    "Recipe",
    "Reconciled",
    "Resumed",
    "RunCreated",
    "StepLost",
    "StepReserved",
    "Suspended",
    "Verified",
]


def kind_of(event: AnyEvent) -> str:
    """The event's public name: its tag without the version, in snake_case."""
    return event_kind(type(event))


@cache
def event_kind(cls: type[AnyEvent]) -> str:
    """The public name of an event class."""
    tag = cls.__struct_config__.tag
    return str(tag).partition("/")[0].replace("-", "_")


def is_progress(events: Iterable[AnyEvent]) -> bool:
    """Anything but paying for another attempt: a run that only kills its owners does just that."""
    paying = StepReserved | StepLost | AttemptFailed
    return not all(isinstance(event, paying) for event in events)
