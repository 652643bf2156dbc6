"""Subjects and who may use them, worked out from the permissions that the server is given."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from docs.generate.markdown import BY_HAND, codes, sentence, table
from messages import codec, subjects
from messages.base import Request
from runtime.bus import permissions, streams
from runtime.bus.permissions import Person, Rights

_INTRO: Final = (
    "A message's sender is known only by the subjects its NATS user may publish on, so a subject"
    " carries tenant and principal. Everything that is not listed is refused by the server. A name"
    " followed by (queue) subscribes in its role's queue group only, so each message reaches one"
    " process of the role. The user `daemon` of a process that serves every role may say what all"
    " roles may, and hear `treadle.>`."
)
_ANSWERS: Final = (
    "Every user hears its own inbox, `_INBOX_<user>.>`, and nobody else's. A role may answer"
    f" whatever arrives with a reply subject, for {permissions.REPLY_WINDOW}."
)
_RAW: Final = (
    "Word for word what the generated server configuration grants, with `TENANT` and `PRINCIPAL`"
    " for a person's own."
)
_TENANT, _PRINCIPAL, _RUN, _AGENT = "TENANT", "PRINCIPAL", "RUN", "AGENT"


def subjects_page() -> str:
    """Subjects for everybody, requests between roles, streams, and each user's rights."""
    lines = ["# Subjects", "", BY_HAND, "", _INTRO, "", _ANSWERS, "", "## For everybody", ""]
    lines += table(["subject", "what", "published by", "heard by"], map(_row, _public()))
    lines += ["", "## Between roles", ""]
    lines += table(["subject", "what", "published by", "heard by"], map(_row, _internal()))
    lines += ["", "## Requests", ""]
    lines += table(["role", "subject", "verbs", "asked by"], map(_asked, subjects.ROLES))
    lines += ["", "## Streams", ""]
    lines += table(["stream", "subjects", "keeps", "at most"], map(_stream, _streams()))
    lines += ["", "## Rights of each user", "", _RAW]
    for name, rights in _users().items():
        lines += ["", f"### {name}", ""]
        lines += table(["may publish", "may subscribe"], [_raw(rights)])
    return "\n".join([*lines, ""])


def _public() -> Iterator[tuple[str, object]]:
    """Subject and the function that builds it, whose docstring says what it is for."""
    yield subjects.task(_TENANT, _PRINCIPAL, _AGENT), subjects.task
    yield subjects.api(_TENANT, _PRINCIPAL, "VERB"), subjects.api
    yield f"{subjects.replies(_TENANT, _PRINCIPAL)}ANY", subjects.replies
    yield subjects.event(_TENANT, _RUN, "KIND"), subjects.event
    yield subjects.result(_TENANT, _RUN), subjects.result
    yield subjects.approval(_TENANT, "ID", "WHAT"), subjects.approval
    yield subjects.question(_TENANT, _RUN, "WHAT"), subjects.question


def _internal() -> Iterator[tuple[str, object]]:
    yield subjects.wake(_TENANT, _RUN), subjects.wake
    yield subjects.signal(_TENANT, _RUN), subjects.signal
    yield subjects.dead(_TENANT, "KIND", "NAME"), subjects.dead
    for role in subjects.ROLES:
        yield subjects.control(role), subjects.control


@cache
def _users() -> Mapping[str, Rights]:
    """Rights by role and by kind of person."""
    people = {
        person.kind: permissions.person_rights(
            Person(kind=person.kind, principal=_PRINCIPAL, tenant=_TENANT)
        )
        for person in permissions.DEFAULT_PEOPLE
    }
    return {**people, **{role: permissions.role_rights(role) for role in subjects.ROLES}}


def _row(one: tuple[str, object]) -> tuple[str, str, str, str]:
    subject, built_by = one
    publishers = (name for name, rights in _users().items() if _any(rights.publish, subject))
    hearers = (
        f"{name} (queue)" if " " in heard else name
        for name, rights in _users().items()
        for heard in rights.subscribe
        if _matches(heard.partition(" ")[0], subject)
    )
    kept = (f"stream {one['name']}" for one in _streams() if _any(one["subjects"], subject))
    heard_by = ", ".join([*dict.fromkeys(hearers), *kept])
    return f"`{subject}`", sentence(built_by), ", ".join(publishers), heard_by


def _asked(role: str) -> tuple[str, str, str, str]:
    subject = subjects.served(role)
    if role == "executor":
        subject = subjects.served(role, "TOOL")
    requests: list[type[Request[Any]]] = [
        cls
        for cls in codec.wire_types()
        if issubclass(cls, Request) and getattr(cls, "role", "") == role
    ]
    verbs = sorted(cls.verb for cls in requests)
    example = subject.replace("*", "verb")
    askers = [name for name, rights in _users().items() if _any(rights.publish, example)]
    return role, f"`{subject}`", codes(verbs) or "none", ", ".join(askers) or "nobody"


def _any(patterns: Iterable[str], subject: str) -> bool:
    return any(_matches(pattern, subject) for pattern in patterns)


def _matches(pattern: str, subject: str) -> bool:
    """Whether a NATS pattern covers a subject."""
    wanted, given = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        if len(given) < len(wanted):
            return False
        wanted, given = wanted[:-1], given[: len(wanted) - 1]
    return len(wanted) == len(given) and all(
        one in {"*", other} for one, other in zip(wanted, given, strict=True)
    )


def _streams() -> tuple[streams.Config, ...]:
    return streams.tasks_stream([_AGENT]), streams.results_stream(), streams.dead_stream()


def _stream(config: streams.Config) -> tuple[str, str, str, str]:
    per_subject: int = config.get("max_msgs_per_subject", 0)
    keeps = "until it has become a run" if config["retention"] == "workqueue" else "until dropped"
    if per_subject:
        keeps = "the newest of each subject" if per_subject == 1 else f"{per_subject} of each"
    bounds = [f"{config['max_msgs']:,} messages"] if "max_msgs" in config else []
    if "max_age" in config:
        bounds.append(f"{config['max_age'] // (86_400 * 10**9)} days")
    full = "then the publisher is refused" if config["discard"] == "new" else "then the oldest goes"
    return f"`{config['name']}`", codes(config["subjects"]), keeps, f"{', '.join(bounds)}; {full}"


def _raw(rights: Rights) -> tuple[str, str]:
    return "<br>".join(map(_code, rights.publish)), "<br>".join(map(_code, rights.subscribe))


def _code(subject: str) -> str:
    return f"`{subject}`"
