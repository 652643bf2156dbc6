"""Who may say and hear what on NATS: the matrix as data, and the server configuration from it.

A receiver never sees which user sent a message, so a sender is known only by the subjects its user
may publish on. Everything not listed here is refused by the server.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from messages.errors import ConfigError
from messages.subjects import DEAD_STREAM, RESULTS_STREAM, ROLES, ROOT, TASKS_STREAM, identifier

DAEMON = "daemon"
"""The user of a process that runs all roles: separation inside one memory would be pretence."""
REPLY_WINDOW = "15m"
"""How long a role may answer and beat after a request; longer than the longest tool."""

PersonKind = Literal["submitter", "approver", "operator"]

_JS = "$JS.API"
_SERVICES = "$SRV.>"
_ASKS_ABOUT = ("$SRV.PING", "$SRV.PING.>", "$SRV.INFO", "$SRV.INFO.>", "$SRV.STATS", "$SRV.STATS.>")


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """How one user logs in, and where its replies arrive."""

    user: str
    password: str = field(repr=False)
    inbox_prefix: str


@dataclass(frozen=True, kw_only=True)
class Rights:
    """What one user may publish and subscribe.

    Attributes:
        publish, subscribe: Subjects; ``subject queue`` is a subscription in that queue group only.
        may_answer: To whatever arrives with a reply subject, within ``REPLY_WINDOW``.
    """

    publish: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    may_answer: bool = False

    def plus(self, other: "Rights") -> "Rights":
        """Both."""
        return Rights(
            publish=tuple(sorted({*self.publish, *other.publish})),
            subscribe=tuple(sorted({*self.subscribe, *other.subscribe})),
            may_answer=self.may_answer or other.may_answer,
        )


@dataclass(frozen=True, kw_only=True)
class Person:
    """A principal of a tenant that connects from outside."""

    kind: PersonKind
    principal: str
    tenant: str = "default"

    @property
    def user(self) -> str:
        """The NATS user: the principal alone in the default tenant."""
        return self.principal if self.tenant == "default" else f"{self.tenant}+{self.principal}"


DEFAULT_PEOPLE = (
    Person(kind="submitter", principal="submitter"),
    Person(kind="approver", principal="approver"),
    Person(kind="operator", principal="operator"),
)


def _stream_admin(stream: str) -> tuple[str, ...]:
    return tuple(f"{_JS}.STREAM.{verb}.{stream}" for verb in ("INFO", "CREATE", "UPDATE"))


def _consumer(stream: str, durable: str) -> tuple[str, ...]:
    return (
        f"{_JS}.CONSUMER.INFO.{stream}.{durable}",
        f"{_JS}.CONSUMER.CREATE.{stream}.{durable}",
        f"{_JS}.CONSUMER.MSG.NEXT.{stream}.{durable}",
        f"$JS.ACK.{stream}.{durable}.>",
    )


def _asks(*roles: str) -> tuple[str, ...]:
    """To ask a role is to publish to it, and to be able to take it back."""
    return tuple(s for role in roles for s in (f"{ROOT}.rpc.{role}.>", f"{ROOT}.ctl.{role}"))


_EXTRA: Mapping[str, Rights] = {
    "gateway": Rights(
        publish=(
            *_asks("checkpointer", "executor"),
            *_stream_admin(TASKS_STREAM),
            *_stream_admin(RESULTS_STREAM),
            *_stream_admin(DEAD_STREAM),
            *_consumer(TASKS_STREAM, "gateway"),
            f"{_JS}.DIRECT.GET.{RESULTS_STREAM}.>",
            f"{_JS}.DIRECT.GET.{DEAD_STREAM}",
            f"{_JS}.DIRECT.GET.{DEAD_STREAM}.>",
            f"{_JS}.STREAM.MSG.DELETE.{DEAD_STREAM}",
            f"{ROOT}.tasks.>",  # a dead letter's task is published again as it was
            f"{ROOT}.replies.>",
            f"{ROOT}.wakes.>",
            f"{ROOT}.signals.>",
            f"{ROOT}.approvals.>",
            f"{ROOT}.questions.>",
            f"{ROOT}.dead.>",
            *_ASKS_ABOUT,
        ),
        subscribe=(f"{ROOT}.api.> gateway",),
    ),
    "orchestrator": Rights(
        publish=(
            *_asks("planner", "validator", "authoriser", "executor", "monitor", "checkpointer"),
            f"{_JS}.STREAM.INFO.{RESULTS_STREAM}",
            f"{_JS}.DIRECT.GET.{RESULTS_STREAM}.>",
            f"{ROOT}.events.>",
            f"{ROOT}.results.>",
            f"{ROOT}.approvals.>",
            f"{ROOT}.questions.>",
            f"{ROOT}.wakes.>",
            f"{ROOT}.signals.>",
            f"{ROOT}.dead.>",
        ),
        subscribe=(f"{ROOT}.wakes.> orchestrator", f"{ROOT}.signals.>"),
    ),
    "planner": Rights(publish=_asks("checkpointer")),
    "validator": Rights(publish=_asks("checkpointer")),
    "authoriser": Rights(publish=_asks("checkpointer")),
    "executor": Rights(publish=_asks("checkpointer")),
    "monitor": Rights(publish=_asks("checkpointer")),
    "checkpointer": Rights(publish=(f"{ROOT}.wakes.>", f"{ROOT}.signals.>")),
    "notifier": Rights(
        publish=_asks("checkpointer"),
        subscribe=(f"{ROOT}.approvals.> notifier", f"{ROOT}.questions.> notifier"),
    ),
}
"""What a role may do beyond what every role may."""


def inbox_prefix(user: str) -> str:
    """Where a user's replies arrive; never the shared ``_INBOX``."""
    return f"_INBOX_{user}"


def _inbox(user: str) -> Rights:
    return Rights(subscribe=(f"{inbox_prefix(user)}.>",))


def role_rights(role: str) -> Rights:
    """What a process with this role may do."""
    common = Rights(
        subscribe=(f"{ROOT}.rpc.{role}.> {role}", f"{ROOT}.ctl.{role}", _SERVICES),
        may_answer=True,
    )
    return _inbox(role).plus(common).plus(_EXTRA[role])


def daemon_rights(others: Iterable[str]) -> Rights:
    """The union of all roles.

    It answers by naming every inbox. Permission to answer whatever arrives would make the server
    remember each reply subject for ``REPLY_WINDOW``, thousands a second.

    Args:
        others: the other users.
    """
    union = Rights()
    for role in ROLES:
        union = union.plus(role_rights(role))
    inboxes = tuple(f"{inbox_prefix(user)}.>" for user in (DAEMON, *others))
    union = union.plus(_inbox(DAEMON)).plus(Rights(publish=inboxes))
    own = tuple(s for s in union.subscribe if not _is_inbox_of(ROLES, s))
    # it holds every role's rights already, so it may listen too: nats sub 'treadle.>'
    own = (*own, f"{ROOT}.>")
    return Rights(publish=union.publish, subscribe=own, may_answer=False)


def _is_inbox_of(users: Iterable[str], subject: str) -> bool:
    return any(subject == f"{inbox_prefix(user)}.>" for user in users)


def person_rights(person: Person) -> Rights:
    """What a person or a system outside may do, in its own tenant and under its own name."""
    tenant, principal = person.tenant, person.principal
    own = _inbox(person.user).plus(Rights(publish=(f"{ROOT}.api.{tenant}.{principal}.>",)))
    submits = Rights(
        publish=(
            f"{ROOT}.tasks.{tenant}.{principal}.>",
            f"{_JS}.DIRECT.GET.{RESULTS_STREAM}.{ROOT}.results.{tenant}.>",
        ),
        subscribe=(
            f"{ROOT}.replies.{tenant}.{principal}.>",
            f"{ROOT}.results.{tenant}.>",
            f"{ROOT}.events.{tenant}.>",
        ),
    )
    approves = Rights(subscribe=(f"{ROOT}.approvals.{tenant}.>", f"{ROOT}.questions.{tenant}.>"))
    match person.kind:
        case "submitter":
            return own.plus(submits)
        case "approver":
            return own.plus(approves)
        case "operator":
            return own.plus(submits).plus(approves).plus(Rights(publish=_ASKS_ABOUT))


def all_rights(people: Iterable[Person] = DEFAULT_PEOPLE) -> dict[str, Rights]:
    """Rights by user: the daemon, each role for joined processes, and the people.

    Raises:
        BadIdentifier: a tenant or principal is no identifier.
        ConfigError: two users would have one name.
    """
    rights = {role: role_rights(role) for role in ROLES}
    for person in people:
        identifier("tenant", person.tenant)
        identifier("principal", person.principal)
        if person.user in rights or person.user == DAEMON:
            raise ConfigError("tenants", f"principal {person.user!r} is the name of another user")
        rights[person.user] = person_rights(person)
    rights[DAEMON] = daemon_rights(rights)
    return rights


def users_config(
    rights: Mapping[str, Rights], passwords: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The ``users`` list of a NATS server's ``authorization``.

    Args:
        rights: by user.
        passwords: by user.
    """
    return [
        {"user": user, "password": passwords[user], "permissions": _permissions(granted)}
        for user, granted in sorted(rights.items())
    ]


def _permissions(rights: Rights) -> dict[str, Any]:
    allowed: dict[str, Any] = {
        "publish": {"allow": list(rights.publish)},
        "subscribe": {"allow": list(rights.subscribe)},
    }
    if rights.may_answer:
        allowed["allow_responses"] = {"max": -1, "expires": REPLY_WINDOW}
    return allowed


def config_text(settings: Mapping[str, Any]) -> str:
    """A NATS configuration file: JSON values are valid in it."""
    return "".join(f"{key}: {json.dumps(value, indent=2)}\n" for key, value in settings.items())
