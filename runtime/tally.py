"""Counting runs, pure: rows of a page into tallies, tallies of pages into one."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from messages.ledger import GroupBy, RunRow, RunsOfEnding, RunsOfSteps, Summary, Tally
from messages.parts import Usage
from messages.status import Status

K = TypeVar("K")

_SUMS = ("troubled", "recovered", "flagged", "model_calls", "tool_calls", "tool_errors")
_SECONDS = ("model_s", "tool_s", "active_s", "suspended_s")
_MONEY = ("cost_microusd", "open_runs", "open_microusd")


def tally(rows: Iterable[RunRow], by: Sequence[GroupBy] = ()) -> tuple[Tally, ...]:
    """A tally for each group of these runs, in the order in which they are first met."""
    groups: dict[tuple[str, ...], list[Tally]] = {}
    for row in rows:
        named = {name: _name(row, name) for name in by}
        groups.setdefault(tuple(named.values()), []).append(_one(row, named))
    return tuple(merge(each) for each in groups.values())


def merge_groups(tallies: Iterable[Tally]) -> tuple[Tally, ...]:
    """Tallies of several pages, one for each group, in the order of the groups' names."""
    groups: dict[tuple[str, ...], list[Tally]] = {}
    for each in tallies:
        groups.setdefault(tuple(each.group.values()), []).append(each)
    return tuple(merge(groups[name]) for name in sorted(groups))


def merge(tallies: Sequence[Tally]) -> Tally:
    """All of them as one, under the group that they have in common, if any."""
    if len(tallies) < 2:  # noqa: PLR2004 -- one is merged already
        return tallies[0] if tallies else Tally()
    endings = _added(((e.status, e.reason), e.runs) for each in tallies for e in each.endings)
    steps = _added((s.steps, s.runs) for each in tallies for s in each.steps)
    group = tallies[0].group
    sums = {name: sum(getattr(t, name) for t in tallies) for name in (*_SUMS, *_SECONDS, *_MONEY)}
    return Tally(
        group=group if all(each.group == group for each in tallies) else {},
        endings=tuple(
            RunsOfEnding(status=status, reason=reason, runs=endings[status, reason])
            for status, reason in sorted(endings)
        ),
        steps=tuple(RunsOfSteps(steps=count, runs=steps[count]) for count in sorted(steps)),
        usage=_used(tallies),
        **sums,
    )


def _used(tallies: Iterable[Tally]) -> Usage:
    total = Usage()
    for each in tallies:
        total = total.plus(each.usage)
    return total


def _added(pairs: Iterable[tuple[K, int]]) -> Counter[K]:
    found: Counter[K] = Counter()
    for key, count in pairs:
        found[key] += count
    return found


def _one(row: RunRow, group: dict[str, str]) -> Tally:
    """One run, counted once. What an older version did not record counts as nothing."""
    ran = row.summary
    if not ran.status.is_terminal:
        return Tally(group=group, open_runs=1, open_microusd=ran.own_microusd)
    return Tally(
        group=group,
        endings=(RunsOfEnding(status=ran.status, reason=ran.reason, runs=1),),
        steps=(RunsOfSteps(steps=ran.step_count, runs=1),),
        troubled=int(ran.tool_errors > 0),
        recovered=int(_has_recovered(ran)),
        flagged=int(ran.flags > 0),
        model_calls=ran.model_calls,
        tool_calls=ran.tool_calls,
        tool_errors=ran.tool_errors,
        model_s=ran.model_s,
        tool_s=ran.tool_s,
        active_s=ran.active_s,
        suspended_s=ran.suspended_s,
        usage=ran.usage,
        cost_microusd=ran.own_microusd,
    )


def _has_recovered(ran: Summary) -> bool:
    return ran.tool_errors > 0 and ran.status is Status.SUCCEEDED


def _name(row: RunRow, by: GroupBy) -> str:
    match by:
        case "tenant":
            return row.tenant
        case "agent":
            return row.summary.agent
        case "model":
            return " + ".join(row.summary.models)
