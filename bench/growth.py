"""Does an iteration cost the same late in a long run? CPU time per iteration, by run length."""

from statistics import median

from bench.stage import Stage

LENGTHS = (10, 100, 1000)
ITERATIONS = 1000
"""Per length and round, in runs of that length, one at a time."""


async def measure(stage: Stage, length: int) -> float:
    """CPU milliseconds of this process per iteration of runs of that length."""
    spent = 0.0
    for _ in range(ITERATIONS // length):
        await stage.hold()
        run_id = await stage.create(length)
        spent += (await stage.drive([run_id])).cpu_s
    return spent * 1000 / ITERATIONS


async def growth(stage: Stage, rounds: int) -> dict[int, float]:
    """The median for each length, the lengths interleaved."""
    measured: dict[int, list[float]] = {length: [] for length in LENGTHS}
    for _ in range(rounds):
        for length in LENGTHS:
            measured[length].append(await measure(stage, length))
    return {length: median(values) for length, values in measured.items()}
