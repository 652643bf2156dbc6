"""metrics: figures about many runs; also the table of figures that ``eval`` prints.

The order of the columns is the order of reading: loops first, since a loop inflates everything
after it, then budget stops, then recovery.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, cast

import click

from treadle.cli import parse, session
from treadle.cli.format import Column, Row, count, emit, facts, plain, table, took
from treadle.cli.options import Options, command, current_options

By = Literal["tenant", "agent", "model"]
_BY: Final[tuple[By, ...]] = ("tenant", "agent", "model")
ALL: Final = "all"


class Groups(click.ParamType[tuple[By, ...]]):
    """``agent,model``: names of ``_BY``, each once."""

    name = "groups"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[By, ...]:
        """See ``click.ParamType``."""
        names = [name.strip() for name in str(value).split(",")]
        for name in names:
            if name not in _BY or names.count(name) > 1:
                self.fail(f"{value!r}: name some of {', '.join(_BY)}, each once", param, ctx)
        return cast("tuple[By, ...]", tuple(names))


@command("metrics", effect="ro")
@click.option(
    "--since", type=parse.Duration(), metavar="D", help="Only runs created in the last D."
)
@click.option("--month", metavar="YYYY-MM", help="Only runs created in this month, UTC.")
@click.option("--by", type=Groups(), metavar="G,...", help="By tenant, agent, model.")
@click.option("--label", "pairs", multiple=True, metavar="K=V", help="Only runs with this label.")
@click.option("--tenant", metavar="T", help="Whose, where no daemon runs.")
def metrics(
    *, by: tuple[By, ...] | None, pairs: tuple[str, ...], tenant: str | None, **span: Any
) -> None:
    """Figures about many runs: loops, budget stops, recovery, completion, steps, cost.

    Shares are of ended runs; each run counts once, and what a sub-agent spent counts with the
    sub-agent. Recovery is of runs with a tool error only. A share of nothing is null.
    """
    options = current_options()
    labels = parse.labels(pairs)

    async def ask() -> session.Reply:
        async with session.reading(options, tenant) as (reader, _):
            return await reader.metrics(by=by or (), labels=labels, **span)

    reply = session.run_async(ask)
    named = [_named(group, by or ()) for group in reply["groups"]]
    rows = [*named, {"group": ALL, **reply}]
    emit(options, reply, rows=rows, name="group", text=lambda: _text(rows, options))


def figures_text(rows: Sequence[Row], title: str, name: str, options: Options) -> str:
    """The table of figures, in the order of reading.

    Args:
        rows: the figures of each group.
        title: over the names.
        name: the field that is a group's name.
        options: says what the terminal can show.
    """
    columns = [
        Column(title, lambda row: plain(row[name]) or "-"),
        Column("LOOPS", lambda row: percent(row["loop_rate"]), is_number=True),
        Column("BUDGET STOPS", lambda row: percent(row["budget_stop_rate"]), is_number=True),
        Column("RECOVERY", lambda row: percent(row["recovery_rate"]), is_number=True),
        Column("COMPLETED", lambda row: percent(row["completion_rate"]), is_number=True),
        Column("RUNS", lambda row: count(row["runs"]), is_number=True),
        Column("STEPS P50", lambda row: _number(row["steps_p50"]), is_number=True),
        Column("P95", lambda row: _number(row["steps_p95"]), is_number=True),
        Column("TOOL ERRORS", lambda row: percent(row["tool_error_rate"]), is_number=True),
        Column("MEAN COST", lambda row: _usd(row["mean_usd"]), is_number=True),
    ]
    return table(columns, rows, options)


def percent(rate: float | None) -> str:
    """``75.0%``, or ``-`` for a share of nothing."""
    return "-" if rate is None else f"{rate:.1%}"


def exits_text(exits: Iterable[Row]) -> str:
    """How runs ended, the most frequent first."""
    ordered = sorted(exits, key=lambda one: -int(one["runs"]))
    return ", ".join(f"{one['runs']} {one['status']} ({plain(one['reason'])})" for one in ordered)


def _named(group: Row, by: Sequence[By]) -> Row:
    return {"group": ", ".join(group[name] or "-" for name in by), **group}


def _text(rows: Sequence[Row], options: Options) -> str:
    total = rows[-1]
    tokens, cached = count(total["tokens"]), percent(total["cache_hit_ratio"])
    opened = total["open_runs"]
    so_far = f", {_usd(total['open_usd'])} so far by {opened} open ones" if opened else ""
    pairs = [
        ("Ended", exits_text(total["exits"]) or "none"),
        ("Spent", f"{_usd(total['usd'])}{so_far}"),
        ("Completed task", f"{_usd(total['usd_per_completed'])} each, failed runs paid for"),
        ("Iterations", _iterations(total)),
        ("Warned", f"{percent(total['flagged_rate'])} of the runs"),
        ("Model", f"{count(total['model_calls'])} calls, {took(total['model_seconds'])}"),
        ("Tokens", f"{tokens}, {cached} of the input from the cache"),
        ("Tools", _tools(total)),
        ("Waited", took(total["suspended_seconds"])),
    ]
    return f"{figures_text(rows, 'GROUP', 'group', options)}\n\n{facts(pairs, options)}"


def _iterations(total: Row) -> str:
    mean, each = total["steps_mean"], total["step_seconds_mean"]
    return "-" if mean is None else f"{mean:g} a run, {took(each or 0.0)} each"


def _tools(total: Row) -> str:
    calls, errors = count(total["tool_calls"]), count(total["tool_errors"])
    return f"{calls} calls, {errors} errors, {took(total['tool_seconds'])}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def _usd(value: str | None) -> str:
    return "-" if value is None else f"${value}"
