"""What the validator and the monitor are asked and answer."""

from typing import Literal

from messages.agent import ProgressSpec
from messages.base import Message, Part, Request
from messages.events import AnyEvent
from messages.events.step import FlagKind
from messages.ledger import Entry
from messages.parts import Action, Call, JsonValue, Problem


# ------------------------------------------------------------------ validator
class Rejection(Part, kw_only=True):
    """One call that is not well-formed."""

    ordinal: int
    problem: Problem


class Validated(Message, kw_only=True, tag="validated/1"):
    """Per call: the canonical action, or why not."""

    actions: tuple[Action, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    output: JsonValue = None
    """Of a finish proposal: decoded by the agent's output type and encoded again."""
    output_problem: Problem | None = None


class Validate(Request[Validated], kw_only=True, tag="validate/1"):
    """Is the proposal well-formed: tool, arguments, key?"""

    role = "validator"
    verb = "validate"

    tenant: str
    run_id: str
    agent: str
    origin: str
    """Run of origin, for ``each_call`` keys."""
    step: int
    calls: tuple[Call, ...] = ()
    is_finish: bool = False
    output: JsonValue = None


# ------------------------------------------------------------------ monitor
class Sighting(Part, kw_only=True):
    """One observation as the progress monitor sees it."""

    ordinal: int
    tool: str
    action: str
    """Fingerprint of tool and canonical arguments."""
    times: int
    """How often this (action, result) pair has been seen, this one included."""
    alike: int = 0
    """The same for actions that differ in the form of their arguments only, equal ones included."""


class Flag(Part, kw_only=True):
    """A pattern without progress."""

    kind: FlagKind
    level: Literal["warn", "stop"]
    ordinal: int | None = None
    message: str


class Assessment(Message, kw_only=True, tag="assessment/1"):
    """What the monitor thinks of the step; empty: progress."""

    flags: tuple[Flag, ...] = ()


class Assess(Request[Assessment], kw_only=True, tag="assess/1"):
    """Is the run getting anywhere?"""

    role = "monitor"
    verb = "assess"

    tenant: str
    run_id: str
    step: int
    spec: ProgressSpec
    sightings: tuple[Sighting, ...]
    recent: tuple[str, ...] = ()
    """Fingerprints of the last actions, oldest first, at most ``spec.window``."""
    stalled: int = 0
    """Consecutive steps whose state fingerprint did not change."""
    is_idle: bool = False
    """The step called no tool at all, or only to keep notes."""
    flagged: tuple[FlagKind, ...] = ()
    """Kinds the model has been warned about already."""


class JudgeVerdict(Message, kw_only=True, tag="judge-verdict/1"):
    """``unmet`` None: the predicate holds. ``problem``: the predicate itself failed."""

    unmet: str | None = None
    problem: Problem | None = None


class Judge(Request[JudgeVerdict], kw_only=True, tag="judge/1"):
    """Does the agent's ``done`` hold over recorded evidence?"""

    role = "monitor"
    verb = "judge"

    tenant: str
    run_id: str
    agent: str
    version: int
    tail: tuple[Entry, ...] = ()
    pending: tuple[AnyEvent, ...] = ()
    """What the step produced so far and is not in the journal yet."""
    has_output: bool = False
    output: JsonValue = None
