"""What a planted defect is, and how it is put in and taken out again."""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulation.options import Job, Kind, Level, Options, options_of

Break = Callable[["Patch"], None]


class Patch:
    """Replaces parts of modules and classes until it is undone."""

    def __init__(self) -> None:
        self._old: list[tuple[Any, str, Any]] = []

    def put(self, owner: Any, name: str, new: Any) -> Any:
        """Put something else in the place of an attribute; gives what was there."""
        old = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
        self._old.append((owner, name, old))
        setattr(owner, name, new)
        return old

    def undo(self) -> None:
        """Everything as it was."""
        while self._old:
            owner, name, old = self._old.pop()
            setattr(owner, name, old)


@dataclass(frozen=True, kw_only=True)
class Mix:
    """A workload and faults of a plant's own, over the usual ones of each seed.

    Attributes:
        kinds: What the runs do; empty: as the seed says.
        faults: Instead of the seed's.
        job: Fields of every job.
        layouts: One of these instead of the seed's.
        has_rogue: There is one.
    """

    kinds: tuple[Kind, ...] = ()
    faults: dict[str, Level] = field(default_factory=dict)
    job: dict[str, Any] = field(default_factory=dict)
    layouts: tuple[str, ...] = ()
    has_rogue: bool = False

    def options(self, seed: int) -> Options:
        """What this seed means here."""
        usual = options_of(seed)
        jobs = tuple(self._job(job, seed + index) for index, job in enumerate(usual.jobs))
        return replace(
            usual,
            jobs=jobs,
            faults={**usual.faults, **self.faults},
            layout=self.layouts[seed % len(self.layouts)] if self.layouts else usual.layout,
            has_rogue=usual.has_rogue or self.has_rogue,
        )

    def _job(self, job: Job, index: int) -> Job:
        kind = self.kinds[index % len(self.kinds)] if self.kinds else job.kind
        return replace(job, kind=kind, **self.job)


USUAL = Mix()


@dataclass(frozen=True, kw_only=True)
class Plant:
    """One defect.

    Attributes:
        name: Short.
        without: The rule that is missing.
        breaks: Takes it out.
        shows: Kinds of violations that count as finding it; others may be of its making only.
        mix: Where it shows.
        counter: What it costs, where it breaks no promise: found if that is 1.5 times as much as in
            the clean run of the same mix and seeds.
    """

    name: str
    without: str
    breaks: Break
    shows: tuple[str, ...] = ()
    mix: Mix = USUAL
    counter: str = ""

    def is_shown(self, violations: Iterable[str]) -> bool:
        """Whether one of them is what this defect does."""
        return any(violation.partition(":")[0] in self.shows for violation in violations)

    @contextmanager
    def planted(self) -> Generator[None]:
        """The defect is there, while entered."""
        patch = Patch()
        self.breaks(patch)
        try:
            yield
        finally:
            patch.undo()
