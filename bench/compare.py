"""Which of several checkouts is faster, and by how much, on a machine that is never quiet.

``python -m bench.compare OTHER [OTHER …]`` starts one serving process per checkout (this one is the
last), lets them drive runs turn about, and prints for each the median of its ratios to the first:
two measurements a second apart see the same noise, whose drift a mean would not survive.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

import anyio
import anyio.to_thread

from bench.stage import Spent, serving

ITERATIONS = 10
WARM_UP = 2
"""Rounds that are not counted."""


async def serve(concurrent: int) -> None:
    """Drive so many runs each time a line comes, and say what it took; ends with the input."""
    with tempfile.TemporaryDirectory() as name:
        async with serving(Path(name)) as stage:
            print("ready", flush=True)
            while (await anyio.to_thread.run_sync(sys.stdin.readline)).strip():
                await stage.hold()
                spent = await stage.drive(
                    [await stage.create(ITERATIONS) for _ in range(concurrent)]
                )
                print(spent.wall_s, spent.cpu_s, flush=True)


class Contender:
    """A checkout that serves in a process of its own."""

    def __init__(self, checkout: Path, concurrent: int) -> None:
        self.checkout = checkout
        self.spent: list[Spent] = []
        self._process = subprocess.Popen(  # noqa: S603 -- this very file
            [sys.executable, __file__, "--serve", "--runs", str(concurrent)],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self._line() != "ready\n":
            raise SystemExit(f"{checkout} does not serve")

    def _line(self) -> str:
        return self._process.stdout.readline() if self._process.stdout else ""

    def _say(self, line: str) -> None:
        if self._process.stdin:
            _ = self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def drive(self) -> None:
        """One measurement."""
        self._say("go")
        spent = self._line().split()
        if not spent:
            raise SystemExit(f"{self.checkout} ended; its error stands above")
        self.spent.append(Spent(float(spent[0]), float(spent[1])))

    def leave(self) -> None:
        """End the process."""
        with suppress(BrokenPipeError):
            self._say("")
        _ = self._process.wait(timeout=30)


def compare(checkouts: Sequence[Path], concurrent: int, rounds: int) -> None:
    """Measure turn about, forwards and backwards, and print a line for each."""
    contenders = [Contender(checkout, concurrent) for checkout in checkouts]
    try:
        for number in range(rounds + WARM_UP):
            for contender in contenders if number % 2 else reversed(contenders):
                contender.drive()
    finally:
        for contender in contenders:
            contender.leave()
    first, total = contenders[0].spent[WARM_UP:], concurrent * ITERATIONS
    for contender in contenders:
        mine = contender.spent[WARM_UP:]
        speed = median(a.wall_s / b.wall_s for a, b in zip(first, mine, strict=True))
        cpu = median(b.cpu_s / a.cpu_s for a, b in zip(first, mine, strict=True))
        per_s = total / median(spent.wall_s for spent in mine)
        print(f"{speed:.3f} times as fast, CPU {cpu:.3f}, {per_s:.0f}/s  {contender.checkout}")


def main() -> None:
    """Compare, or serve for a comparison."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare")
    _ = parser.add_argument("others", nargs="*", type=Path)
    _ = parser.add_argument("--runs", type=int, default=32)
    _ = parser.add_argument("--rounds", type=int, default=25)
    _ = parser.add_argument("--serve", action="store_true")
    chosen = parser.parse_args()
    if chosen.serve:
        anyio.run(serve, chosen.runs)
    else:
        compare([*chosen.others, Path(__file__).parent.parent], chosen.runs, chosen.rounds)


if __name__ == "__main__":
    main()
