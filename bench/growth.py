"""Does an iteration cost the same late in a long run? CPU time per iteration, by run length.

``python -m bench.growth`` prints one JSON object. Rounds are interleaved and medians reported,
since one machine's minutes differ; ratios within a run of this program are what counts.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import anyio

from bench.stage import Stage, serving

LENGTHS = (10, 50, 200)
ITERATIONS = 400
"""Per length and round, in runs of that length."""
ROUNDS = 5


async def measure(stage: Stage, length: int) -> float:
    """CPU milliseconds of this process per iteration of runs of that length."""
    spent = 0.0
    for _ in range(ITERATIONS // length):
        await stage.hold()
        run_id = await stage.create(length)
        started = time.process_time()
        await stage.drive([run_id])
        spent += time.process_time() - started
    return spent * 1000 / ITERATIONS


async def main() -> None:
    """Measure and print."""
    rounds: dict[int, list[float]] = {length: [] for length in LENGTHS}
    with tempfile.TemporaryDirectory() as folder:
        async with serving(Path(folder)) as stage:
            _ = await measure(stage, LENGTHS[0])  # warm up
            for _ in range(ROUNDS):
                for length in LENGTHS:
                    rounds[length].append(await measure(stage, length))
    medians = {length: statistics.median(values) for length, values in rounds.items()}
    report = {
        "cpu_ms_per_iteration": {str(length): round(ms, 3) for length, ms in medians.items()},
        "growth_200_over_10": round(medians[200] / medians[10], 3),
        "rounds": ROUNDS,
    }
    _ = sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    anyio.run(main)
