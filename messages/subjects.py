"""The only place that builds or parses a subject (CONTRACT.md section 4).

A message's sender is known only by the subject its NATS user may publish on, so a subject carries
tenant and principal, and no other code may put one together.
"""

import re
from typing import NamedTuple

from messages.base import Request
from messages.errors import BadIdentifier

ROOT = "treadle"
ROLES = (
    "gateway",
    "orchestrator",
    "planner",
    "validator",
    "authoriser",
    "executor",
    "monitor",
    "checkpointer",
    "notifier",
)
TASKS_STREAM = "TREADLE_TASKS"
RESULTS_STREAM = "TREADLE_RESULTS"
DEAD_STREAM = "TREADLE_DEAD"

_IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{1,64}")
_APPROVAL_ID = re.compile(r"apr-[A-Za-z0-9]{1,32}")


def identifier(kind: str, value: str) -> str:
    """``value`` itself, if it is an identifier.

    Raises:
        BadIdentifier: it is not.
    """
    if not _IDENTIFIER.fullmatch(value):
        raise BadIdentifier(kind, value)
    return value


def approval_identifier(value: str) -> str:
    """``value`` itself, if it is an approval id.

    Raises:
        BadIdentifier: it is not ``apr-`` and 1 to 32 letters and digits.
    """
    if not _APPROVAL_ID.fullmatch(value):
        raise BadIdentifier("approval", value)
    return value


class TaskAddress(NamedTuple):
    """Who submits to which agent, read off a subject."""

    tenant: str
    principal: str
    agent: str


class ApiAddress(NamedTuple):
    """Who asks for what, read off a subject."""

    tenant: str
    principal: str
    verb: str


def task(tenant: str, principal: str, agent: str) -> str:
    """Where a task is published."""
    return ".".join(
        (
            ROOT,
            "tasks",
            identifier("tenant", tenant),
            identifier("principal", principal),
            identifier("agent", agent),
        )
    )


def parse_task(subject: str) -> TaskAddress:
    """Tenant, principal and agent of a task's subject.

    Raises:
        BadIdentifier: it is not a task subject, or a token is no identifier.
    """
    return TaskAddress(*_tail(subject, "tasks", ("tenant", "principal", "agent")))


def tasks_of_agent(agent: str) -> str:
    """The subject filter of one known agent in the task stream."""
    return f"{ROOT}.tasks.*.*.{identifier('agent', agent)}"


def api(tenant: str, principal: str, verb: str) -> str:
    """Where an API request is published."""
    return f"{ROOT}.api.{identifier('tenant', tenant)}.{identifier('principal', principal)}.{verb}"


def parse_api(subject: str) -> ApiAddress:
    """Tenant, principal and verb of an API subject.

    Raises:
        BadIdentifier: it is not an API subject, or a token is no identifier.
    """
    return ApiAddress(*_tail(subject, "api", ("tenant", "principal", "verb")))


def _tail(subject: str, kind: str, names: tuple[str, ...]) -> tuple[str, ...]:
    tokens = subject.split(".")
    if tokens[:2] != [ROOT, kind] or len(tokens) != 2 + len(names):
        raise BadIdentifier(f"{kind} subject", subject)
    return tuple(identifier(n, t) for n, t in zip(names, tokens[2:], strict=True))


def replies(tenant: str, principal: str) -> str:
    """The only prefix a task's ``reply_to`` may have, final dot included."""
    return f"{ROOT}.replies.{tenant}.{principal}."


def may_reply_to(subject: str, tenant: str, principal: str) -> bool:
    """Whether a submitter may be answered on that subject."""
    prefix = replies(tenant, principal)
    tail = subject.removeprefix(prefix)
    return subject.startswith(prefix) and all(_IDENTIFIER.fullmatch(t) for t in tail.split("."))


def event(tenant: str, run_id: str, kind: str) -> str:
    """Live progress of a run."""
    return f"{ROOT}.events.{tenant}.{run_id}.{kind}"


def result(tenant: str, run_id: str) -> str:
    """Where the terminal result of a run lies."""
    return f"{ROOT}.results.{identifier('tenant', tenant)}.{identifier('run', run_id)}"


def approval(tenant: str, approval_id: str, what: str) -> str:
    """The approvals feed; ``what`` is requested or resolved."""
    return f"{ROOT}.approvals.{tenant}.{approval_id}.{what}"


def question(tenant: str, run_id: str, what: str) -> str:
    """The questions feed; ``what`` is asked or answered."""
    return f"{ROOT}.questions.{tenant}.{run_id}.{what}"


def rpc(request: Request[object]) -> str:
    """Where a request to a role goes; an executor's carries the tool."""
    if request.role == "executor":
        tool = getattr(request, "tool", None)
        return f"{ROOT}.rpc.executor.{identifier('tool', str(tool))}.{request.verb}"
    return f"{ROOT}.rpc.{request.role}.{request.verb}"


def served(role: str, tool: str | None = None) -> str:
    """What a server of a role (or of one tool) subscribes to."""
    return f"{ROOT}.rpc.{role}.{identifier('tool', tool)}.*" if tool else f"{ROOT}.rpc.{role}.*"


def control(role: str) -> str:
    """Cancels of asks to a role."""
    return f"{ROOT}.ctl.{role}"


def wake(tenant: str, run_id: str) -> str:
    """The hint that a run wants a drive."""
    return f"{ROOT}.wakes.{tenant}.{run_id}"


def signal(tenant: str, run_id: str) -> str:
    """The hint to a live owner that a signal is stored."""
    return f"{ROOT}.signals.{tenant}.{run_id}"


def parse_run(subject: str) -> tuple[str, str]:
    """Tenant and run of a wake or signal subject.

    Raises:
        BadIdentifier: the subject has another shape.
    """
    tokens = subject.split(".")
    if len(tokens) != 4 or tokens[0] != ROOT:  # noqa: PLR2004 - root, kind, tenant, run
        raise BadIdentifier("run subject", subject)
    return identifier("tenant", tokens[2]), identifier("run", tokens[3])


def dead(tenant: str, kind: str, name: str) -> str:
    """Where a dead letter goes; ``kind`` is tasks or runs."""
    return f"{ROOT}.dead.{tenant}.{kind}.{name}"
