"""Operations by which people and other runs reach a run: signals, decisions, holds."""

from typing import Literal

from messages.base import Message
from messages.ledger.common import Done, LedgerRequest, Missing, Refused, RunEnded
from messages.ledger.rows import ApprovalRow, HoldRow, Signal
from messages.parts import JsonValue


class SignalStored(Message, kw_only=True, tag="signal-stored/1"):
    """The signal waits for the run's owner."""

    run_id: str
    id: int
    also: tuple[str, ...] = ()
    """Open descendants that were told with it; worth a wake each."""


class SendSignal(
    LedgerRequest[SignalStored | RunEnded | Refused | Missing],
    kw_only=True,
    tag="send-signal/1",
):
    """Store a cancel, pause or resume; a cancel is stored for all open descendants too.

    The other kinds are written by the operation they belong to (DecideApproval, AnswerQuestion,
    the Append that ends a child). A control that is pending already is not stored again.
    """

    verb = "signal"

    tenant: str
    run_id: str
    signal: Signal


class ApprovalDecided(Message, kw_only=True, tag="approval-decided/1"):
    """The decision stands and its run has been told."""

    approval: ApprovalRow


class DecideApproval(
    LedgerRequest[ApprovalDecided | Refused | Missing], kw_only=True, tag="decide-approval/1"
):
    """Approve or deny, compare-and-set on one row; the first decision wins."""

    verb = "decide-approval"

    tenant: str
    approval_id: str
    decision: Literal["approved", "denied"]
    person: str
    credential: str = ""
    channel: str = ""
    confirmed_hash: str = ""
    """What the person saw, 12 hex digits or more; empty: not given."""
    reason: str = ""


class AnswerQuestion(
    LedgerRequest[SignalStored | Refused | Missing], kw_only=True, tag="answer-question/1"
):
    """Answer the named question, compare-and-set on one row."""

    verb = "answer-question"

    tenant: str
    run_id: str
    question_id: str
    answer: JsonValue
    person: str


class Hold(LedgerRequest[Done], kw_only=True, tag="hold/1"):
    """Take and Due pass over what the hold names, until it is lifted."""

    verb = "hold"

    hold: HoldRow


class Lift(LedgerRequest[Done], kw_only=True, tag="lift/1"):
    """End a hold."""

    verb = "lift"

    tenant: str = "*"
    agent: str = "*"
