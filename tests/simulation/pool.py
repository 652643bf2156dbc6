"""Worker processes, one per core, each with a hash seed of its own."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from queue import SimpleQueue
from typing import Self

import msgspec

from tests.simulation.worker import Batch, Done


class Pool:
    """Plays batches side by side; entered while it is used."""

    def __init__(self, size: int | None = None) -> None:
        self.size = size or os.cpu_count() or 1
        self._all: list[subprocess.Popen[str]] = []
        self._free: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()

    def __enter__(self) -> Self:
        for number in range(self.size):
            worker = subprocess.Popen(
                [sys.executable, "-m", "tests.simulation.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONHASHSEED": str(number + 1)},
            )
            self._all.append(worker)
            self._free.put(worker)
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._all:
            worker.kill()
            worker.wait()
            for pipe in (worker.stdin, worker.stdout):
                if pipe is not None:
                    pipe.close()

    def play(self, batches: Iterable[Batch]) -> Iterator[tuple[Batch, Done]]:
        """The batches as they are done, in any order."""
        with ThreadPoolExecutor(self.size) as threads:
            waiting = {threads.submit(self._one, batch): batch for batch in batches}
            for ended in as_completed(waiting):
                yield waiting[ended], ended.result()

    def twice(self, batch: Batch) -> list[Done]:
        """The same batch in two different processes."""
        with ThreadPoolExecutor(2) as threads:
            return list(threads.map(partial(_ask, batch=batch), self._all[:2]))

    def _one(self, batch: Batch) -> Done:
        worker = self._free.get()
        try:
            return _ask(worker, batch)
        finally:
            self._free.put(worker)


def _ask(worker: "subprocess.Popen[str]", batch: Batch) -> Done:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(msgspec.json.encode(batch).decode() + "\n")
    worker.stdin.flush()
    line = worker.stdout.readline()
    if not line:
        message = f"a worker ended while it played {batch}"
        raise RuntimeError(message)
    return msgspec.json.decode(line, type=Done)
