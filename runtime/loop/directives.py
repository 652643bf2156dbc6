"""What the loop can ask for next: data only, so that ``next`` and the strategies share it."""

from messages.base import Part, Timestamp
from messages.events import AnyEvent
from messages.ledger import Signal
from messages.parts import JsonValue, Reservation
from messages.status import Reason, Status


class Moment(Part, kw_only=True):
    """What a decision may know besides state and agent."""

    at: Timestamp
    """The ledger's clock."""
    stretch_s: float = 0.0
    """Active seconds since the last entry."""
    cancel: Signal | None = None
    pause: Signal | None = None
    is_resumed: bool = False
    """A resume came after the last pause."""
    is_held: bool = False
    """A hold is on the agent, the tenant or everything."""
    is_signalled: bool = False
    """Signals wait for an entry that names them."""
    grant_margin_s: float = 0.0
    """A grant is accepted until so long before it expires: clocks differ."""
    take_id: str = ""


class Nothing(Part, kw_only=True):
    """The run has ended."""


class LetGo(Part, kw_only=True):
    """Nothing to do until something happens outside: store what is known, release the run."""


class Record(Part, kw_only=True):
    """These events follow from the state alone."""

    events: tuple[AnyEvent, ...]


class Decide(Part, kw_only=True):
    """Ask the model, under the open reservation or, where given, under this new one."""

    reserve: Reservation | None = None


class Validate(Part, kw_only=True):
    """Have the validator look at these calls, or at the finish proposal (no ordinals)."""

    ordinals: tuple[int, ...] = ()


class Authorise(Part, kw_only=True):
    """Have the authoriser decide these actions."""

    ordinals: tuple[int, ...]


class Recheck(Part, kw_only=True):
    """Ask the preconditions of these actions."""

    ordinals: tuple[int, ...]


class RequestApproval(Part, kw_only=True):
    """Ask people about these actions."""

    ordinals: tuple[int, ...]


class Execute(Part, kw_only=True):
    """Run these actions; the writes among them are intended first."""

    ordinals: tuple[int, ...]


class Reconcile(Part, kw_only=True):
    """Find out what became of this intended write."""

    ordinal: int
    is_cancelling: bool = False


class Assess(Part, kw_only=True):
    """Have the monitor look at the step for progress."""


class Judge(Part, kw_only=True):
    """Have the agent's predicate judge the evidence, and the output where one is proposed."""

    has_output: bool


class Verify(Part, kw_only=True):
    """Before success, look these executed writes up: is what the journal calls done there?"""

    keys: tuple[str, ...]


class AskPerson(Part, kw_only=True):
    """Escalate to a group of people and wait for their answer."""

    group: str
    text: str


class Suspend(Part, kw_only=True):
    """Wait without a worker."""

    status: Status
    reason: str
    until: Timestamp | None = None


class Finish(Part, kw_only=True):
    """End the run."""

    status: Status
    reason: Reason
    why: str = ""
    output: JsonValue = None
    signal: Signal | None = None


Directive = (
    Nothing
    | LetGo
    | Record
    | Decide
    | Validate
    | Authorise
    | Recheck
    | RequestApproval
    | Execute
    | Reconcile
    | Assess
    | Judge
    | Verify
    | AskPerson
    | Suspend
    | Finish
)
