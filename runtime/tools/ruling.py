"""What policy code answers: ``allow()``, ``ask(...)``, ``deny(...)``, and ``Unmet`` for conditions.

A rule returns a ``Ruling``; a precondition and an agent's ``done`` return ``Unmet`` or None. The
constructors check what they are given at once, since a ruling that names no group or a negative
size would otherwise surface only when somebody has to approve it.
"""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from messages.errors import DeclarationError

_MAX_SIZE = 2**63 - 1
"""What a ledger can keep."""
_GROUP = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class Ruling:
    """What a rule decided; made by ``allow``, ``ask`` and ``deny``.

    Attributes:
        group: Who may approve, of ``ask``.
        size: Size of the action in the rule's unit, compared with what a group may approve.
        ttl: How long the approval may wait; None: the agent's.
    """

    decision: Literal["allow", "ask", "deny"]
    why: str = ""
    group: str | None = None
    size: int | None = None
    ttl: timedelta | None = None


@dataclass(frozen=True)
class Unmet:
    """A condition does not hold; ``why`` is told to the model and kept in the record."""

    why: str

    def __post_init__(self) -> None:
        """Refuse an empty reason, which would tell the model nothing."""
        if not _is_text(self.why):
            message = "Unmet needs a reason: Unmet('the customer has not been told')"
            raise DeclarationError(message)


def allow() -> Ruling:
    """The action may run now."""
    return Ruling("allow")


def ask(group: str, why: str, *, size: int | None = None, ttl: timedelta | None = None) -> Ruling:
    """The action may run once a person of ``group`` has approved exactly it.

    Args:
        group: A group of treadle.toml.
        why: What the approver is told.
        size: Size of the action as an integer in the rule's unit; a group may approve up to its
            largest size.
        ttl: How long the approval may wait before it expires.

    Raises:
        DeclarationError: ``group`` is no identifier, ``why`` is empty, ``size`` is no whole
            number from 0 to 2**63 - 1, ``ttl`` is not positive.
    """
    if not (_is_text(group) and _GROUP.fullmatch(group)):
        message = f"ask() needs a group such as 'support-lead', not {group!r}"
        raise DeclarationError(message)
    if not _is_text(why):
        message = "ask() needs a reason: ask('support-lead', 'above the automatic limit')"
        raise DeclarationError(message)
    if size is not None and (type(size) is not int or not 0 <= size <= _MAX_SIZE):
        message = (
            f"ask(size=) is a whole number from 0 to {_MAX_SIZE} in the rule's unit, not {size!r}"
        )
        raise DeclarationError(message)
    if ttl is not None and (type(ttl) is not timedelta or ttl <= timedelta()):
        message = f"ask(ttl=) is a positive timedelta such as timedelta(minutes=30), not {ttl!r}"
        raise DeclarationError(message)
    return Ruling("ask", why, group, size, ttl)


def deny(why: str) -> Ruling:
    """The action may not run, whoever approves it.

    Raises:
        DeclarationError: ``why`` is empty.
    """
    if not _is_text(why):
        message = "deny() needs a reason: deny('not a payment of this order')"
        raise DeclarationError(message)
    return Ruling("deny", why)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
