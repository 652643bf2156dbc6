"""How fast runs go, beside what the machine allows at that very moment.

``python -m bench.loop -o json`` prints one JSON object. The product (every role, an instant
scripted model, one read tool, a durable journal) drives 1, 32 and 256 runs at a time that were
accepted before; in the same round come the two floors of ``bench.floor`` with as many runs. Five
rounds; a figure is its median, and a ratio is the median of the rounds' ratios: one machine's
minutes differ by more than what is measured, neighbours in time do not.

A run is ten iterations and a final decision, which is not counted.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from subprocess import PIPE
from typing import Any, NamedTuple

import anyio

from bench.floor import Floors, Run, floors, together
from bench.growth import growth
from bench.intake import intake
from bench.stage import Spent, Stage, Stopwatch, serving
from messages.subjects import ROLES
from runtime.bus.permissions import DAEMON

ROUNDS = 5
ITERATIONS = 10
REPEATS = {1: 5, 32: 1, 256: 1}
"""Runs at a time, and how often in a round."""

Report = dict[str, Any]


class Pace(NamedTuple):
    """Iterations per second, and what one costs this process."""

    per_s: float
    cpu_ms: float


class Round(NamedTuple):
    """The product and both floors, measured one after the other."""

    loop: Pace
    bare: Pace
    product: Pace


def pace_of(spent: Sequence[Spent], iterations: int) -> Pace:
    """Of several measurements of so many iterations in all."""
    wall_s, cpu_s = sum(s.wall_s for s in spent), sum(s.cpu_s for s in spent)
    return Pace(iterations / wall_s, cpu_s * 1000 / iterations)


async def one_round(stage: Stage, floor: Floors, concurrent: int, repeats: int) -> Round:
    """Both floors and the product with so many runs at a time."""
    bare: list[Spent] = []
    product: list[Spent] = []
    loop: list[Spent] = []
    for _ in range(repeats):
        run_ids = [floor.new_run() for _ in range(concurrent)]
        bare.append(await _timed(floor.bare, run_ids))
        for run_id in run_ids:
            await floor.begin(run_id)
        product.append(await _timed(floor.product, run_ids))
        await stage.hold()
        loop.append(await stage.drive([await stage.create(ITERATIONS) for _ in run_ids]))
    total = concurrent * ITERATIONS * repeats
    return Round(pace_of(loop, total), pace_of(bare, total), pace_of(product, total))


async def _timed(run: Run, run_ids: list[str]) -> Spent:
    watch = Stopwatch()
    await together(run, run_ids, ITERATIONS)
    return watch.read()


def summary_of(rounds: list[Round]) -> Report:
    """Medians; ratios are medians of each round's own."""
    return {
        "iterations_per_s": round(median(r.loop.per_s for r in rounds), 1),
        "bare_floor": round(median(r.bare.per_s for r in rounds), 1),
        "product_floor": round(median(r.product.per_s for r in rounds), 1),
        "ratio_bare": round(median(r.loop.per_s / r.bare.per_s for r in rounds), 3),
        "ratio_product": round(median(r.loop.per_s / r.product.per_s for r in rounds), 3),
        "cpu_ms": {
            "iteration": round(median(r.loop.cpu_ms for r in rounds), 3),
            "bare_floor": round(median(r.bare.cpu_ms for r in rounds), 3),
            "product_floor": round(median(r.product.cpu_ms for r in rounds), 3),
        },
    }


async def measure(stage: Stage, folder: Path, rounds: int, loads: dict[int, int]) -> Report:
    """Every load, interleaved round by round."""
    await stage.hold()
    first = await stage.create(ITERATIONS)
    _ = await stage.drive([first])  # warm up, and what an iteration writes
    measured: dict[int, list[Round]] = {concurrent: [] for concurrent in loads}
    async with floors(folder, stage.url, stage.users[DAEMON], await stage.journal(first)) as floor:
        for _ in range(rounds):
            for concurrent, repeats in loads.items():
                measured[concurrent].append(await one_round(stage, floor, concurrent, repeats))
    return {f"c{concurrent}": summary_of(found) for concurrent, found in measured.items()}


@asynccontextmanager
async def apart(folder: Path) -> AsyncGenerator[Stage]:
    """The orchestrator in a second process, every other role in this one."""
    here = tuple(role for role in ROLES if role != "orchestrator")
    async with serving(folder, here) as stage:
        command = [sys.executable, "-m", "bench.other"]
        async with await anyio.open_process(command, stdin=PIPE, stdout=PIPE, stderr=None) as other:
            if other.stdin is None or other.stdout is None:
                raise AssertionError("its pipes were asked for")
            user = stage.users[DAEMON]
            where = {
                "url": stage.url,
                "user": user.user,
                "password": user.password,
                "inbox_prefix": user.inbox_prefix,
            }
            await other.stdin.send(json.dumps(where).encode() + b"\n")
            _ = await other.stdout.receive()
            yield stage
            await other.stdin.aclose()
            _ = await other.wait()


async def report(rounds: int = ROUNDS) -> Report:
    """Everything that is measured."""
    found: Report = {"rounds": rounds}
    with tempfile.TemporaryDirectory() as name:
        async with serving(Path(name)) as stage:
            found |= await measure(stage, Path(name), rounds, REPEATS)
            by_length = await growth(stage, rounds)
            found["intake"] = await intake(stage, rounds)
    found["growth_1000_over_10"] = round(by_length[1000] / by_length[10], 3)
    found["cpu_ms_by_length"] = {str(n): round(ms, 3) for n, ms in by_length.items()}
    with tempfile.TemporaryDirectory() as name:
        async with apart(Path(name)) as stage:
            found["two_processes"] = await measure(stage, Path(name), rounds, {1: 5, 32: 1})
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.loop")
    _ = parser.add_argument("-o", "--output", choices=("json",), default="json")
    _ = parser.add_argument("--rounds", type=int, default=ROUNDS)
    chosen = parser.parse_args()
    print(json.dumps(anyio.run(report, chosen.rounds)))


if __name__ == "__main__":
    main()
