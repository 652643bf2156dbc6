"""Control: cancel one run or many; the ledger of side effects."""

from typing import Final, cast

import click

from messages.errors import NotFound, UsageError
from runtime.clock import MachineClock
from treadle.cli import session
from treadle.cli.format import (
    Column,
    Row,
    ago,
    as_mapping,
    clipped,
    emit,
    facts,
    note,
    plain,
    table,
)
from treadle.cli.inspect import runs_text
from treadle.cli.options import Options, command, current_options, room
from treadle.cli.people import approval_text

_UNSAID: Final = frozenset({"v", "run_id", "kind", "step", "ordinal"})
"""Fields of a link that its place says already."""

_MOST: Final = 1000
"""The most runs that one bulk command touches."""


@command("cancel", effect="rw")
@click.argument("run_id", required=False, metavar="[RUN]")
@click.option("--agent", metavar="A", help="Instead of RUN: all open runs of this agent ...")
@click.option("--status", metavar="S", help="... in this status.")
@click.option("--reason", default="", metavar="T", help="Kept with the run.")
def cancel(*, run_id: str | None, agent: str | None, status: str | None, reason: str) -> None:
    """Cancel RUN, or every open run that matches; then the matches are shown and you are asked.

    A write that is in flight is settled first.
    """
    if (run_id is None) == (agent is None and status is None):
        raise click.UsageError("name one RUN, or give --agent and --status")
    options = current_options()

    async def work() -> list[Row]:
        async with session.connect(options, session.OPERATOR) as api:
            if run_id is not None:
                return [await api.cancel(run_id, reason=reason)]
            matches = await _matches(api, agent, status)
            _confirm(matches, options)
            return [await api.cancel(run["run_id"], reason=reason) for run in matches]

    rows = session.run_async(work)
    reply: Row = rows[0] if run_id is not None else {"runs": rows}
    emit(options, reply, rows=rows, name="run_id", text=lambda: _cancelled_text(rows))


@room("effects", effect="ro")
def effects() -> None:
    """The ledger of side effects: what happened under which key; without a verb: ls."""


@effects.command("ls", effect="ro")
@click.option("--run", "run_id", metavar="RUN", help="Only effects of this run.")
@click.option("--unresolved", is_flag=True, help="Only those whose outcome is not known.")
@click.option("--limit", type=click.IntRange(1, _MOST), default=100, show_default=True)
def ls(*, run_id: str | None, unresolved: bool, limit: int) -> None:
    """List effects, the newest first."""
    options = current_options()

    async def ask() -> session.Reply:
        async with session.reading(options) as (reader, _):
            return await reader.effects(run_id=run_id, unresolved=unresolved, limit=limit)

    reply = session.run_async(ask)
    rows = reply["effects"]
    emit(options, reply, rows=rows, name="key", text=lambda: _effects_text(rows, options))


@effects.command("show", effect="ro")
@click.argument("key", metavar="KEY")
def show(*, key: str) -> None:
    """Show one effect: who decided, allowed and saw what, when it ran, what was recorded."""
    options = current_options()

    async def ask() -> session.Reply:
        async with session.reading(options) as (reader, _):
            return await reader.effects(key=key)

    found = session.run_async(ask)["effects"]
    if not found:
        raise NotFound("key", key, hint="treadle effects ls")
    effect: Row = found[0]
    emit(options, effect, rows=[effect], name="key", text=lambda: _effect_text(effect, options))


async def _matches(api: session.Api, agent: str | None, status: str | None) -> list[Row]:
    reply = await api.list(status=status.upper() if status else None, agent=agent, limit=_MOST)
    return list(reply["runs"])


def _confirm(matches: list[Row], options: Options) -> None:
    """Show what would be cancelled and ask.

    Raises:
        UsageError: there is nobody to ask, and no ``--yes``.
    """
    if not matches:
        return
    note(options, runs_text(matches, options))
    if options.is_yes:
        return
    if not options.may_ask:
        raise UsageError(f"this would cancel {len(matches)} runs", hint="say --yes to do so")
    click.confirm(f"Cancel these {len(matches)} runs?", default=False, abort=True, err=True)


def _cancelled_text(rows: list[Row]) -> str:
    if not rows:
        return "no open run matches"
    return "\n".join(f"cancel asked: {plain(row['run_id'])}" for row in rows)


def _effects_text(rows: list[Row], options: Options) -> str:
    if not rows:
        return "no effects"
    now = MachineClock().now()
    columns = [
        Column("KEY", lambda row: plain(row["key"])),
        Column("STATE", lambda row: plain(row["state"])),
        Column("TOOL", lambda row: plain(row["tool"])),
        Column("RUN", lambda row: plain(row["run_id"])),
        Column("CLAIMS", lambda row: plain(row.get("claims", "-")), is_number=True),
        Column("AGE", lambda row: ago(row.get("updated_at"), now), is_number=True),
        Column("NOTE", lambda row: "needs a person" if row.get("is_flagged") else "-"),
    ]
    return table(columns, rows, options)


def _effect_text(effect: Row, options: Options) -> str:
    """The chain in its order, one line per link, and what the approver saw."""
    record = as_mapping(effect.get("record"))
    links = [
        *_link(effect, "decision"),
        *_link(effect, "validation"),
        *_link(effect, "authorisation"),
        *_link(effect, "approval_events"),
        *_link(effect, "recheck"),
        *_link(effect, "intent"),
        *_link(effect, "execution"),
        *(line for name in ("observed", "reconciled", "verified") for line in _link(record, name)),
        *_link(record, "evidence"),
        *_link(record, "problem"),
    ]
    flag = "  needs a person" if effect.get("is_flagged") else ""
    head = [
        ("key", plain(effect["key"])),
        ("state", f"{plain(effect['state'])}{flag}"),
        ("run", f"{plain(effect['run_id'])}  step {plain(effect.get('step', '-'))}"),
        ("tool", f"{plain(effect['tool'])}  {plain(effect.get('effect', ''))}".rstrip()),
    ]
    approval = as_mapping(effect.get("approval"))
    seen = f"\n\nWhat the approver saw:\n{approval_text(approval, options)}" if approval else ""
    return facts([*head, *links], options) + seen


def _link(chain: Row, name: str) -> list[tuple[str, str]]:
    """The lines of one link; a link may have happened several times."""
    value: object = chain.get(name)
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    return [(name, _link_text(as_mapping(item))) for item in items if item]


def _link_text(link: Row) -> str:
    said = {
        name: value for name, value in link.items() if name not in _UNSAID and value is not None
    }
    words = [f"{plain(name)}={plain(value)}" for name, value in said.items()]
    return clipped(" ".join(words), 400)
