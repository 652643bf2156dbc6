"""May this task become a run? One function, every reason."""

from collections.abc import Mapping
from typing import NamedTuple

from messages.agent import AgentSpec
from messages.codec import decode_as
from messages.errors import BadTask, NotAllowed, NotFound, TreadleError
from messages.parts import Limits
from messages.subjects import TaskAddress, identifier, may_reply_to, replies
from messages.task import Task
from runtime.intake.ceilings import ceiling_of, effective_limits, scopes_of
from runtime.intake.values import MAX_INPUTS_BYTES, check_goal, check_labels, check_value
from runtime.settings import Settings


class Admitted(NamedTuple):
    """A task that may become a run, with all that its payload cannot say."""

    spec: AgentSpec
    scopes: tuple[str, ...]
    limits: Limits


def parse_task(data: bytes) -> Task:
    """The task of a payload.

    Raises:
        BadTask: Not JSON, or not of a task's shape.
    """
    try:
        return decode_as(data, Task)
    except TreadleError as error:
        raise BadTask(error.message) from error


def admit(
    task: Task, address: TaskAddress, agents: Mapping[str, AgentSpec], settings: Settings
) -> Admitted:
    """Check a task against who sends it and what is configured.

    Args:
        task: What was asked.
        address: Who asks whom, read off the subject.
        agents: Every agent of the app, by name.
        settings: Tenants, principals and budgets.

    Raises:
        NotFound: No such agent.
        NotAllowed: The tenant or principal is not configured, a limit is above the ceiling, or
            ``reply_to`` lies outside the sender's own place.
        BadIdentifier: ``run_id`` is none.
        BadTask: Anything else that is wrong with the task.
    """
    spec = agents.get(address.agent)
    if spec is None:
        known = ", ".join(sorted(agents))
        raise NotFound("agent", address.agent, hint=f"this app has: {known}")
    scopes = scopes_of(settings, agents.values(), address.tenant, address.principal)
    if task.run_id is not None:
        identifier("run", task.run_id)
    _check_reply_to(task, address)
    check_goal(task.goal)
    check_value("inputs", task.inputs, MAX_INPUTS_BYTES)
    check_labels(task.labels)
    ceiling = ceiling_of(spec, settings, address.tenant)
    return Admitted(spec, scopes, effective_limits(ceiling, task.limits))


def _check_reply_to(task: Task, address: TaskAddress) -> None:
    tenant, principal, _ = address
    if task.reply_to is not None and not may_reply_to(task.reply_to, tenant, principal):
        hint = f"use a subject below {replies(tenant, principal)}"
        raise NotAllowed("reply_to lies outside the sender's place", hint=hint)
