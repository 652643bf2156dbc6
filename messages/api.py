"""The public request/reply API on ``treadle.api.<tenant>.<principal>.<verb>``: plain JSON.

Every reply is an object with ``"v": 1``; a refusal is ``{"v": 1, "error": {code, message, hint,
retryable}}``. ``VERBS`` is the list; the gateway serves it, ``treadle.Client`` and the command line
speak it.
"""

from typing import Any, Literal

import msgspec

from messages.base import FrozenMeta
from messages.ledger import GroupBy
from messages.parts import JsonValue
from messages.task import TaskLimits


class _Body(
    msgspec.Struct, metaclass=FrozenMeta, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """A request body; unknown fields are refused so that a typing mistake is not silent."""


class Submit(_Body, kw_only=True):
    """verb submit -> {v, run_id, existing}, once the run is durable."""

    agent: str
    goal: str
    inputs: dict[str, JsonValue] = {}
    run_id: str | None = None
    limits: TaskLimits = TaskLimits()
    labels: dict[str, str] = {}


class Show(_Body, kw_only=True):
    """verb show -> the object of ``show RUN -o json`` (CONTRACT.md section 2)."""

    run_id: str
    at: int | None = None


class Trace(_Body, kw_only=True):
    """verb trace -> {v, run_id, …, steps: [...], waits: [...]}: what each step took and did."""

    run_id: str


class ListRuns(_Body, kw_only=True, omit_defaults=True):
    """verb list -> {v, runs: [{run_id, agent, status, reason, step_count, …}]}.

    Defaults are left out, so that a daemon from before ``ended`` takes what does not need it.
    """

    status: str | None = None
    agent: str | None = None
    labels: dict[str, str] = {}
    since: float | None = None
    """Seconds back from now."""
    limit: int = 50
    ended: bool = False
    """Without a status: ended runs too, not open ones only."""


class Metrics(_Body, kw_only=True):
    """verb metrics -> {v, runs, completion_rate, …, groups: [...]}: figures about many runs."""

    since: float | None = None
    """Seconds back from now: runs created since then."""
    month: str | None = None
    """YYYY-MM, UTC: runs created in it."""
    by: list[GroupBy] = []
    labels: dict[str, str] = {}


class Events(_Body, kw_only=True):
    """verb events -> {v, events: [{v, run_id, version, at, kind, step, …}], version, terminal}."""

    run_id: str
    after: int = -1
    """Entries with a higher version than this."""


class Approvals(_Body, kw_only=True):
    """verb approvals -> {v, approvals: [...]}; with ids: those, with the package shown."""

    ids: list[str] = []


class Decide(_Body, kw_only=True):
    """verbs approve and deny -> {v, approval}."""

    approval_id: str
    action: str = ""
    """Hash the person saw, 12 hex digits or more."""
    reason: str = ""


class Cancel(_Body, kw_only=True):
    """verb cancel -> {v, run_id}."""

    run_id: str
    reason: str = ""


class Control(_Body, kw_only=True):
    """verbs pause and resume -> {v}; a run, or an agent, or everything."""

    run_id: str | None = None
    agent: str | None = None
    is_all: bool = False
    reason: str = ""


class Effects(_Body, kw_only=True):
    """verb effects -> {v, effects: [...]}; with a key: that one, with its whole chain."""

    key: str | None = None
    run_id: str | None = None
    unresolved: bool = False
    limit: int = 100


class ResolveEffect(_Body, kw_only=True):
    """verb effect_resolve -> {v, effect, run_id, problem}: what a person found out became of it.

    ``run_id`` in the reply is the run in which the work goes on, null where nothing does;
    ``problem`` says why not, where it should have.
    """

    key: str
    run_id: str | None = None
    """Whose attempt was looked at: refused if another run has made one since."""
    finding: Literal["happened", "absent"]
    result: JsonValue = None
    """What the tool would have returned, if it happened."""
    reason: str = ""


class Answer(_Body, kw_only=True):
    """verb answer -> {v, run_id, question_id}."""

    run_id: str
    question_id: str | None = None
    answer: JsonValue


class CallTool(_Body, kw_only=True):
    """verb call -> {v, run_id, existing}: one read as a run of its own, decided by a person."""

    tool: str
    arguments: dict[str, JsonValue] = {}
    run_id: str | None = None
    """The same id again is the same run."""


class Letters(_Body, kw_only=True):
    """verb letters -> {v, letters: [...]}: dead letters, oldest first; with an id: that one."""

    id: int | None = None
    limit: int = 100


class RetryLetter(_Body, kw_only=True):
    """verb letter_retry -> {v, letter}: its task is published again, then the letter is gone."""

    id: int


class DropLetter(_Body, kw_only=True):
    """verb letter_drop -> {v, letter}: the letter is gone; who dropped it and why is logged."""

    id: int
    reason: str


class Empty(_Body, kw_only=True):
    """verbs agents, tools, ping, checkup -> {v, …}."""


VERBS: dict[str, type[_Body]] = {
    "submit": Submit,
    "show": Show,
    "trace": Trace,
    "list": ListRuns,
    "metrics": Metrics,
    "events": Events,
    "approvals": Approvals,
    "approve": Decide,
    "deny": Decide,
    "answer": Answer,
    "cancel": Cancel,
    "pause": Control,
    "resume": Control,
    "effects": Effects,
    "effect_resolve": ResolveEffect,
    "agents": Empty,
    "tools": Empty,
    "call": CallTool,
    "letters": Letters,
    "letter_retry": RetryLetter,
    "letter_drop": DropLetter,
    "checkup": Empty,
    "ping": Empty,
}

PERSONAL: frozenset[str] = frozenset({"approve", "deny", "answer"})
"""Verbs that need the person's own credential."""

Reply = dict[str, Any]


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """What a refusal says."""

    code: str
    message: str
    hint: str = ""
    retryable: bool = False


class ErrorReply(msgspec.Struct, frozen=True, kw_only=True):
    """A refusal."""

    v: Literal[1] = 1
    error: ErrorBody
