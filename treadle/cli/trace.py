"""trace: what one run did, step by step, with times, tokens, cost and calls."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import click

from treadle.cli import session
from treadle.cli.format import (
    Column,
    Row,
    as_mapping,
    call_text,
    clipped,
    count,
    drawn,
    emit,
    plain,
    seconds_text,
    status_text,
    table,
    took,
)
from treadle.cli.options import Options, command, current_options

_BAR_CELLS: Final = 40
_WHAT_CHARS: Final = 60


@command("trace", effect="ro")
@click.argument("run_id", metavar="RUN")
def trace(*, run_id: str) -> None:
    """Show what a run did: each step with its time, tokens, cost, calls and what they gave.

    The bars share one scale, from the first step on; a wait takes no room in them.
    Without a daemon the data directory is read.
    """
    options = current_options()

    async def ask() -> session.Reply:
        async with session.reading(options) as (reader, _):
            return await reader.trace(run_id)

    run = session.run_async(ask)
    emit(options, run, rows=run["steps"], name="step", text=lambda: trace_text(run, options))


def trace_text(run: Row, options: Options) -> str:
    """A line per step, call and wait, in order, each with its bar."""
    scale = _Scale.of(run)
    lines = list(_lines(run))
    columns = [
        Column("STEP", lambda line: line["step"], is_number=True),
        Column("WHAT", lambda line: line["what"]),
        Column("TOOK", lambda line: line["took"], is_number=True),
        Column("TOKENS", lambda line: line["tokens"], is_number=True),
        Column("COST", lambda line: line["cost"], is_number=True),
        Column("RESULT", lambda line: line["result"]),
        Column("TIME", lambda line: scale.bar(line["at"], line["seconds"], line["mark"])),
    ]
    body = table(columns, lines, options) if lines else "no step has been decided yet"
    return f"{_head(run)}\n{body}"


def _head(run: Row) -> str:
    usage = as_mapping(run["usage"])
    waited = usage.get("suspended_seconds") or 0.0
    reason = f" ({plain(run['reason'])})" if run.get("reason") else ""
    steps: list[Row] = run["steps"]
    queued = steps[0]["offset_seconds"] if steps else 0.0
    facts = [
        took(run["seconds"]),
        f"{run['step_count']} steps",
        f"{count(usage.get('tokens'))} tokens",
        f"${usage.get('usd')}",
        *([f"queued {seconds_text(queued)}"] if queued >= 1 else []),
        *([f"waited {seconds_text(waited)}"] if waited else []),
    ]
    agent = plain(run["agent"])
    return f"{plain(run['run_id'])}  {agent}  {status_text(run['status'])}{reason}  " + " · ".join(
        facts
    )


def _lines(run: Row) -> Iterator[dict[str, Any]]:
    waits: list[Row] = run["waits"]
    for step in run["steps"]:
        if step["model"] is not None or step["calls"] or step["notes"]:
            yield from _step_lines(step)
        for wait in waits:
            if wait["step"] == step["step"]:
                yield _wait_line(wait)


def _step_lines(step: Row) -> Iterator[dict[str, Any]]:
    model = as_mapping(step["model"])
    proposes = plain(model.get("proposes") or "no decision is known")
    yield _line(
        step=("final" if step.get("is_final") else plain(step["step"])),
        what=f"decide, {plain(model['model'])}" if model else "decide",
        seconds=model.get("seconds"),
        at=step["offset_seconds"],
        mark=("▇", "#"),
        tokens=count(step["tokens"]),
        cost=f"${step['usd']}",
        result=proposes,
    )
    branch, last = drawn("├ ", "- "), drawn("└ ", "- ")
    calls: list[Row] = step["calls"]
    for place, call in enumerate(calls):
        lead = last if place == len(calls) - 1 else branch
        yield _line(
            what=lead + call_text(call.get("tool") or "?", call.get("arguments"), _WHAT_CHARS),
            seconds=call.get("seconds"),
            at=call.get("offset_seconds"),
            mark=("▅", "="),
            result=_call_result(call),
        )
    for note in step["notes"]:
        yield _line(what=clipped(f"{plain(note['kind'])}: {plain(note['message'])}", _WHAT_CHARS))


def _call_result(call: Row) -> str:
    approval, problem = as_mapping(call.get("approval")), as_mapping(call.get("problem"))
    decided = approval.get("decision") or "asked"
    by = f" by {plain(approval['person'])}" if approval.get("person") else ""
    words = [
        plain(call.get("outcome") or call.get("decision") or "proposed"),
        plain(call.get("evidence_id") or ""),
        plain(problem.get("code") or ""),
        f"({plain(decided)}{by})" if approval else "",
        plain(call.get("finding") or ""),
    ]
    return " ".join(word for word in words if word)


def _wait_line(wait: Row) -> dict[str, Any]:
    still = ", still" if wait["is_open"] else ""
    what = f"{status_text(wait['status'])}: {plain(wait['reason'])}{still}"
    return _line(
        what=clipped(what, _WHAT_CHARS),
        took=seconds_text(wait["seconds"]),
        at=wait["offset_seconds"],
        seconds=0.0,
        mark=("‖", "|"),
    )


def _line(**said: Any) -> dict[str, Any]:
    seconds = said.get("seconds")
    shown = {
        "step": "",
        "took": "" if seconds is None else took(seconds),
        "tokens": "",
        "cost": "",
        "result": "",
        "at": None,
        "seconds": None,
        "mark": ("", ""),
    }
    return {**shown, **said}


class _Scale(NamedTuple):
    """Where a moment stands in the bars: seconds since the first step, waits taken out."""

    first_s: float
    waits: tuple[tuple[float, float], ...]
    whole_s: float

    @classmethod
    def of(cls, run: Row) -> "_Scale":
        waits = tuple((wait["offset_seconds"], wait["seconds"]) for wait in run["waits"])
        steps: list[Row] = run["steps"]
        first_s = steps[0]["offset_seconds"] if steps else 0.0
        end_s = max((step["offset_seconds"] + step["seconds"] for step in steps), default=0.0)
        whole_s = cls(first_s, waits, 1.0).moment(end_s)
        return cls(first_s, waits, max(whole_s, 0.001))

    def moment(self, at: float) -> float:
        return (
            at
            - self.first_s
            - sum(min(max(0.0, at - since), length) for since, length in self.waits)
        )

    def bar(self, at: float | None, seconds: float | None, mark: tuple[str, str]) -> str:
        if at is None or seconds is None:
            return ""
        first = max(0.0, self.moment(at)) / self.whole_s * _BAR_CELLS
        length = seconds / self.whole_s * _BAR_CELLS
        before = min(round(first), _BAR_CELLS - 1)
        cells = max(1, min(round(length), _BAR_CELLS - before))
        return " " * before + drawn(*mark) * cells
