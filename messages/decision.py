"""What the planner is asked and answers."""

from typing import ClassVar

from messages.base import Message, ReplyT_co, Request
from messages.events.step import Consulted, Decided
from messages.ledger import Entry
from messages.parts import Amount, Attempt, Reservation


class Decision(Message, kw_only=True, tag="decision/1"):
    """The model answered within the reservation (or above it, which the event then says)."""

    decided: Decided


class NeedsReservation(Message, kw_only=True, tag="needs-reservation/1"):
    """The model was not asked: the input, or one more attempt, costs up to this much in all."""

    most: Amount
    output_tokens: int
    is_summary: bool = False
    """It is for a summary, which has to come first: the conversation does not fit the window."""


class ModelFailed(Message, kw_only=True, tag="model-failed/1"):
    """No decision came; what was tried is paid for. Trying again may help, or ends the run."""

    reason: str
    """A word of ``messages.status.Reason`` that says how the run ends, such as unpriced_model."""
    message: str
    charged: Amount = Amount()
    attempts: tuple[Attempt, ...] = ()
    retry_after_s: float | None = None
    """As the provider asks."""
    retry_in_s: float | None = None
    """Then the step may be tried again, once that is paid for; None: it ends the run."""


class NotAsked(Message, kw_only=True, tag="not-asked/1"):
    """The model was not asked, since it has been failing: nothing was spent."""

    retry_in_s: float
    """When to come again."""


class Consultation(Message, kw_only=True, tag="consultation/1"):
    """The model answered, outside a step."""

    consulted: Consulted


class PlannerRequest(Request[ReplyT_co], kw_only=True, tag="planner-request/1"):
    """One inference about a run, under a reservation."""

    role: ClassVar[str] = "planner"

    tenant: str
    run_id: str
    agent: str
    version: int
    """The journal is durable up to here; the planner loads what it misses."""
    tail: tuple[Entry, ...] = ()
    """The newest entries, so that a planner that served the run before need not load."""
    reservation: Reservation


class Decide(
    PlannerRequest[Decision | NeedsReservation | ModelFailed | NotAsked],
    kw_only=True,
    tag="decide/1",
):
    """Render the run's state and ask the model once."""

    verb = "decide"


class Consult(
    PlannerRequest[Consultation | NeedsReservation | ModelFailed | NotAsked],
    kw_only=True,
    tag="consult/1",
):
    """Have the model sum up what no longer fits the window."""

    verb = "consult"
