"""The cells as data: where a process breaks, how, what is done about it, and which ends are right.

Windows around a write (DESIGN.md section 6): A, no durable intent yet; B, intended and not done;
C, done and not recorded. A cell ``B.lookup`` kills the whole daemon; ``B.lookup.executor`` kills
the executor in a process of its own; ``pause.…`` stops a process for longer than its lease and W
while a second one of its role is alive. ``kill.…`` and ``term.…`` go through the steps in order.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product
from typing import Final, Literal

from runtime.faults import Point
from tests.faults.app import Effect

Action = Literal["kill", "stop", "term", "note"]
"""What ``treadle.faults`` does; after a ``note`` the suite kills the process, a little later."""
End = Literal["done", "unknown"]
"""done: SUCCEEDED, one effect. unknown: FAILED unknown_effect, at most one, its key flagged (or
settled after the end by a process that had been stopped)."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One kind of trial.

    Attributes:
        point: Where the process breaks.
        action: How.
        effect: What is known of the write's outcome.
        ends: The right ones.
        place: The role that has a process of its own, which is the one that breaks; "": one
            process serves all roles.
        has_peer: A second process of that role is there all the time.
        is_late: The downstream commits just before W is over, long after its caller was killed.
        is_slow: The tool call takes a while, within its deadline.
        loses_server: While the daemon is stopped, its NATS server is killed.
    """

    name: str
    point: Point
    action: Action = "kill"
    effect: Effect = "replay"
    ends: tuple[End, ...] = ("done",)
    place: str = ""
    has_peer: bool = False
    is_late: bool = False
    is_slow: bool = False
    loses_server: bool = False

    @property
    def reads(self) -> bool:
        """Whether the run reads before it writes: each point is meant the first time it comes."""
        return self.point == "executor.before_read"

    @property
    def burns_nothing(self) -> bool:
        """A process that is told to stop costs no step."""
        return self.action == "term"


EFFECTS: Final[tuple[Effect, ...]] = ("replay", "lookup", "blind")
EITHER: Final[tuple[End, ...]] = ("done", "unknown")
_WINDOWS: Final[dict[str, Point]] = {
    "A": "orchestrator.before_intended",
    "B": "orchestrator.after_intended",
    "C": "orchestrator.after_execute",
}
_AT_THE_EXECUTOR: Final[dict[str, Point]] = {
    "A": "executor.before_claim",
    "B": "executor.after_claim",
    "C": "executor.after_effect",
}
_ROLES: Final[dict[str, Point]] = {
    "gateway": "gateway.after_create",
    "gateway.create": "gateway.before_create",
    "gateway.ack": "gateway.before_ack",
    "orchestrator": "orchestrator.after_decide",
    "orchestrator.append": "orchestrator.after_append",
    "planner": "planner.before_model",
    "planner.answer": "planner.after_model",
    "validator": "validator.before_answer",
    "authoriser": "authoriser.before_answer",
    "executor": "executor.before_recheck",
    "monitor": "monitor.before_answer",
    "checkpointer": "checkpointer.before_commit",
    "checkpointer.answer": "checkpointer.after_commit",
    "notifier": "notifier.before_notify",
}
_WITH_A_PEER: Final[dict[str, Point]] = {
    "orchestrator": "orchestrator.after_decide",
    "planner": "planner.before_model",
    "executor": "executor.after_claim",
}
_STEPS: Final[tuple[Point, ...]] = (
    "gateway.before_create",
    "gateway.before_ack",
    "orchestrator.after_take",
    "orchestrator.before_decide",
    "planner.before_model",
    "planner.after_model",
    "orchestrator.after_decide",
    "validator.before_answer",
    "orchestrator.after_validate",
    "authoriser.before_answer",
    "orchestrator.after_authorise",
    "executor.before_read",
    "executor.before_recheck",
    "orchestrator.before_intended",
    "orchestrator.after_intended",
    "executor.before_claim",
    "executor.after_claim",
    "executor.after_effect",
    "executor.after_settle",
    "orchestrator.after_execute",
    "orchestrator.before_append",
    "orchestrator.after_append",
    "monitor.before_answer",
    "orchestrator.after_assess",
    "orchestrator.after_judge",
    "checkpointer.before_commit",
    "checkpointer.after_commit",
    "orchestrator.before_publish",
    "orchestrator.after_publish",
)


def _lost(effect: Effect) -> tuple[End, ...]:
    """After a claim whose outcome nobody told: a blind write is for a person to find out."""
    return ("unknown",) if effect == "blind" else ("done",)


def _either(effect: Effect) -> tuple[End, ...]:
    return EITHER if effect == "blind" else ("done",)


def _windows() -> Iterator[Cell]:
    for (window, point), effect in product(_WINDOWS.items(), EFFECTS):
        yield Cell(name=f"{window}.{effect}", point=point, effect=effect)
    for (window, point), effect in product(_AT_THE_EXECUTOR.items(), EFFECTS):
        ends: tuple[End, ...] = ("done",) if window == "A" else _lost(effect)
        name = f"{window}.{effect}.executor"
        yield Cell(name=name, point=point, effect=effect, ends=ends, place="executor")
    for effect in EFFECTS:
        name, point = f"C.{effect}.settled", "executor.after_settle"
        yield Cell(name=name, point=point, effect=effect, place="executor")
        yield Cell(
            name=f"late.{effect}",
            point="executor.after_claim",
            action="note",
            effect=effect,
            ends=_lost(effect),
            place="executor",
            has_peer=True,
            is_late=True,
        )


def _pauses() -> Iterator[Cell]:
    places = {"orchestrator": _WINDOWS, "executor": _AT_THE_EXECUTOR}
    for (place, windows), effect in product(places.items(), EFFECTS):
        for window, point in windows.items():
            side = "" if place == "orchestrator" else ".executor"
            yield Cell(
                name=f"pause.{window}.{effect}{side}",
                point=point,
                action="stop",
                effect=effect,
                ends=_either(effect),
                place=place,
                has_peer=True,
            )
    for effect in EFFECTS:
        yield Cell(
            name=f"pause.B.{effect}.daemon",
            point=_WINDOWS["B"],
            action="stop",
            effect=effect,
            ends=_either(effect),
        )


def _others() -> Iterator[Cell]:
    for name, point in _ROLES.items():
        role = name.partition(".")[0]
        effect: Effect = "blind" if role == "notifier" else "replay"
        yield Cell(name=f"role.{name}", point=point, effect=effect, place=role)
    for (
        role,
        step,
    ) in _WITH_A_PEER.items():  # how soon a peer goes on, without the time to start one
        yield Cell(name=f"peer.{role}", point=step, place=role, has_peer=True)
    for (window, point), effect in product(_WINDOWS.items(), EFFECTS):
        yield Cell(
            name=f"nats.{window}.{effect}",
            point=point,
            action="stop",
            effect=effect,
            ends=_either(effect),
            loses_server=True,
        )
    for step in _STEPS:
        yield Cell(name=f"kill.{step}", point=step)
        yield Cell(name=f"term.{step}", point=step, action="term")
    yield Cell(name="term.tool", point="executor.after_claim", action="term", is_slow=True)


CELLS: Final[tuple[Cell, ...]] = (*_windows(), *_pauses(), *_others())


def chosen(patterns: list[str]) -> list[Cell]:
    """The cells that fit one of the patterns; all where there is none."""
    if not patterns:
        return list(CELLS)
    return [cell for cell in CELLS if any(fnmatchcase(cell.name, p) for p in patterns)]
