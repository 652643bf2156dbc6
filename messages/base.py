"""The base of everything that travels on the bus or lies in the ledger.

A message is a frozen, keyword-only msgspec struct with a written tag such as ``"decide/1"``: the
name and the schema version of what it is, never a class name, so code can be renamed while stored
bytes stay readable. Readers ignore unknown fields; new fields get defaults; old fields never
change their type (golden files in ``tests/unit/messages`` guard all three).

``gc=False``: all of them are trees that decoding or a pure function made, so no cycle can come into
being, and the collector need not walk every journal in memory again and again.

A request names the type of its reply, so that ``await bus.ask(Validate(...))`` is typed.
"""

from functools import cache
from typing import ClassVar, Generic, TypeVar, dataclass_transform, get_args

import msgspec

ReplyT = TypeVar("ReplyT")
ReplyT_co = TypeVar("ReplyT_co", covariant=True)

Timestamp = float
"""Seconds since the Unix epoch, UTC, by the ledger's clock unless a field says otherwise."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class FrozenMeta(msgspec.StructMeta):
    """Tells type checkers what msgspec does anyway: frozen and keyword-only are inherited."""


class Part(
    msgspec.Struct,
    metaclass=FrozenMeta,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,
):
    """A struct that travels only inside messages."""


class Message(
    msgspec.Struct,
    metaclass=FrozenMeta,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,
    tag_field="t",
    tag="message/1",
):
    """Anything that may stand alone on the wire."""


class Event(Message, kw_only=True, tag="event/1"):
    """A fact about a run; the journal is a list of entries of these."""


class Request(Message, Generic[ReplyT_co], kw_only=True, tag="request/1"):
    """An order to the one role that owns a concern; ``ReplyT_co`` is what comes back."""

    role: ClassVar[str]
    """Which role serves it: one of ``messages.subjects.ROLES``."""
    verb: ClassVar[str]
    """Last token of its subject."""


@cache
def reply_types(request: type[Request[object]]) -> tuple[type, ...]:
    """The concrete reply classes a request type names, in the order written."""
    for base in getattr(request, "__orig_bases__", ()):
        for argument in get_args(base):
            members = get_args(argument) or (argument,)
            return tuple(members)
    return ()


class Failure(Message, kw_only=True, tag="failure/1"):
    """The request was not done; ``code`` is stable and taken from ``messages.errors``."""

    code: str
    message: str
    hint: str = ""
    retryable: bool = False


class Beat(Message, kw_only=True, tag="beat/1"):
    """The handler is alive and still working on the request."""

    progress: str = ""


class CancelAsk(Message, kw_only=True, tag="cancel-ask/1"):
    """The asker gave up; whoever works on the request with this reply subject should stop."""

    reply_to: str
