"""submit: one task from the command line, or many from a file of JSON lines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TextIO, cast

import click

from messages.errors import BadTask, BusError, TreadleError
from runtime.clock import MachineClock, MachineIds
from treadle.cli import parse, session
from treadle.cli.failures import TimedOutError
from treadle.cli.format import Row, as_json, emit, note, plain, status_text
from treadle.cli.options import Options, command, current_options
from treadle.cli.progress import come_to_rest, event_text, exit_code_of

_LINE_FIELDS: Final = frozenset({"agent", "goal", "inputs", "run_id", "limits", "labels"})


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One task to submit."""

    agent: str
    goal: str
    run_id: str
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    limits: Mapping[str, Any] = field(default_factory=dict[str, Any])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@command("submit", effect="rw")
@click.argument("agent", required=False)
@click.argument("goal", required=False)
@click.option(
    "-i",
    "--input",
    "inputs",
    multiple=True,
    metavar="KEY=VALUE",
    help="An input, as text; KEY:=JSON for a number, list or object. Repeatable.",
)
@click.option(
    "--file",
    "file",
    type=click.File("r", encoding="utf-8"),
    metavar="TASKS",
    help="One task per line: {agent, goal, inputs, run_id, limits, labels}; - is stdin.",
)
@click.option("--run-id", metavar="ID", help="The same id again is the same run.")
@click.option("--max-steps", type=click.IntRange(min=1), metavar="N")
@click.option("--max-tokens", type=click.IntRange(min=1), metavar="N")
@click.option("--max-usd", metavar="D", help='Dollars, as in "0.50".')
@click.option("--max-seconds", type=click.FloatRange(min=0, min_open=True), metavar="N")
@click.option("--label", "labels", multiple=True, metavar="K=V", help="Repeatable.")
@click.option("--wait", "is_waiting", is_flag=True, help="Until it ends or waits for a person.")
@click.option("--timeout", type=parse.Duration(), metavar="S", help="With --wait: at most so long.")
def submit(  # noqa: PLR0913 -- click passes one argument per option
    *,
    agent: str | None,
    goal: str | None,
    inputs: tuple[str, ...],
    file: TextIO | None,
    run_id: str | None,
    labels: tuple[str, ...],
    is_waiting: bool,
    timeout: float | None,
    **limits: Any,
) -> int:
    """Submit a task to AGENT; print the run id.

    The same run id again is the same run: it is printed with "existing". With --wait the exit code
    says how the run ended: 0 SUCCEEDED, 6 it waits for a person, 5 otherwise; of several runs the
    highest.
    """
    shared: dict[str, Any] = {
        "agent": agent,
        "goal": goal,
        "run_id": run_id,
        "inputs": parse.inputs(inputs),
        "limits": {name: value for name, value in limits.items() if value is not None},
        "labels": parse.labels(labels),
    }
    if timeout is not None and not is_waiting:
        raise click.UsageError("--timeout needs --wait")
    tasks = [_task(shared)] if file is None else _tasks_of(file, shared)
    return _submit_all(current_options(), tasks, is_waiting=is_waiting, timeout_s=timeout)


def _task(shared: Mapping[str, Any]) -> Wanted:
    if not shared["agent"] or not shared["goal"]:
        raise click.UsageError("name the AGENT and its GOAL, or give --file TASKS")
    named: dict[str, Any] = {"run_id": shared["run_id"] or MachineIds().new_id("run")}
    return Wanted(**{**shared, **named})


def _tasks_of(file: TextIO, shared: Mapping[str, Any]) -> list[Wanted]:
    """Every line, checked before the first is submitted; a line wins over the options."""
    if shared["goal"] or shared["run_id"]:
        raise click.UsageError("with --file, goal and run_id stand in its lines")
    return [_line(text, number, shared) for number, text in enumerate(file, 1) if text.strip()]


def _line(text: str, number: int, shared: Mapping[str, Any]) -> Wanted:
    try:
        line: object = parse.json_value(text)
    except ValueError as error:
        raise BadTask(f"line {number} is not JSON: {error}") from error
    if not isinstance(line, dict):
        raise BadTask(f"line {number} is not a JSON object")
    given = cast("dict[str, Any]", line)
    if unknown := given.keys() - _LINE_FIELDS:
        known = ", ".join(sorted(_LINE_FIELDS))
        raise BadTask(f"line {number}: unknown field {min(unknown)!r}", hint=f"known: {known}")
    merged: dict[str, Any] = {
        name: {**shared[name], **_object(given, name, number)}
        for name in ("inputs", "limits", "labels")
    }
    agent, goal = given.get("agent", shared["agent"]), given.get("goal")
    if not agent or not goal:
        raise BadTask(f"line {number}: a task needs an agent and a goal")
    run_id = given.get("run_id") or MachineIds().new_id("run")
    return Wanted(agent=agent, goal=goal, run_id=run_id, **merged)


def _object(line: dict[str, Any], name: str, number: int) -> dict[str, Any]:
    value: object = line.get(name, {})
    if not isinstance(value, dict):
        raise BadTask(f"line {number}: {name} must be an object")
    return cast("dict[str, Any]", value)


def _submit_all(
    options: Options, tasks: Sequence[Wanted], *, is_waiting: bool, timeout_s: float | None
) -> int:
    async def work() -> list[Row]:
        async with session.connect(options, session.SUBMITTER) as api:
            replies = await _submit_each(api, tasks, options, is_told=is_waiting)
            if not is_waiting:
                return replies
            runs = await _wait_all(api, replies, options, timeout_s)
            return [{**reply, **run} for reply, run in zip(replies, runs, strict=True)]

    rows = session.run_async(work)
    _print(options, rows, is_single=len(tasks) == 1)
    return max((exit_code_of(row) for row in rows), default=0) if is_waiting else 0


async def _submit_each(
    api: session.Api, tasks: Sequence[Wanted], options: Options, *, is_told: bool
) -> list[Row]:
    """In order; the first refusal ends it, and stderr says how far it came."""
    replies: list[Row] = []
    for task in tasks:
        try:
            replies.append(await _submit_one(api, task))
        except TreadleError:
            if len(tasks) > 1:
                note(options, f"{len(replies)} of {len(tasks)} tasks were submitted")
            raise
        if is_told:
            note(options, f"submitted {_text(replies[-1])}")
    return replies


async def _submit_one(api: session.Api, task: Wanted) -> Row:
    try:
        reply = await api.submit(
            task.agent,
            task.goal,
            inputs=task.inputs,
            run_id=task.run_id,
            limits=task.limits,
            labels=task.labels,
        )
    except BusError as error:
        # It may have been accepted: the id makes a second try safe.
        error.hint = error.hint or f"try again with --run-id {task.run_id}"
        raise
    return {"run_id": reply["run_id"], "existing": reply["existing"]}


async def _wait_all(
    api: session.Api, replies: Sequence[Row], options: Options, timeout_s: float | None
) -> list[session.Reply]:
    """One after the other; the timeout is for all of them together."""
    clock = MachineClock()
    deadline = None if timeout_s is None else clock.monotonic() + timeout_s
    runs: list[session.Reply] = []
    for reply in replies:
        left = None if deadline is None else max(0.0, deadline - clock.monotonic())
        try:
            run = await come_to_rest(
                api,
                reply["run_id"],
                timeout_s=left,
                on_event=lambda event: note(options, event_text(event)),
            )
        except TimedOutError as error:
            raise TimedOutError(
                f"run {reply['run_id']} is still under way after {timeout_s:g} s", hint=error.hint
            ) from error
        runs.append(run)
    return runs


def _print(options: Options, rows: Sequence[Row], *, is_single: bool) -> None:
    if is_single:
        emit(options, rows[0], rows=rows, name="run_id", text=lambda: _text(rows[0]))
    elif options.output == "json":
        print(as_json({"v": 1, "runs": rows}, indent=2))
    else:
        for row in rows:
            emit(options, row, rows=[row], name="run_id", text=lambda row=row: _text(row))


def _text(row: Row) -> str:
    existing = "  existing" if row["existing"] else ""
    status = f"  {status_text(row['status'])}" if "status" in row else ""
    reason = f"  {plain(row['reason'])}" if row.get("reason") else ""
    return f"{plain(row['run_id'])}{existing}{status}{reason}"
