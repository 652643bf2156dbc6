"""What the rounds of a campaign come to: one row of the report."""

from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

NONE_YET: Final = ("noticed_p50_s", "noticed_p99_s", "recovery_p50_s", "recovery_p99_s")


@dataclass
class Tally:
    """Counts over all rounds.

    Attributes:
        trials: Rounds.
        fired: Rounds whose fault really hit something.
        succeeded: Rounds in which something was achieved all the same.
        wedged: Runs that had not ended when a round was given up.
        figures: What else was counted, by name.
        times: Seconds that were measured, by name; each becomes its median and its worst.
        limits: What was promised of them.
        beside: What the report shows beside the figures.
    """

    trials: int = 0
    fired: int = 0
    succeeded: int = 0
    effects_over_1: int = 0
    wrong_end: int = 0
    wedged: int = 0
    errors: int = 0
    notes: list[str] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)
    times: dict[str, list[float]] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    beside: dict[str, Any] = field(default_factory=dict)

    def count(self, **figures: int) -> None:
        """Add to the figures."""
        for name, number in figures.items():
            self.figures[name] = self.figures.get(name, 0) + number

    def wrong(self, text: str) -> None:
        """Something is not as was promised."""
        self.wrong_end += 1
        self.notes.append(text)

    def took(self, name: str, seconds: float) -> None:
        """One measured time."""
        self.times.setdefault(name, []).append(seconds)

    def promise(self, name: str, limit_s: float) -> None:
        """Every time of that name must be within the limit, and there must be some."""
        self.limits[name] = limit_s

    def _late(self) -> list[str]:
        found: list[str] = []
        for name, limit_s in self.limits.items():
            measured = self.times.get(name, [])
            late = [seconds for seconds in measured if seconds > limit_s]
            if late or not measured:
                worst = max(late, default=0.0)
                text = f"{len(late)} of {len(measured)} over {limit_s:g} s, at worst {worst:.2f}"
                found.append(f"{name}: {text}")
        return found

    def row(self) -> dict[str, Any]:
        """As the report prints it."""
        late = self._late()
        figures: dict[str, Any] = {**self.figures}
        for name, seconds in self.times.items():
            figures[f"{name}_n"] = len(seconds)
            figures[f"{name}_p50_s"] = round(median(seconds), 3)
            figures[f"{name}_max_s"] = round(max(seconds), 3)
        figures |= self.beside
        return {
            "trials": self.trials,
            "fired": self.fired,
            "succeeded": self.succeeded,
            "effects_over_1": self.effects_over_1,
            "wrong_end": self.wrong_end + len(late),
            "wedged": self.wedged,
            "errors": self.errors,
            **dict.fromkeys(NONE_YET),
            "figures": figures,
            "notes": [*self.notes, *late],
        }
