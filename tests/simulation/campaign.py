"""Many seeds: the clean code over all of them, some of them twice, and every planted defect."""

import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.plants import PLANTS
from tests.simulation.plants.plant import Plant
from tests.simulation.play import Played
from tests.simulation.pool import Pool
from tests.simulation.worker import Batch, Done

BATCH = 50
AGAIN_EVERY = 20
"""Every so many batches one is played twice, by processes with different hash seeds."""
PLANT_SEEDS = 1_200
"""A plant is looked for in its first so many seeds at most."""
COST_SEEDS = 100
COST_RATIO = 1.5
MIX_SEEDS = 20
"""Of every mix the clean code is played so often, to show that the mix is not the finding."""


@dataclass
class Campaign:
    """What came of it all so far."""

    seeds: int = 0
    steps: int = 0
    cpu_s: float = 0.0
    mismatches: int = 0
    again: int = 0
    bad: list[Played] = field(default_factory=list)
    bad_mixes: list[tuple[str, Played]] = field(default_factory=list)
    planted: dict[str, float] = field(default_factory=dict)
    costs: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, done: Done) -> None:
        """A batch of the clean code."""
        self.seeds += len(done.played)
        self.steps += sum(one.steps for one in done.played)
        self.cpu_s += done.cpu_s
        self.bad += [one for one in done.played if one.violations]
        for one in done.played:
            for name, count in one.counts.items():
                self.counts[name] = self.counts.get(name, 0) + count

    def report(self) -> dict[str, Any]:
        """As ``-o json`` prints it."""
        return {
            "v": 1,
            "seeds": self.seeds,
            "violations": len(self.bad) + len(self.bad_mixes),
            "schedules_per_cpu_minute": round(self.seeds / self.cpu_s * 60, 1) if self.cpu_s else 0,
            "events_per_second": round(self.steps / self.cpu_s, 1) if self.cpu_s else 0,
            "planted": self.planted,
            "planted_cost_ratios": self.costs,
            "planted_found": sum(rate > 0 for rate in self.planted.values()),
            "planted_total": len(self.planted),
            "determinism_mismatches": self.mismatches,
            "played_twice": self.again,
            "counts": dict(sorted(self.counts.items())),
        }


def run(seeds: int, first: int, plants: Iterable[str], mix: str = "") -> Campaign:
    """The whole of it.

    Args:
        seeds: How many.
        first: The first one.
        plants: Names; each is played over seeds 0, 1, 2, …
        mix: A plant whose workload and faults the clean code is given; empty: the usual ones.
    """
    campaign = Campaign()
    with Pool() as pool:
        batches = [
            Batch(first=start, count=min(BATCH, first + seeds - start), mix=mix)
            for start in range(first, first + seeds, BATCH)
        ]
        for number, (_, done) in enumerate(pool.play(batches), 1):
            campaign.add(done)
            for bad in (one for one in done.played if one.violations):
                _tell(bad, mix=mix)
            if number % 20 == 0:
                _say(f"{campaign.seeds} seeds, {len(campaign.bad)} with violations")
        for batch in batches[::AGAIN_EVERY]:
            one, other = pool.twice(batch)
            campaign.again += len(one.played)
            pairs = zip(one.played, other.played, strict=True)
            campaign.mismatches += sum(a.digest != b.digest for a, b in pairs)
        for name in plants:
            campaign.planted[name] = _look_for(PLANTS[name], pool, campaign, seeds)
            _say(f"planted {name!r}: {campaign.planted[name]}")
    return campaign


def _look_for(plant: Plant, pool: Pool, campaign: Campaign, seeds: int) -> float:
    """The share of schedules that show a defect, until one did; 0: it was not found."""
    if plant.counter:
        ratio = campaign.costs[plant.name] = _cost_ratio(plant, pool)
        return float(ratio >= COST_RATIO)
    clean = Batch(first=0, count=min(MIX_SEEDS, seeds), mix=plant.name)
    [(_, done)] = pool.play([clean])
    _add_mix(plant, campaign, done)
    most = min(PLANT_SEEDS, seeds)
    played = broken = 0
    found: list[int] = []
    while played < most and not broken:
        size = BATCH * pool.size
        starts = range(played, min(played + size, most), BATCH)
        batches = [
            Batch(first=start, count=BATCH, mix=plant.name, plant=plant.name, stops_early=True)
            for start in starts
        ]
        for _, done in pool.play(batches):
            played += len(done.played)
            shown = [one.seed for one in done.played if plant.is_shown(one.violations)]
            broken += len(shown)
            found += shown
    clean = [Batch(first=seed, count=1, mix=plant.name) for seed in found]
    for _, done in pool.play(clean):
        _add_mix(plant, campaign, done)
    return round(broken / played, 4)


def _add_mix(plant: Plant, campaign: Campaign, done: Done) -> None:
    """The clean code under a plant's mix: whatever it breaks is not the plant's."""
    for bad in (one for one in done.played if one.violations):
        campaign.bad_mixes.append((plant.name, bad))
        _tell(bad, mix=plant.name)


def _cost_ratio(plant: Plant, pool: Pool) -> float:
    """How many times what the clean code costs it costs."""
    batches = [
        Batch(first=start, count=BATCH, mix=plant.name, plant=planted)
        for planted in ("", plant.name)
        for start in range(0, COST_SEEDS, BATCH)
    ]
    cost = {"": 0, plant.name: 0}
    for batch, done in pool.play(batches):
        cost[batch.plant] += sum(one.counts.get(plant.counter, 0) for one in done.played)
    return round(cost[plant.name] / max(cost[""], 1), 2)


def _tell(bad: Played, *, mix: str = "") -> None:
    """A failure, and how to see it again."""
    _say(f"seed {bad.seed}: {'; '.join(bad.violations[:5])}")
    for line in bad.last:
        _say(f"    {line}")
    more = f" --mix {shlex.quote(mix)}" if mix else ""
    _say(f"again: python -m tests.simulation --from {bad.seed} --seeds 1 --no-plants{more}")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
