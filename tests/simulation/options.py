"""What one seed means: who is there, what they want, and what goes wrong how often.

Every part of the world draws from a generator of its own, so that a change in one does not shuffle
the others. Each kind of fault is off, low or high.
"""

import random
from dataclasses import dataclass, field
from typing import Literal, get_args

from messages.subjects import ROLES

Level = Literal[0, 1, 2]
FAULTS = (
    "loss",
    "repeat",
    "slow",
    "hints",
    "kill",
    "freeze",
    "drain",
    "disk",
    "skew",
    "provider",
    "downstream",
    "broker",
)
"""Lost, repeated and slow messages; lost hints; killed, frozen and drained processes; a disk that
refuses; clocks that differ and jump; a failing provider; a downstream that fails, is late or loses
its replies; a broker that goes away and may lose what it kept."""

TIMEOUT_S = 2.0
LATE_S = 1.5
"""Of every write: its deadline, and how long its downstream may still commit."""

HEAL_S = 12.0
"""Nothing goes wrong any more from here on."""
END_S = HEAL_S + 75.0
"""W, and a minute (G8)."""

Kind = Literal[
    "pay",
    "book",
    "gift",
    "note",
    "parallel",
    "shared",
    "approved",
    "poor",
    "thrifty",
    "ask",
    "long",
    "once",
    "deadly",
    "mute",
]
KINDS: tuple[Kind, ...] = get_args(Kind)[:-3]
"""A write that may be replayed, one that may be looked up, a blind one, one whose every call is an
effect of its own, two at once, one that two runs want, one that a person must allow, one with
hardly any steps, one with few tokens, one that ends with a question, and one that outgrows its
window.

Not drawn, for mixes of plants: one with a single step, one that kills whoever drives it, and one
whose tool never answers.
"""

LAYOUTS: dict[str, tuple[tuple[str, str], ...]] = {
    "one": (("all", "*"),),
    "two": (("all", "*"), ("more", "orchestrator planner executor validator monitor")),
    "split": (
        ("base", "gateway checkpointer authoriser validator monitor notifier"),
        ("drive1", "orchestrator planner"),
        ("drive2", "orchestrator planner"),
        ("tools1", "executor"),
        ("tools2", "executor"),
    ),
    "apart": (
        ("door", "gateway notifier"),
        ("book1", "checkpointer"),
        ("book2", "checkpointer"),
        ("law", "authoriser validator monitor"),
        ("drive1", "orchestrator"),
        ("drive2", "orchestrator"),
        ("drive3", "orchestrator"),
        ("think", "planner"),
        ("tools1", "executor"),
        ("tools2", "executor"),
    ),
}
"""Processes and the roles of each."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run that somebody wants.

    Attributes:
        name: Its id, and its goal.
        kind: What it does.
        at_s: When it is submitted.
        is_direct: Over the API instead of the task stream.
        copies: How often the same task is sent.
        cancel_s, pause_s: When somebody does that to it; 0: nobody.
        refuses: The person who is asked says no.
        ignores: Nobody answers, and the approval expires.
        dawdles: Whoever answers does so when it is about to expire.
    """

    name: str
    kind: Kind
    at_s: float
    is_direct: bool
    copies: int = 1
    cancel_s: float = 0.0
    pause_s: float = 0.0
    refuses: bool = False
    ignores: bool = False
    dawdles: bool = False


@dataclass(frozen=True, kw_only=True)
class Options:
    """One schedule."""

    seed: int
    layout: str
    jobs: tuple[Job, ...]
    faults: dict[str, Level] = field(default_factory=dict)
    has_rogue: bool = False
    """Somebody on the bus sends forged and stale grants to the executors."""

    def chance(self, part: str) -> random.Random:
        """The generator of one part of the world."""
        return random.Random(f"{self.seed}.{part}")

    def level(self, fault: str) -> Level:
        """How often that goes wrong."""
        return self.faults.get(fault, 0)


def options_of(seed: int) -> Options:
    """What this seed means."""
    draw = random.Random(f"{seed}.options")
    faults: dict[str, Level] = {name: draw.choice((0, 0, 1, 2)) for name in FAULTS}
    jobs: list[Job] = []
    for index in range(draw.choice((1, 2, 2, 3))):
        jobs += _jobs(draw, index)
    return Options(
        seed=seed,
        layout=draw.choices(tuple(LAYOUTS), (3, 3, 3, 2))[0],
        jobs=tuple(jobs),
        faults=faults,
        has_rogue=draw.random() < 0.15,
    )


def _jobs(draw: random.Random, index: int) -> list[Job]:
    kind = draw.choice(KINDS)
    made = _job(draw, f"r{index}", kind)
    return [made, _job(draw, f"r{index}b", kind)] if kind == "shared" else [made]


def _job(draw: random.Random, name: str, kind: Kind) -> Job:
    whim = draw.random()
    return Job(
        name=name,
        kind=kind,
        at_s=round(draw.uniform(0.0, 2.0), 3),
        is_direct=draw.random() < 0.5,
        copies=draw.choice((1, 1, 2)),
        cancel_s=round(draw.uniform(0.5, 8.0), 3) if whim < 0.15 else 0.0,
        pause_s=round(draw.uniform(0.5, 8.0), 3) if 0.15 <= whim < 0.25 else 0.0,
        refuses=draw.random() < 0.1,
        ignores=draw.random() < 0.1,
        dawdles=draw.random() < 0.1,
    )


def roles_of(layout: str, process: str) -> tuple[str, ...]:
    """What a process of that layout serves."""
    roles = dict(LAYOUTS[layout])[process]
    return ROLES if roles == "*" else tuple(roles.split())
