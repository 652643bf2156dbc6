"""The human inbox: approvals, approve, deny.

An approval is bound to the hash of exactly one action. ``approve`` always sends the hash of the
action it has printed, or the one given with ``--action``, so what was read is what is allowed.
"""

from typing import Final, cast

import click

from messages.errors import NotFound
from runtime.clock import MachineClock
from treadle.cli import agree, session
from treadle.cli.format import (
    Column,
    Row,
    ago,
    as_mapping,
    call_text,
    emit,
    facts,
    left,
    note,
    plain,
    short_json,
    table,
)
from treadle.cli.options import Options, command, current_options, room

_CALL_CHARS: Final = 2000
"""What was decided is printed whole, as far as a line goes."""


@room("approvals", effect="ro")
def approvals() -> None:
    """What waits for a person; without a verb: ls."""


@approvals.command("ls", effect="ro")
def ls() -> None:
    """List open approvals."""
    options = current_options()

    async def ask() -> session.Reply:
        async with session.reading(options) as (reader, _):
            return await reader.approvals()

    reply = session.run_async(ask)
    rows = reply["approvals"]
    emit(options, reply, rows=rows, name="id", text=lambda: _list_text(rows, options))


@approvals.command("show", effect="ro")
@click.argument("approval_id", metavar="ID")
def show(*, approval_id: str) -> None:
    """Show exactly what would be allowed: tool, arguments, key, rule, hash."""
    options = current_options()

    async def ask() -> Row:
        async with session.reading(options) as (reader, _):
            return await read_approval(reader, approval_id)

    approval = session.run_async(ask)
    emit(
        options,
        approval,
        rows=[approval],
        name="id",
        text=lambda: approval_text(approval, options),
    )


@command("approve", effect="rw")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--action", metavar="HASH", help="The hash you saw, 12 hex digits or more.")
@click.option("--note", "reason", default="", metavar="T", help="Kept with the decision.")
def approve(*, ids: tuple[str, ...], action: str | None, reason: str) -> None:
    """Allow exactly the action that is shown.

    Without --action the approval is read and printed first, and its hash is sent; at a terminal
    you are asked.
    """
    options = current_options()
    if action is not None and len(ids) > 1:
        raise click.UsageError("--action is for one approval; approve them one by one")

    async def work() -> list[Row]:
        async with session.connect(options, session.APPROVER) as api:
            seen = [await read_approval(api, one) for one in ids]
            if action is None:
                _confirm(seen, options)
            replies = [
                await api.approve(row["id"], action=action or _hash_of(row), reason=reason)
                for row in seen
            ]
            return [_decided(*pair) for pair in zip(seen, replies, strict=True)]

    _print_decided(options, session.run_async(work), "approved")


@command("deny", effect="rw")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--action", default="", metavar="HASH", help="The hash you saw.")
@click.option("--reason", required=True, metavar="T", help="What the model is told.")
def deny(*, ids: tuple[str, ...], action: str, reason: str) -> None:
    """Refuse an action; the model is told why and may propose something else."""
    options = current_options()

    async def work() -> list[Row]:
        async with session.connect(options, session.APPROVER) as api:
            seen = [await read_approval(api, one) for one in ids]
            replies = [await api.deny(row["id"], action=action, reason=reason) for row in seen]
            return [_decided(*pair) for pair in zip(seen, replies, strict=True)]

    _print_decided(options, session.run_async(work), "denied")


async def read_approval(reader: session.Reader, approval_id: str) -> Row:
    """One approval with the package that the approver is shown.

    Raises:
        NotFound: there is none of that id.
    """
    reply = await reader.approvals([approval_id])
    for approval in reply["approvals"]:
        if approval["id"] == approval_id:
            return approval
    raise NotFound("approval", approval_id, hint="treadle approvals ls")


def approval_text(approval: Row, options: Options) -> str:
    """Everything that is decided over, one fact a line; nothing is shortened."""
    package = as_mapping(approval.get("package"))
    action, asked = as_mapping(package.get("action")), as_mapping(package.get("requested"))
    state = plain(approval.get("state", ""))
    if state == "pending":
        state = f"{state}, {left(approval['expires_at'], MachineClock().now())}"
    pairs = [
        ("Approval", f"{plain(approval['id'])}  {state}".rstrip()),
        ("Run", f"{plain(approval['run_id'])}  {plain(approval['agent'])}"),
        ("Goal", plain(asked.get("goal") or "")),
        ("Tool", f"{plain(approval['tool'])}  {plain(action.get('does') or '')}".rstrip()),
        *_argument_lines(action),
        ("Key", plain(approval.get("key") or "")),
        ("Target", plain(action.get("target") or "")),
        ("Action", plain(approval["action_hash"])),
        ("Rule", f"{plain(approval.get('rule') or '-')}: {plain(approval.get('why') or '-')}"),
        *_limit_lines(as_mapping(package.get("decision"))),
        ("Group", _group_text(approval)),
        *_next_lines(as_mapping(package.get("next"))),
        ("Decided", _decision_text(as_mapping(approval.get("decision")))),
    ]
    return facts(pairs, options)


def _argument_lines(action: Row) -> list[tuple[str, str]]:
    """The arguments as they will run, value by value."""
    arguments = as_mapping(action.get("arguments"))
    return [(f"  {plain(name)}", plain(short_json(value))) for name, value in arguments.items()]


def _decision_text(decision: Row) -> str:
    said = [f"{plain(name)}={plain(value)}" for name, value in decision.items() if value]
    return " ".join(said)


def _next_lines(following: Row) -> list[tuple[str, str]]:
    """What happens then: if it is approved, denied, or nobody decides."""
    return [(f"If {plain(what)}", plain(then)) for what, then in following.items()]


def _limit_lines(decision: Row) -> list[tuple[str, str]]:
    """The limits that the rule read, each with the document that sets it."""
    limits = cast("list[Row]", decision.get("limits") or [])
    lines = [f"{limit['name']} = {limit['value']} ({limit['source']})" for limit in limits]
    return [("Limit", plain(line)) for line in lines]


def _confirm(seen: list[Row], options: Options) -> None:
    """Print what would be allowed; ask where there is somebody to ask."""
    for approval in seen:
        note(options, approval_text(approval, options))
        if options.may_ask:
            agree.ask(f"Approve {plain(approval['id'])}?")


def _hash_of(approval: Row) -> str:
    """The whole hash of the action that was printed."""
    return str(approval.get("action_sha256") or approval["action_hash"])


def _decided(seen: Row, reply: Row) -> Row:
    """The approval as it is now, with the package that was read: it cannot change."""
    return {**seen, **as_mapping(reply["approval"]), "package": seen.get("package")}


def _list_text(rows: list[Row], options: Options) -> str:
    if not rows:
        return "nothing waits for approval"
    now = MachineClock().now()
    columns = [
        Column("APPROVAL", lambda row: plain(row["id"])),
        Column("RUN", lambda row: plain(row["run_id"])),
        Column("AGENT", lambda row: plain(row["agent"])),
        Column("TOOL", lambda row: plain(row["tool"])),
        Column("ACTION", lambda row: plain(row["action_hash"])),
        Column("GROUP", _group_text),
        Column("LEFT", lambda row: left(row.get("expires_at"), now), is_number=True),
        Column("ASKED", lambda row: ago(row.get("requested_at"), now), is_number=True),
    ]
    return table(columns, rows, options)


def _group_text(row: Row) -> str:
    size = "" if row.get("size") is None else f" (size {plain(row['size'])})"
    return f"{plain(row.get('group') or '-')}{size}"


def _print_decided(options: Options, rows: list[Row], word: str) -> None:
    emit(
        options,
        {"approvals": rows},
        rows=rows,
        name="id",
        text=lambda: "\n".join(_decided_text(row, word) for row in rows),
    )


def _decided_text(row: Row, word: str) -> str:
    decision = as_mapping(row.get("decision"))
    action = as_mapping(as_mapping(row.get("package")).get("action"))
    person = f" by {plain(decision['person'])}" if decision.get("person") else ""
    call = call_text(row.get("tool", ""), action.get("arguments"), _CALL_CHARS)
    return f"{word} {plain(row['id'])}{person} for action {plain(row['action_hash'])}: {call}"
