"""Whether a person may decide or answer: people and groups come from configuration alone.

Where neither ``[people]`` nor ``[groups]`` nor ``[tenants]`` is configured, approver and operator
of the data directory belong to every group; the submitter is whoever asks.
"""

from messages.errors import NotAllowed
from messages.ledger import ApprovalRow
from messages.subjects import ApiAddress
from runtime.policy.approvals import entitlement
from runtime.settings import Settings

OPERATOR = "operator"
ANYBODY = frozenset({"approver", OPERATOR})
"""Users of connection.json that may decide where no people are configured."""


def check_approver(settings: Settings, sender: ApiAddress, row: ApprovalRow) -> None:
    """Whether the sender may decide this approval.

    Raises:
        NotAllowed: Not a person who may be asked, the one who asked for the run, not in the group,
            or the size is above what the group may approve.
    """
    _check_person(settings, sender)
    problem = entitlement(
        sender.principal,
        requester=row.principal,
        group=row.group,
        size=row.size,
        groups=settings.known_groups,
    )
    if problem is not None:
        raise NotAllowed(problem.message, hint=problem.hint)


def check_answerer(settings: Settings, sender: ApiAddress, group: str | None) -> None:
    """Whether the sender may answer a question to that group.

    A question to nobody in particular may be answered by whoever asked for the run, too.

    Raises:
        NotAllowed: The sender may not.
    """
    if group is None:
        return
    _check_person(settings, sender)
    groups = settings.known_groups
    if groups is None:
        return
    asked = groups.get(group)
    if asked is None or sender.principal not in asked.members:
        raise NotAllowed(f"{sender.principal!r} is not in the group {group!r}")


def check_operator(settings: Settings, sender: ApiAddress) -> None:
    """Whether the sender may deal with what the system set aside.

    Raises:
        NotAllowed: Neither the operator nor one of the people of the tenant.
    """
    person = settings.people.get(sender.principal)
    is_person = person is not None and person.tenant == sender.tenant
    if sender.principal != OPERATOR and not is_person:
        raise NotAllowed(f"{sender.principal!r} is no operator", hint="use --as operator")


def _check_person(settings: Settings, sender: ApiAddress) -> None:
    name = sender.principal
    if not settings.people:
        if name not in ANYBODY:
            raise NotAllowed(f"{name!r} asks for runs and does not decide for people")
        return
    person = settings.people.get(name)
    if person is None or person.tenant != sender.tenant:
        raise NotAllowed(f"{name!r} is not among the people of tenant {sender.tenant!r}")
