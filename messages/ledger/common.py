"""What several operations answer."""

from typing import ClassVar

from messages.base import Message, ReplyT_co, Request, Timestamp
from messages.status import Status


class LedgerRequest(Request[ReplyT_co], kw_only=True, tag="ledger-request/1"):
    """An operation of the ledger."""

    role: ClassVar[str] = "checkpointer"


class Done(Message, kw_only=True, tag="done/1"):
    """It is so, whether or not this request made it so."""

    now: Timestamp


class Missing(Message, kw_only=True, tag="missing/1"):
    """There is no such thing."""

    kind: str
    name: str


class Refused(Message, kw_only=True, tag="refused/1"):
    """Not done; ``why`` is a stable word such as ALREADY_DECIDED."""

    why: str
    message: str = ""


class RunEnded(Message, kw_only=True, tag="run-ended/1"):
    """The run is terminal."""

    version: int
    status: Status
