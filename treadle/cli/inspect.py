"""Reading commands: ls, show, watch. They ask the daemon, or the data directory when none runs."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import click

from runtime.clock import MachineClock
from treadle.cli import parse, session
from treadle.cli.format import (
    Column,
    Row,
    ago,
    as_json,
    as_mapping,
    clipped,
    count,
    emit,
    facts,
    plain,
    short_json,
    status_text,
    table,
    took,
)
from treadle.cli.options import Options, command, current_options
from treadle.cli.progress import event_text, follow


@command("ls", effect="ro")
@click.option("--status", metavar="S", help="Only runs in this status; without it, open runs.")
@click.option("--agent", metavar="A", help="Only runs of this agent.")
@click.option("--tenant", metavar="T", help="Only runs of this tenant.")
@click.option("--label", "pairs", multiple=True, metavar="K=V", help="Only runs with this label.")
@click.option("--all", "is_all", is_flag=True, help="Ended runs too; so with --label.")
@click.option(
    "--since", type=parse.Duration(), metavar="D", help="Only runs created in the last D."
)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
def ls(
    *,
    tenant: str | None,
    pairs: tuple[str, ...],
    status: str | None,
    is_all: bool,
    **query: Any,
) -> None:
    """List runs, open ones by default."""
    options = current_options()
    labels = parse.labels(pairs)
    query["ended"] = is_all or bool(labels)

    async def ask() -> session.Reply:
        async with session.reading(options, tenant) as (reader, _):
            wanted = status.upper() if status else None
            return await reader.list(status=wanted, labels=labels, **query)

    reply = session.run_async(ask)
    runs = [run for run in reply["runs"] if tenant in {None, run.get("tenant")}]
    emit(
        options,
        {**reply, "runs": runs},
        rows=runs,
        name="run_id",
        text=lambda: runs_text(runs, options),
    )


@command("show", effect="ro")
@click.argument("run_id", metavar="RUN")
@click.option(
    "--at", type=click.IntRange(min=0), metavar="VERSION", help="As it was at that version."
)
def show(*, run_id: str, at: int | None) -> None:
    """Show one run: where it stands, what it used, what it saw and did."""
    options = current_options()

    async def ask() -> session.Reply:
        async with session.reading(options) as (reader, _):
            return await reader.show(run_id, at=at)

    run = session.run_async(ask)
    emit(options, run, rows=[run], name="run_id", text=lambda: run_text(run, options))


@command("watch", effect="ro")
@click.argument("run_id", metavar="RUN")
@click.option(
    "--from",
    "first",
    type=click.IntRange(min=0),
    default=0,
    metavar="VERSION",
    help="Start with this version; without it, from the beginning.",
)
def watch(*, run_id: str, first: int) -> None:
    """Follow one run, one line per event, until it ends.

    Without a daemon: what was recorded, and no further.
    """
    options = current_options()
    seen: list[Row] = []

    async def ask() -> None:
        async with session.reading(options) as source:
            async for event in follow(source, run_id, after=first - 1):
                if options.output == "json":
                    seen.append(event)
                else:
                    print(_event_line(event, options), flush=True)

    session.run_async(ask)
    if options.output == "json":
        print(as_json({"v": 1, "events": seen}, indent=2))


def runs_text(runs: list[Row], options: Options) -> str:
    """The table of ``ls``."""
    if not runs:
        return "no runs; open ones are listed by default, see --all and --status"
    now = MachineClock().now()
    columns = [
        Column("RUN", lambda run: plain(run["run_id"])),
        Column("AGENT", lambda run: plain(run["agent"])),
        Column("STATUS", lambda run: status_text(run["status"])),
        Column("STEPS", lambda run: _used(run, "step_count", "max_steps"), is_number=True),
        Column("TOKENS", lambda run: count(_part(run, "usage").get("tokens", 0)), is_number=True),
        Column("COST", lambda run: f"${_part(run, 'usage').get('usd', '0')}", is_number=True),
        Column("AGE", lambda run: ago(run.get("created_at"), now), is_number=True),
        Column("REASON", lambda run: clipped(plain(run.get("reason") or "-"), 60)),
    ]
    return table(columns, runs, options)


def run_text(run: Row, options: Options) -> str:
    """The page of ``show``."""
    usage, limits = _part(run, "usage"), _part(run, "limits")
    budgets = [
        f"steps {run['step_count']}/{limits.get('max_steps')}",
        f"tokens {count(usage.get('tokens'))}/{count(limits.get('max_tokens'))}",
        f"cost ${usage.get('usd')}" + (f"/${limits['max_usd']}" if limits.get("max_usd") else ""),
        f"active {usage.get('active_seconds')}s/{limits.get('max_seconds')}s",
    ]
    pairs = [
        (
            "Run",
            f"{plain(run['run_id'])}  {plain(run['agent'])}@{plain(run.get('agent_code', ''))}",
        ),
        ("Status", _standing(run)),
        ("Goal", clipped(plain(run.get("goal", "")), 200)),
        ("Inputs", _pairs_text(run.get("inputs"))),
        ("Labels", _pairs_text(run.get("labels"))),
        ("Used", " · ".join(budgets)),
        ("Metrics", _metrics_text(usage)),
        ("Summary", plain(run.get("summary") or "")),
        ("Output", plain(short_json(run["output"])) if run.get("output") is not None else ""),
        ("Next", _next_text(run)),
    ]
    parts = [facts(pairs, options), _history_text(run, options), _outstanding_text(run, options)]
    return "\n\n".join(part for part in parts if part)


def _standing(run: Row) -> str:
    since = ago(run.get("updated_at"), MachineClock().now())
    reason = f" ({plain(run['reason'])})" if run.get("reason") else ""
    until = f" until {plain(run['until'])}" if run.get("until") else ""
    return f"{status_text(run['status'])}{reason}{until}, version {run['version']}, {since} ago"


def _metrics_text(usage: Row) -> str:
    """What a run did with its time; an answer of an older daemon says nothing of some of it."""
    used = defaultdict(int, usage)
    prompt = used["input_tokens"] + used["cache_read_tokens"] + used["cache_write_tokens"]
    cached = f", {used['cache_read_tokens'] / prompt:.0%} of the input cached" if prompt else ""
    flags = f" · {used['flags']} warnings of no progress" if used["flags"] else ""
    return (
        f"{used['model_calls']} model calls, {took(used['model_seconds'])}{cached}"
        f" · {used['tool_calls']} tool calls, {used['tool_errors']} errors,"
        f" {took(used['tool_seconds'])} · {took(used['suspended_seconds'])} waiting{flags}"
    )


def _event_line(event: Row, options: Options) -> str:
    if options.output == "jsonl":
        return as_json(event)
    return plain(event["version"]) if options.output == "name" else event_text(event)


def _history_text(run: Row, options: Options) -> str:
    evidence = {item["id"]: item for item in run.get("evidence") or ()}
    history: list[Row] = run.get("tool_history", [])
    columns = [
        Column("STEP", lambda call: plain(call["step"]), is_number=True),
        Column("TOOL", lambda call: plain(call["tool"])),
        Column("OUTCOME", lambda call: plain(call["outcome"])),
        Column("EVIDENCE", lambda call: plain(call.get("evidence_id") or "-")),
        Column("SOURCE", lambda call: plain(_of(evidence, call).get("source", "-"))),
        Column("PAYLOAD", lambda call: clipped(plain(_of(evidence, call).get("payload", "-")), 80)),
    ]
    return table(columns, history, options) if history else ""


def _outstanding_text(run: Row, options: Options) -> str:
    columns = [
        Column("ACTION", lambda item: plain(item["kind"])),
        Column("STATUS", lambda item: plain(item["status"])),
        Column("KEY", lambda item: plain(item["key"])),
    ]
    items: list[Row] = run.get("outstanding", [])
    return table(columns, items, options) if items else ""


def _next_text(run: Row) -> str:
    run_id = plain(run["run_id"])
    approvals: list[Row] = run.get("approvals") or (
        [run["approval"]] if run.get("approval") else []
    )
    steps = [
        f"treadle approvals show {plain(item['id'])}"
        for item in approvals
        if not item.get("is_approved") and item.get("state", "pending") == "pending"
    ]
    if run.get("question"):
        text = clipped(plain(run["question"].get("text", "")), 120)
        steps.append(f"treadle answer {run_id} TEXT (it asks: {text})")
    if run["status"] == "PAUSED" and not steps:
        steps.append(f"treadle resume {run_id}")
    return " · ".join(steps or [f"treadle trace {run_id}"])


def _of(evidence: Mapping[str, Row], call: Row) -> Row:
    return evidence.get(str(call.get("evidence_id")), {})


def _part(run: Row, name: str) -> Row:
    return as_mapping(run.get(name))


def _used(run: Row, used: str, limit: str) -> str:
    most = _part(run, "limits").get(limit)
    return f"{run.get(used, 0)}/{most}" if most is not None else plain(run.get(used, 0))


def _pairs_text(values: object) -> str:
    pairs = as_mapping(values)
    return clipped("  ".join(f"{plain(name)}={plain(value)}" for name, value in pairs.items()), 200)
