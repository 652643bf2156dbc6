"""What may become a run: the checks on a task, pure, for the stream and for the API alike.

A task states what to do; who asks, with which scopes and under which ceilings comes from the
subject it arrived on and from configuration, never from its payload.
"""

from runtime.intake.ceilings import ceiling_of, effective_limits, scopes_of
from runtime.intake.letters import (
    DeadLetter,
    code_of,
    dead_letter,
    lenient,
    refusal_of,
    run_letter,
    tenant_of,
)
from runtime.intake.task import Admitted, admit, parse_task
from runtime.intake.trace import Trace, continued_run_id, derived_run_id, trace_of
from runtime.intake.values import check_goal, check_labels, check_value

__all__ = [
    "Admitted",
    "DeadLetter",
    "Trace",
    "admit",
    "ceiling_of",
    "check_goal",
    "check_labels",
    "check_value",
    "code_of",
    "continued_run_id",
    "dead_letter",
    "derived_run_id",
    "effective_limits",
    "lenient",
    "parse_task",
    "refusal_of",
    "run_letter",
    "scopes_of",
    "tenant_of",
    "trace_of",
]
