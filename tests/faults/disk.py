"""Every disk call of a ledger file is where the process dies once: nothing acknowledged is lost.

strace counts the calls of ``disk_driver`` on the file, then kills it before each of them in turn.
Afterwards the file opens, each acknowledged entry is there with its hash, the chains hold, and both
runs of a commit stand at the same version: the old one or the new one.
"""

import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio

from messages.errors import TreadleError
from messages.ledger import Load, Loaded, Missing
from runtime.clock import MachineClock
from runtime.ledger.port import Ledger
from runtime.ledger.sqlite import SqliteLedger
from tests.contract.ledger_kit import TENANT, is_a
from tests.contract.test_ledger_crash import ACKNOWLEDGED, whole_journal
from tests.faults.disk_driver import RUNS

NAME: Final = "disk"
_ROOT: Final = Path(__file__).parents[2]
_CALLS: Final = ("pwrite64", "write", "fsync", "fdatasync", "ftruncate", "unlink", "fallocate")
_FILES: Final = ("ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db-journal")
_TRACED: Final = re.compile(rf"^\d+ +({'|'.join(_CALLS)})\(", re.MULTILINE)
_DEADLINE_S: Final = 60.0

Row = dict[str, Any]


def is_chosen(patterns: list[str]) -> bool:
    """Whether the disk is among what was asked for."""
    return not patterns or any(fnmatchcase(NAME, pattern) for pattern in patterns)


def crash_points(folder: Path) -> Row:
    """Die at each disk call; ``skipped`` says why nothing was done, where nothing was."""
    row: Row = {"points": 0, "fired": 0, "calls": {}, "skipped": "", "notes": []}
    if shutil.which("strace") is None:
        return row | {"skipped": "strace is not installed"}
    place = folder / NAME
    place.mkdir()
    code, heard, trace = _traced(place / "all", "")
    calls = Counter(_TRACED.findall(trace))
    if not calls:
        return row | {"skipped": "strace cannot trace here", "notes": [heard.decode()[-400:]]}
    points = [(call, nth) for call, count in calls.items() for nth in range(1, count + 1)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(partial(_die, place), points))
    return row | {
        "points": len(points),
        "fired": sum(is_dead for is_dead, _ in found),
        "calls": dict(calls),
        "notes": [
            *([f"undisturbed, it ended with {code}"] if code else []),
            *(note for _, note in found if note),
        ],
    }


def is_right(row: Row) -> bool:
    """Skipped aloud, or every point was died at and nothing was found wrong."""
    is_whole = row["points"] > 0 and row["fired"] == row["points"] and not row["notes"]
    return bool(row["skipped"]) or is_whole


def as_text(row: Row) -> str:
    """The row, for people."""
    told = row["skipped"] or f"{row['points']} crash points, {row['fired']} died at, {row['calls']}"
    return "\n".join([f"{NAME}: {told}", *(f"    {note}" for note in row["notes"])])


def _die(place: Path, point: tuple[str, int]) -> tuple[bool, str]:
    """Whether it died at the n-th of these calls, and what is wrong since then."""
    call, nth = point
    folder = place / f"{call}-{nth}"
    code, heard, _ = _traced(folder, f"inject={call}:signal=KILL:when={nth}")
    said = {
        run.decode(): (int(version), entry_hash.decode())
        for run, version, entry_hash in ACKNOWLEDGED.findall(heard)
    }
    try:
        problem = anyio.run(_survived, folder / _FILES[0], said)
    except (TreadleError, AssertionError) as error:
        problem = f"{type(error).__name__}: {error}"
    is_dead = code in {-signal.SIGKILL, 128 + signal.SIGKILL}
    return is_dead, f"killed at {call} {nth}: {problem}" if problem else ""


def _traced(folder: Path, inject: str) -> tuple[int, bytes, str]:
    """Run the driver: its exit code, what it said, and its calls on the file."""
    folder.mkdir()
    trace = folder / "trace"
    paths = [part for name in _FILES for part in ("-P", str(folder / name))]
    command = [
        *("strace", "-f", "-qq", "-o", str(trace), *paths, "-e", f"trace={','.join(_CALLS)}"),
        *(("-e", inject) if inject else ()),
        *(sys.executable, "-m", "tests.faults.disk_driver", str(folder / _FILES[0])),
    ]
    done = subprocess.run(  # noqa: PLW1510 -- that it dies is the point
        command, cwd=_ROOT, capture_output=True, timeout=_DEADLINE_S
    )
    text = trace.read_text() if trace.exists() else ""
    return done.returncode, done.stdout or done.stderr, text


async def _survived(path: Path, said: dict[str, tuple[int, str]]) -> str:
    """What is wrong with the file that is left."""
    if not await anyio.Path(path).exists():
        return "" if not said else "the file is gone"
    ledger = await SqliteLedger.open(path, MachineClock().now)
    try:
        versions = {await _version(ledger, run, said.get(run)) for run in RUNS}
    finally:
        await ledger.close()
    return "" if len(versions) == 1 else f"one commit, two versions: {versions}"


async def _version(ledger: Ledger, run: str, said: tuple[int, str] | None) -> int:
    """Where a run stands; -1 where it never became durable."""
    after = said[0] - 1 if said else -1
    (answer,) = await ledger.apply([Load(tenant=TENANT, run_id=run, after=after)])
    if isinstance(answer, Missing) and said is None:
        return -1
    loaded = is_a(answer, Loaded)
    if said is not None:
        assert loaded.entries[0].hash == said[1], f"{run} was acknowledged with another hash"
    await whole_journal(ledger, run)
    return loaded.row.version
