"""What the trials of a cell come to: the numbers, and whether they are right."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from statistics import quantiles
from typing import Any, Final

from tests.faults.app import SETTLE_S
from tests.faults.cells import Cell
from tests.faults.trial import Trial

STEPS: Final = 1
"""Decisions of a run that only writes; one more where it reads first."""
_SETTLED: Final = {"done": 1, "free": 0}
"""Effects of a key that whoever had been stopped settled after the end of the run."""
FAILURES: Final = ("effects_over_1", "wrong_end", "wedged", "errors")


def wrong(cell: Cell, trial: Trial) -> list[str]:
    """What is not as it must be about the end of one trial; effects over 1 are counted apart."""
    if trial.is_wedged or trial.error:
        return []
    status, reason = trial.shown["status"], trial.shown["reason"]
    found: list[str] = [*trial.problems]
    if status == "SUCCEEDED":
        if trial.effects != 1:
            found.append(f"SUCCEEDED with {trial.effects} effects")
        end = "done"
    elif (status, reason) == ("FAILED", "unknown_effect"):
        if not trial.is_flagged and trial.effects != _SETTLED.get(trial.key_state):
            found.append(f"its key is {trial.key_state}, unflagged, with {trial.effects} effects")
        end = "unknown"
    else:
        end = f"{status} {reason}"
    found += ["its fault never fired"] * (trial.fired_at is None)
    if end not in cell.ends:
        found.append(f"ended {status} {reason}, not {' or '.join(cell.ends)}")
    if cell.burns_nothing:
        found += _burnt(cell, trial)
    return found


def _burnt(cell: Cell, trial: Trial) -> Iterable[str]:
    steps = STEPS + cell.reads
    if trial.shown["step_count"] != steps:
        yield f"{trial.shown['step_count']} steps instead of {steps}"
    if any(event["kind"] == "step_lost" for event in trial.events):
        yield "a step was lost"


def summary(cell: Cell, trials: Sequence[Trial]) -> dict[str, Any]:
    """The numbers of one cell, and a line for each thing that is wrong."""
    notes = [
        f"{trial.run_id}: {text}"
        for trial in trials
        for text in [
            *wrong(cell, trial),
            *([f"{trial.effects} effects"] if trial.effects > 1 else []),
            *(["wedged"] if trial.is_wedged else []),
            *([trial.error.strip().splitlines()[-1]] if trial.error else []),
        ]
    ]
    ended = [t for t in trials if t.shown]
    return {
        "trials": len(trials),
        "fired": sum(t.fired_at is not None for t in trials),
        "succeeded": sum(t.shown["status"] == "SUCCEEDED" for t in ended),
        "effects_over_1": sum(t.effects > 1 for t in trials),
        "wrong_end": sum(bool(wrong(cell, t)) for t in trials),
        "wedged": sum(t.is_wedged for t in trials),
        "errors": sum(bool(t.error) for t in trials),
        **_quantiles("recovery", [_since(t, t.shown["updated_at"]) for t in ended]),
        **_quantiles("noticed", [_noticed(t) for t in ended]),
        **_quantiles("exit", [t.exit_s for t in trials]),
        "notes": notes,
    }


def totals(cells: Iterable[dict[str, Any]]) -> dict[str, int]:
    """The counts of all cells together."""
    names = ("trials", "fired", "succeeded", *FAILURES)
    rows = list(cells)
    return {name: sum(row[name] for row in rows) for name in names}


def is_right(row: dict[str, Any]) -> bool:
    """No failure, and the fault fired at least once."""
    return row["fired"] > 0 and not any(row[name] for name in FAILURES)


# ------------------------------------------------------------------ times
def _since(trial: Trial, at: str) -> float | None:
    """Seconds from the fault to a moment; None where nothing fired or it was before the fault."""
    if trial.fired_at is None:
        return None
    seconds = datetime.fromisoformat(at).timestamp() - trial.fired_at
    return seconds if seconds >= 0 else None


def _noticed(trial: Trial) -> float | None:
    """From the fault to the first entry after it."""
    later = [s for event in trial.events if (s := _since(trial, event["at"])) is not None]
    return min(later, default=None)


def _quantiles(name: str, measured: Iterable[float | None]) -> dict[str, float | None]:
    """The median and the 99th percentile, which is the worst where there are fewer than 100."""
    known = sorted(value for value in measured if value is not None)
    if not known:
        return {f"{name}_p50_s": None, f"{name}_p99_s": None}
    cuts = quantiles(known, n=100, method="inclusive") if len(known) > 1 else [known[0]] * 99
    return {f"{name}_p50_s": round(cuts[49], 3), f"{name}_p99_s": round(cuts[98], 3)}


def as_text(cells: dict[str, dict[str, Any]]) -> str:
    """The cells as a table, for people."""
    names = ("trials", "fired", "succeeded", *FAILURES, "noticed_p99_s", "recovery_p50_s")
    names = (*names, "recovery_p99_s")
    lines = [f"{'cell':<36}" + "".join(f"{name:>16}" for name in names)]
    for cell, row in cells.items():
        lines.append(f"{cell:<36}" + "".join(f"{row[name]!s:>16}" for name in names))
        lines += [f"    {name}: {figure}" for name, figure in row.get("figures", {}).items()]
        lines += [f"    {note}" for note in row["notes"]]
    return "\n".join([*lines, f"W is {SETTLE_S:g} s"])
