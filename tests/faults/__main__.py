"""The fault suite: ``python -m tests.faults --trials 20 [--cell 'B.*'] -o json``.

Linux only: it finds processes in /proc. Real processes are killed, paused and told to stop at the
fault points of ``runtime.faults``. The downstream's own file counts effects, ``show`` says how a
run ended. The report goes to stdout, progress to stderr. Exit 1: an effect happened twice, a run
ended wrongly or not at all, or a cell's fault never fired.
"""

import argparse
import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio

from tests.faults import disk, report
from tests.faults.campaigns import table
from tests.faults.cells import Cell, chosen
from tests.faults.trial import play


def main() -> int:
    """Play the chosen cells and report.

    Returns:
        0 where everything is as it must be.
    """
    options = _options()
    cells = chosen(options.cell)
    campaigns = table.chosen(options.cell)
    has_disk = disk.is_chosen(options.cell)
    if not cells and not campaigns and not has_disk:
        sys.stderr.write("no cell is called that; see --list\n")
        return 2
    if options.list:
        sys.stdout.write(
            "\n".join([*[each.name for each in (*cells, *campaigns)], *[disk.NAME] * has_disk, ""])
        )
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # nothing of ours may outlive us
    folder = Path(tempfile.mkdtemp(prefix="treadle-faults-"))
    try:
        rows = anyio.run(_play_all, cells, folder, options.trials, options.jobs)
        rows |= anyio.run(_campaigns, campaigns, folder, options)
        points = disk.crash_points(folder) if has_disk else None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    answer: dict[str, Any] = {"v": 1, "cells": rows, "totals": report.totals(rows.values())}
    if points is not None:
        answer[disk.NAME] = points
    if options.output == "json":
        text = json.dumps(answer, indent=1)
    else:
        text = "\n".join([report.as_text(rows), *([disk.as_text(points)] if points else [])])
    sys.stdout.write(text + "\n")
    is_right = all(map(report.is_right, rows.values()))
    return 0 if is_right and (points is None or disk.is_right(points)) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--trials", type=int, default=1, help="of each cell")
    parser.add_argument(
        "--cell", action="append", default=[], metavar="NAME", help="a name or pattern; repeatable"
    )
    parser.add_argument("--list", action="store_true", help="say which cells there are")
    parser.add_argument("--quick", action="store_true", help="campaigns with fewer runs")
    parser.add_argument("--jobs", type=int, default=2, help="cells that are played side by side")
    parser.add_argument("-o", dest="output", choices=("text", "json"), default="text")
    return parser.parse_args()


async def _play_all(
    cells: list[Cell], folder: Path, trials: int, jobs: int
) -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = {}
    limiter = anyio.CapacityLimiter(jobs)

    async def one(cell: Cell) -> None:
        async with limiter:
            place = folder / cell.name
            await anyio.Path(place).mkdir()
            row = report.summary(cell, await play(cell, place, trials))
            rows[cell.name] = row
            word = "ok" if report.is_right(row) else "WRONG"
            sys.stderr.write(f"{len(rows)}/{len(cells)} {cell.name}: {word} {json.dumps(row)}\n")
            sys.stderr.flush()

    async with anyio.create_task_group() as tasks:
        for cell in cells:
            tasks.start_soon(one, cell)
    return {cell.name: rows[cell.name] for cell in cells}


async def _campaigns(
    campaigns: list[table.Campaign], folder: Path, options: argparse.Namespace
) -> dict[str, dict[str, Any]]:
    """One after the other, since each measures times; short ones promise none and share."""
    rows: dict[str, dict[str, Any]] = {}
    limiter = anyio.CapacityLimiter(options.jobs if options.quick else 1)

    async def one(each: table.Campaign) -> None:
        async with limiter:
            place, trials = folder / each.name, options.trials
            rows[each.name] = row = await table.play(each, place, trials, is_short=options.quick)
            word = "ok" if report.is_right(row) else "WRONG"
            sys.stderr.write(f"{len(rows)}/{len(campaigns)} {each.name}: {word} {row}\n")
            sys.stderr.flush()

    async with anyio.create_task_group() as tasks:
        for each in campaigns:
            tasks.start_soon(one, each)
    return {each.name: rows[each.name] for each in campaigns}


if __name__ == "__main__":
    sys.exit(main())
