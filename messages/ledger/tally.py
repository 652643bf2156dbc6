"""Runs counted together, for metrics: sums and two small distributions, never the runs themselves.

The ledger counts a page of rows at a time, so that no question about all runs keeps its one writer
busy for long, and what travels stays small however many runs there are.
"""

from typing import Literal

from messages.base import Message, Part, Timestamp
from messages.ledger.common import LedgerRequest
from messages.parts import Usage
from messages.status import Status

GroupBy = Literal["tenant", "agent", "model"]
"""What runs can be told apart by; ``model``: all that answered in a run, joined by `` + ``."""


class RunsOfSteps(Part, kw_only=True):
    """How many ended runs took so many steps."""

    steps: int
    runs: int


class RunsOfEnding(Part, kw_only=True):
    """How many runs ended like this."""

    status: Status
    reason: str
    runs: int


class Tally(Part, kw_only=True):
    """Some runs, counted. Everything but ``open_…`` is of ended runs alone."""

    group: dict[str, str] = {}
    """What these runs have in common."""
    endings: tuple[RunsOfEnding, ...] = ()
    """By status and reason, sorted."""
    steps: tuple[RunsOfSteps, ...] = ()
    """By number of steps, sorted."""
    troubled: int = 0
    """Runs with a tool error."""
    recovered: int = 0
    """Those of them that succeeded."""
    flagged: int = 0
    """Runs that the progress monitor warned or stopped."""
    model_calls: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    model_s: float = 0.0
    tool_s: float = 0.0
    active_s: float = 0.0
    suspended_s: float = 0.0
    usage: Usage = Usage()
    cost_microusd: int = 0
    """The runs' own: what a child used is counted with the child."""
    open_runs: int = 0
    open_microusd: int = 0

    @property
    def runs(self) -> int:
        """Ended ones."""
        return sum(ending.runs for ending in self.endings)

    def ended(self, status: Status) -> int:
        """Runs that ended in this status."""
        return sum(ending.runs for ending in self.endings if ending.status is status)


class RunCursor(Part, kw_only=True):
    """Where in the list of runs, newest first, a page ended."""

    created_at: Timestamp
    run_id: str


class Tallies(Message, kw_only=True, tag="tallies/1"):
    """One page counted: a tally for each group in it, and where the next page begins."""

    tallies: tuple[Tally, ...]
    next: RunCursor | None = None
    """None: that was the last page."""


class TallyRuns(LedgerRequest[Tallies], kw_only=True, tag="tally-runs/1"):
    """Count runs that match all that is given, among the next ``limit`` of a tenant."""

    verb = "tally-runs"

    tenant: str
    by: tuple[GroupBy, ...] = ()
    labels: dict[str, str] = {}
    since: Timestamp | None = None
    """Created then or later."""
    until: Timestamp | None = None
    """Created before then."""
    after: RunCursor | None = None
    limit: int = 500
    """Rows that are looked at, whether or not they match."""
