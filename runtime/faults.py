"""Named places in the code where a test may break the process; inert unless one is armed.

One point per boundary between two steps and per window around a write (DESIGN.md section 6): A,
nothing durable yet; B, intended and not yet done; C, done and not yet recorded. A point is passed
synchronously, so it can stand between any two statements. Unarmed it costs a look at an empty
list, some 40 ns; ``treadle.faults`` arms it from the environment of ``treadle up``.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, Literal, get_args

Point = Literal[
    # intake: the run is durable before its task is acknowledged
    "gateway.before_create",
    "gateway.after_create",
    "gateway.before_ack",
    # the hub, in the order of an iteration
    "orchestrator.after_take",
    "orchestrator.before_decide",
    "orchestrator.after_decide",
    "orchestrator.after_validate",
    "orchestrator.after_authorise",
    "orchestrator.before_intended",  # A
    "orchestrator.after_intended",  # B: the intent is durable, Execute is not sent
    "orchestrator.after_execute",  # C for a write: the outcome is in hand, not appended
    "orchestrator.before_append",
    "orchestrator.after_append",
    "orchestrator.after_assess",
    "orchestrator.after_judge",
    "orchestrator.before_reconcile",
    "orchestrator.after_reconcile",
    "orchestrator.before_publish",
    "orchestrator.after_publish",
    # whoever is asked
    "planner.before_model",
    "planner.after_model",
    "validator.before_answer",
    "authoriser.before_answer",
    "monitor.before_answer",
    "executor.before_read",
    "executor.before_recheck",
    "executor.before_lookup",
    "executor.before_claim",
    "executor.after_claim",  # B: claimed, not sent
    "executor.after_effect",  # C: done, not settled
    "executor.after_settle",  # C: settled, not answered
    "checkpointer.before_commit",
    "checkpointer.after_commit",  # durable, nobody is told
    "notifier.before_notify",
]
POINTS: Final[tuple[Point, ...]] = get_args(Point)

Hook = Callable[[Point], None]
"""What a test does at a point; it may raise, or not come back."""

_hooks: Final[list[Hook]] = []


def fault(point: Point) -> None:
    """Pass a point: nothing happens unless a test armed something."""
    if _hooks:  # an empty loop would cost as much again as the call
        for hook in _hooks:
            hook(point)


def arm(hook: Hook) -> None:
    """Call ``hook`` at every point of this process from now on."""
    _hooks.append(hook)


@contextmanager
def armed(hook: Hook) -> Generator[None]:
    """Call ``hook`` at every point of this process until the block is left."""
    arm(hook)
    try:
        yield
    finally:
        _hooks.remove(hook)
