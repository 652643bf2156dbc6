"""Statuses, legal changes, reasons, and the states of the source documents."""

from typing import Final

from docs.generate.markdown import BY_HAND, codes, yes
from messages.status import SUSPENDED, TERMINAL, Reason, Status
from runtime.loop.transitions import DOCUMENT_STATES, LEGAL, REASONS

_EXIT: Final[dict[Status, str]] = {
    Status.SUCCEEDED: "0",
    Status.NEEDS_INPUT: "6",
    Status.AWAITING_APPROVAL: "6",
    Status.AWAITING_HUMAN: "6",
}
_SUSPENDED_REASONS: Final[dict[Status, str]] = {
    Status.AWAITING_APPROVAL: "the rule that asks",
    Status.AWAITING_HUMAN: "what is asked",
    Status.AWAITING_CHILDREN: "`children`",
    Status.WAITING: "`timer`, `retry_after`",
    Status.PAUSED: "`by_person`, `agent_changed`",
}


def statuses_page() -> str:
    """Statuses, legal changes, reasons, and the states of the source documents."""
    lines = [
        "# Statuses and reasons",
        "",
        BY_HAND,
        "",
        (
            "A run has one status. A change that is not in this table is refused wherever it"
            " comes from (`ILLEGAL_TRANSITION`). `QUEUED` is shown while nobody has taken a new"
            " run; folded from its journal such a run is `RUNNING`."
        ),
        "",
        "| status | kind | may become | reasons | exit code of `submit --wait` |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [_status_row(status) for status in Status]
    lines += [
        "",
        "## Reasons",
        "",
        "| reason | belongs to | is_budget | is_success |",
        "| --- | --- | --- | --- |",
    ]
    lines += [_reason_row(reason) for reason in Reason]
    lines += [
        "",
        "## States of the source documents",
        "",
        (
            "The design documents behind Treadle name eight states. Each is one or more"
            " statuses here; what a running iteration is doing is read from its journal, not"
            " from a status."
        ),
        "",
        "| state there | status here |",
        "| --- | --- |",
    ]
    lines += [f"| {name} | {codes(statuses)} |" for name, statuses in DOCUMENT_STATES.items()]
    return "\n".join([*lines, ""])


def _status_row(status: Status) -> str:
    following = codes(s for s in Status if s in LEGAL[status]) or "nothing: it is final"
    reasons = codes(r for r in Reason if r in REASONS.get(status, frozenset()))
    exit_code = _EXIT.get(status, "5" if status in TERMINAL else "it goes on waiting")
    cells = (f"`{status}`", _kind(status), following, reasons or _SUSPENDED_REASONS.get(status, ""))
    return f"| {' | '.join(cells)} | {exit_code} |"


def _kind(status: Status) -> str:
    if status in TERMINAL:
        return "terminal"
    return "suspended" if status in SUSPENDED else "open"


def _reason_row(reason: Reason) -> str:
    owners = [s for s in Status if reason in REASONS.get(s, frozenset())]
    owners += [s for s, text in _SUSPENDED_REASONS.items() if f"`{reason}`" in text]
    return f"| `{reason}` | {codes(owners)} | {yes(reason.is_budget)} | {yes(reason.is_success)} |"
