"""Approvals: who may decide one, and whether it still allows an action. Pure.

An approval is bound to the hash of tool, canonical arguments and key. It counts only if a person
who is entitled to this size, and is not the requester, approved this very hash before it expired.
That the first decision wins, and that it confirms the hash, is the ledger's
(``runtime.ledger.rules``).
"""

from collections.abc import Mapping
from typing import Protocol

from messages.authority import Verdict
from messages.base import Timestamp
from messages.ledger import ApprovalRow
from messages.parts import Action, Problem


class Group(Protocol):
    """A group of treadle.toml."""

    @property
    def members(self) -> tuple[str, ...]:
        """Who belongs to it."""
        ...

    @property
    def max_size(self) -> int | None:
        """The largest size it may approve; None: any."""
        ...


Groups = Mapping[str, Group]
"""By name. Where nothing is configured, pass None: everybody may approve any size for any group."""


def entitlement(
    person: str, *, requester: str, group: str, size: int | None, groups: Groups | None
) -> Problem | None:
    """Why this person may not decide; None if they may.

    Args:
        person: By their own credential.
        requester: The run's principal, who may never approve it.
        group: Whom the rule asked.
        size: Size of the action; None where the rule gave none.
        groups: Of treadle.toml; None: none are configured.
    """
    if person == requester:
        return _problem("OWN_REQUEST", f"{person} asked for this run and may not approve it")
    if groups is None:
        return None
    entry = groups.get(group)
    if entry is None:
        return _problem("UNKNOWN_GROUP", f"there is no group {group!r}", hint=_known(groups))
    if person not in entry.members:
        return _problem("NOT_A_MEMBER", f"{person} is not in the group {group!r}")
    if entry.max_size is None or (size is not None and size <= entry.max_size):
        return None
    if size is None:
        why = f"the action has no size and {group!r} may approve up to {entry.max_size}"
        return _problem("SIZE_UNKNOWN", why, hint="give ask() a size=")
    why = f"{group!r} may approve up to {entry.max_size}, this is {size}"
    return _problem("ABOVE_GROUP_LIMIT", why)


def use_problem(  # noqa: PLR0913 -- one condition each, and all by name
    row: ApprovalRow | None,
    action: Action,
    verdict: Verdict,
    *,
    tenant: str,
    run_id: str,
    step: int,
    groups: Groups | None,
    now: Timestamp,
) -> Problem | None:
    """Why an approval does not allow an action now; None if it does.

    Args:
        row: The approval as the ledger has it; None: there is no such approval.
        action: What is to run.
        verdict: What policy says of it now; its group and size are the ones that must be covered.
        tenant: Whose action it is.
        run_id: Which run's.
        step: Which step's.
        groups: Of treadle.toml, now; None: none are configured.
        now: The ledger's clock.
    """
    if row is None:
        return _problem("NO_APPROVAL", "there is no such approval")
    if (row.tenant, row.run_id) != (tenant, run_id):
        return _problem("OTHER_RUN", f"approval {row.id} belongs to another run")
    if row.state != "approved":
        return _problem("NOT_APPROVED", f"approval {row.id} is {row.state}")
    if now >= row.expires_at:
        return _problem("EXPIRED", f"approval {row.id} has expired")
    if (row.step, row.ordinal, row.tool) != (step, action.ordinal, action.tool):
        return _problem("OTHER_ACTION", f"approval {row.id} is for another call")
    if (row.action_hash, row.key) != (action.action_hash, action.key):
        return _problem("HASH_MISMATCH", f"approval {row.id} is for other arguments")
    return entitlement(
        row.person,
        requester=row.principal,
        group=verdict.group or row.group,
        size=row.size if verdict.size is None else verdict.size,
        groups=groups,
    )


def _known(groups: Groups) -> str:
    return f"treadle.toml has: {', '.join(sorted(groups))}"


def _problem(code: str, message: str, *, hint: str = "") -> Problem:
    return Problem(code=code, message=message, hint=hint)
