"""What is registered: agents and tools; and calling one read by hand."""

import json
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

import click

from messages.errors import NotFound, UsageError
from runtime.clock import MachineIds
from treadle.cli import parse, session
from treadle.cli.failures import DONE, FAILED, NEEDS_PERSON
from treadle.cli.format import (
    Column,
    Row,
    as_mapping,
    clipped,
    emit,
    facts,
    note,
    plain,
    short_json,
    table,
    took,
)
from treadle.cli.options import Options, current_options, room
from treadle.cli.progress import come_to_rest

_REJECTED: Final = frozenset({"observed", "proposal_rejected"})
_CALL_S: Final = 60.0


@room("agents", effect="ro")
def agents() -> None:
    """The agents that a daemon runs; without a verb: ls."""


@agents.command("ls", effect="ro")
def ls_agents() -> None:
    """List agents with model, tools and limits."""
    _list("agents", _agents_text)


@agents.command("show", effect="ro")
@click.argument("name", metavar="NAME")
def show_agent(*, name: str) -> None:
    """Show one agent and what each of its tools may do."""
    options = current_options()

    async def ask() -> Row:
        async with session.connect(options, session.OPERATOR) as api:
            agent = _named("agent", name, (await api.agents())["agents"])
            tools = [tool for tool in (await api.tools())["tools"] if name in tool["agents"]]
            return {**agent, "tools": tools}

    agent = session.run_async(ask)
    emit(options, agent, rows=[agent], name="name", text=lambda: _agent_text(agent, options))


@room("tools", effect="rw")
def tools() -> None:
    """The tools of a daemon's agents; without a verb: ls."""


@tools.command("ls", effect="ro")
def ls_tools() -> None:
    """List tools: kind, scope, key, what is done about an unknown outcome."""
    _list("tools", _tools_text)


@tools.command("show", effect="ro")
@click.argument("name", metavar="NAME")
def show_tool(*, name: str) -> None:
    """Show one tool with its parameters."""
    options = current_options()

    async def ask() -> Row:
        async with session.connect(options, session.OPERATOR) as api:
            return _named("tool", name, (await api.tools())["tools"])

    tool = session.run_async(ask)
    emit(options, tool, rows=[tool], name="name", text=lambda: _tool_text(tool, options))


@tools.command("call", effect="rw")
@click.argument("name", metavar="NAME")
@click.argument("arguments", nargs=-1, metavar="K=V...")
@click.option("--timeout", type=parse.Duration(), default=_CALL_S, metavar="S", show_default=True)
def call_tool(*, name: str, arguments: tuple[str, ...], timeout: float) -> int:
    """Call one read with your own scopes, and print what it gave.

    The call is a small run of its own: validated, authorised, executed under a grant and recorded
    like any other, so show, trace and watch know it. Values are read by the tool's parameters;
    K:=JSON is JSON always. Writes are refused: give them to an agent, which can be approved.
    """
    options = current_options()

    async def work() -> tuple[Row, list[Row]]:
        async with session.connect(options, session.OPERATOR) as api:
            tool = _named("tool", name, (await api.tools())["tools"])
            values = _values(tool, arguments)
            run_id = MachineIds().new_id("call")
            await api.call_tool(name, values, run_id=run_id)
            note(options, f"run {run_id}")
            seen: list[Row] = []
            run = await come_to_rest(api, run_id, timeout_s=timeout, on_event=seen.append)
            return run, seen

    run, seen = session.run_async(work)
    return _print_call(options, name, run, seen)


def _list(what: Literal["agents", "tools"], text: Callable[[list[Row], Options], str]) -> None:
    """Ask for all of them and print them."""
    options = current_options()

    async def ask() -> session.Reply:
        async with session.connect(options, session.OPERATOR) as api:
            return await (api.agents() if what == "agents" else api.tools())

    reply = session.run_async(ask)
    rows = reply[what]
    emit(options, reply, rows=rows, name="name", text=lambda: text(rows, options))


def _named(kind: str, name: str, rows: Iterable[Row]) -> Row:
    names: list[str] = []
    for row in rows:
        if row["name"] == name:
            return row
        names.append(plain(row["name"]))
    raise NotFound(kind, name, hint=f"there are: {', '.join(names)}" if names else "")


def _values(tool: Row, pairs: Iterable[str]) -> dict[str, Any]:
    """``K=V`` pairs, each read as its parameter's type wants; the validator has the last word.

    Raises:
        UsageError: a value is no JSON where the parameter is no text.
    """
    properties = as_mapping(as_mapping(tool.get("parameters")).get("properties"))
    given = parse.inputs(pairs)
    return {
        key: _value(key, value, as_mapping(properties.get(key))) for key, value in given.items()
    }


def _value(name: str, value: Any, schema: Row) -> Any:
    kind = schema.get("type")
    if not isinstance(value, str) or not isinstance(kind, str) or kind == "string":
        return value
    try:
        return parse.json_value(value)
    except ValueError as error:
        raise UsageError(f"{name} is of type {plain(kind)}, and {value!r} is none") from error


def _print_call(options: Options, name: str, run: Row, seen: list[Row]) -> int:
    """The result, or why there is none; the exit code."""
    evidence: list[Row] = run.get("evidence") or []
    status = run["status"]
    problem = {
        key: event[key]
        for event in seen
        if event["kind"] in _REJECTED
        for key in ("code", "message")
        if key in event
    }
    reply = {
        "run_id": run["run_id"],
        "tool": name,
        "status": status,
        "reason": run.get("reason"),
        "ok": bool(evidence),
        "evidence": evidence[-1] if evidence else None,
        "problem": None if evidence else problem or None,
        "approval": run.get("approval"),
    }
    emit(options, reply, rows=[reply], name="run_id", text=lambda: _call_text(reply))
    if evidence:
        return DONE
    return NEEDS_PERSON if status in {"AWAITING_APPROVAL", "AWAITING_HUMAN"} else FAILED


def _call_text(reply: Row) -> str:
    evidence, problem = as_mapping(reply["evidence"]), as_mapping(reply["problem"])
    if evidence:
        head = f"{plain(evidence['source'])}  {plain(evidence['id'])}"
        value = evidence.get("payload", {"ref": evidence.get("ref")})
        shown = json.dumps(value, indent=2, ensure_ascii=False)
        lines = "\n".join(plain(line) for line in shown.splitlines())
        return f"{head}  {took(evidence.get('duration_seconds') or 0.0)}\n{lines}"
    if reply["approval"]:
        return f"waits for approval: treadle approvals show {plain(reply['approval']['id'])}"
    words = f"{plain(problem.get('message') or reply['reason'])} ({plain(problem.get('code', ''))})"
    return f"{plain(reply['tool'])} gave nothing: {words}\nsee treadle trace {reply['run_id']}"


def _agents_text(rows: list[Row], options: Options) -> str:
    columns = [
        Column("AGENT", lambda row: plain(row["name"])),
        Column("CODE", lambda row: plain(row["code"])),
        Column("MODEL", lambda row: plain(row["model"])),
        Column("JUDGED", lambda row: "by done" if row["has_done"] else "no"),
        Column("LIMITS", lambda row: _limits_text(as_mapping(row["limits"]))),
        Column("TOOLS", lambda row: plain(", ".join(row["tools"]))),
    ]
    return table(columns, rows, options)


def _limits_text(limits: Row) -> str:
    money = f", ${limits['max_usd']}" if limits.get("max_usd") else ""
    return f"{limits['max_steps']} steps, {limits['max_tokens']:,} tokens{money}"


def _agent_text(agent: Row, options: Options) -> str:
    limits = as_mapping(agent["limits"])
    seconds = f", {limits['max_seconds']:g} s"
    pairs = [
        ("Agent", f"{plain(agent['name'])}@{plain(agent['code'])}"),
        ("Model", plain(agent["model"]) + ("" if agent["is_priced"] else "  (no price is known)")),
        ("Strategy", plain(agent["strategy"])),
        ("Limits", _limits_text(limits) + seconds),
        ("Ends when", "its done holds" if agent["has_done"] else "it says so (unverified)"),
        ("Approvals", f"wait {agent['approval_ttl_seconds'] / 60:g} minutes"),
    ]
    return f"{facts(pairs, options)}\n\n{_tools_text(agent['tools'], options)}"


def _tools_text(rows: list[Row], options: Options) -> str:
    if not rows:
        return "no tools"
    columns = [
        Column("TOOL", lambda row: plain(row["name"])),
        Column("KIND", lambda row: plain(row["kind"])),
        Column("SCOPE", lambda row: plain(row.get("scope") or "-")),
        Column("UNKNOWN OUTCOME", lambda row: "-" if row["kind"] == "read" else row["effect"]),
        Column("RULE", lambda row: "yes" if row["has_rule"] else "-"),
        Column("KEY", lambda row: clipped(plain(row.get("key") or "-"), 50)),
        Column("DOES", lambda row: clipped(plain(row["description"]).partition("\\n")[0], 50)),
    ]
    return table(columns, rows, options)


def _tool_text(tool: Row, options: Options) -> str:
    schema = as_mapping(tool.get("parameters"))
    required: list[str] = schema.get("required") or []
    parameters = [
        (f"  {plain(name)}", plain(short_json(kind)) + ("" if name in required else "  optional"))
        for name, kind in as_mapping(schema.get("properties")).items()
    ]
    pairs = [
        ("Tool", f"{plain(tool['name'])}  {plain(tool['kind'])}"),
        ("Does", plain(tool["description"])),
        *parameters,
        ("Scope", plain(tool.get("scope") or "")),
        ("Source", plain(tool.get("source") or "")),
        ("Key", plain(tool.get("key") or "")),
        ("Unknown", "" if tool["kind"] == "read" else plain(tool["effect"])),
        ("Deadline", f"{tool['timeout_seconds']:g} s"),
        ("Agents", plain(", ".join(tool["agents"]))),
    ]
    return facts(pairs, options)
