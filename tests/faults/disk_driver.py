"""What is killed at each disk call: a ledger file from its making to its orderly close.

Run as ``python -m tests.faults.disk_driver FILE``. Prints ``RUN VERSION HASH`` of an append once it
is answered. Both runs are appended to in one commit, so afterwards both stand at the same version.
"""

import sys
import time
from pathlib import Path
from typing import Final

from messages.events import Resumed
from messages.ledger import Append, Committed, Summary, Take, Taken
from messages.status import Status
from runtime.ledger.sqlite_store import SqliteStore
from tests.contract.ledger_kit import TENANT, born, is_a

RUNS: Final = ("r0", "r1")
COMMITS: Final = 4


def main(path: Path) -> None:
    """Make the file, commit a few times, close."""
    store = SqliteStore.open(path, time.time)
    store.commit([born(run) for run in RUNS])
    heads: dict[str, tuple[int, str]] = {}
    for run in RUNS:
        take = Take(tenant=TENANT, run_id=run, process="p", take_id="t")
        taken = is_a(store.commit([take])[0], Taken)
        heads[run] = (taken.version, taken.head_hash)
    for number in range(COMMITS):
        answers = store.commit([_append(run, number, *heads[run]) for run in RUNS])
        for run, answer in zip(RUNS, answers, strict=True):
            committed = is_a(answer, Committed)
            heads[run] = (committed.version, committed.hash)
            print(run, committed.version, committed.hash, flush=True)  # noqa: T201 -- its answer
    store.close()


def _append(run: str, number: int, version: int, head: str) -> Append:
    return Append(
        tenant=TENANT,
        run_id=run,
        version=version + 1,
        append_id=f"a{number}",
        prev_hash=head,
        process="p",
        take_id="t",
        active_s=0.0,
        events=(Resumed(why="x" * 2000),),
        summary=Summary(agent="a", status=Status.RUNNING),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
