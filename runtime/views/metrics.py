"""Figures about many runs, from their tallies (``treadle metrics`` and ``treadle eval``).

Nine of them have fixed names (REQUIREMENTS.md, B8). People read them in this order: the loop rate
first, because a loop inflates everything after it; then the share that a budget stopped; then how
many runs survive a tool error.

Source: seeds/b, "Reading the metrics in the right order".
"""

from collections.abc import Sequence

from messages.base import Timestamp
from messages.ledger import RunsOfSteps, Tally
from messages.status import Status
from runtime.tally import merge
from runtime.views.values import View, iso_or_none, seconds, tokens_view, usd

NINE = (
    "runs",
    "completion_rate",
    "steps_p50",
    "steps_p95",
    "tool_error_rate",
    "loop_rate",
    "budget_stop_rate",
    "recovery_rate",
    "mean_usd",
)


def nine_figures(tally: Tally) -> View:
    """The nine figures of some ended runs; null where there is nothing to take a share of.

    A run counts once, however it ended: shares of completion, loops and budget stops are of all
    ended runs. The recovery rate is of the runs with a tool error only, since over all runs it
    would say how rarely tools fail. Percentiles are by nearest rank, shares have three decimals.
    """
    runs = tally.runs
    return {
        "runs": runs,
        "completion_rate": share(tally.ended(Status.SUCCEEDED), runs),
        "steps_p50": percentile(tally.steps, 50),
        "steps_p95": percentile(tally.steps, 95),
        "tool_error_rate": share(tally.tool_errors, tally.tool_calls),
        "loop_rate": share(tally.ended(Status.NO_PROGRESS), runs),
        "budget_stop_rate": share(tally.ended(Status.BUDGET_EXHAUSTED), runs),
        "recovery_rate": share(tally.recovered, tally.troubled),
        "mean_usd": _mean_usd(tally.cost_microusd, runs),
    }


def all_figures(tally: Tally) -> View:
    """The nine, and what else the rows know of these runs."""
    runs, usage = tally.runs, tally.usage
    steps = sum(each.steps * each.runs for each in tally.steps)
    prompt = usage.tokens - usage.output_tokens
    return {
        **nine_figures(tally),
        "flagged_rate": share(tally.flagged, runs),
        "steps_mean": _mean(steps, runs),
        "step_seconds_mean": _mean(tally.active_s, steps),
        "active_seconds": seconds(tally.active_s),
        "suspended_seconds": seconds(tally.suspended_s),
        "model_seconds": seconds(tally.model_s),
        "tool_seconds": seconds(tally.tool_s),
        "model_calls": tally.model_calls,
        "tool_calls": tally.tool_calls,
        "tool_errors": tally.tool_errors,
        **tokens_view(usage),
        "cache_hit_ratio": share(usage.cache_read_tokens, prompt),
        "usd": usd(tally.cost_microusd),
        "usd_per_completed": _mean_usd(tally.cost_microusd, tally.ended(Status.SUCCEEDED)),
        "exits": [
            {"status": str(each.status), "reason": each.reason, "runs": each.runs}
            for each in tally.endings
        ],
        "open_runs": tally.open_runs,
        "open_usd": usd(tally.open_microusd),
    }


def metrics_view(
    tallies: Sequence[Tally],
    by: Sequence[str],
    *,
    since: Timestamp | None,
    until: Timestamp | None,
) -> View:
    """The object of ``metrics -o json``: figures of all the runs, and of each group."""
    groups = [{**each.group, **all_figures(each)} for each in tallies] if by else []
    span = {"since": iso_or_none(since), "until": iso_or_none(until)}
    return {"v": 1, **span, "by": list(by), **all_figures(merge(tallies)), "groups": groups}


def share(part: int, whole: int) -> float | None:
    """A part of a whole with three decimals; None of nothing."""
    return round(part / whole, 3) if whole else None


def percentile(steps: Sequence[RunsOfSteps], percent: int) -> float | None:
    """The nearest rank: the smallest number of steps that so many percent of the runs kept to.

    Args:
        steps: how many runs took how many steps, by number of steps.
        percent: 1 to 100.
    """
    rank = -(-percent * sum(each.runs for each in steps) // 100)
    for each in steps:
        rank -= each.runs
        if rank <= 0:
            return float(each.steps)
    return None


def _mean(total: float, count: int) -> float | None:
    return round(total / count, 3) if count else None


def _mean_usd(microusd: int, count: int) -> str | None:
    """A mean in whole micro-USD, half a one rounded up."""
    return usd((2 * microusd + count) // (2 * count)) if count else None
