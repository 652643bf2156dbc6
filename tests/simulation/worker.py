"""One worker process: plays the seeds it is sent, a line of JSON in and a line out."""

import gc
import sys
import time
from contextlib import nullcontext

import msgspec

from tests.simulation.machine import say_nothing
from tests.simulation.plants import PLANTS
from tests.simulation.plants.plant import USUAL, Mix
from tests.simulation.play import Played, play


class Batch(msgspec.Struct, kw_only=True):
    """What to play.

    Attributes:
        plant: The defect to plant; empty: none.
        mix: The plant whose workload and faults to use; empty: the usual ones.
        stops_early: The first violation is enough.
    """

    first: int
    count: int
    plant: str = ""
    mix: str = ""
    stops_early: bool = False


class Done(msgspec.Struct, kw_only=True):
    """What came of it; ``played`` holds the seeds in order."""

    played: list[Played]
    cpu_s: float


def perform(batch: Batch) -> Done:
    """Play a batch in this process."""
    mix = PLANTS[batch.mix].mix if batch.mix else USUAL
    planted = PLANTS[batch.plant].planted() if batch.plant else nullcontext()
    started = time.process_time()
    with planted:
        played = list(_play(batch, mix))
    return Done(played=played, cpu_s=time.process_time() - started)


def _play(batch: Batch, mix: Mix) -> "list[Played]":
    done: list[Played] = []
    for seed in range(batch.first, batch.first + batch.count):
        done.append(play(seed, mix))
        if batch.stops_early and done[-1].violations:
            break
    gc.collect()
    return done


def main() -> None:
    """Until there are no more batches."""
    sys.unraisablehook = say_nothing
    gc.collect()
    gc.freeze()  # what was imported is not looked through again after every schedule
    for line in sys.stdin:
        batch = msgspec.json.decode(line, type=Batch)
        sys.stdout.write(msgspec.json.encode(perform(batch)).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
