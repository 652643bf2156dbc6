"""The ledger of side effects: what happened, and settling what nobody could find out."""

from typing import Any, Final, cast

import click

from messages.errors import NotFound, UsageError
from runtime.clock import MachineClock
from treadle.cli import parse, session
from treadle.cli.format import (
    Column,
    Row,
    ago,
    as_mapping,
    clipped,
    emit,
    facts,
    plain,
    table,
)
from treadle.cli.options import Options, current_options, room
from treadle.cli.people import approval_text

_UNSAID: Final = frozenset({"v", "run_id", "kind", "step", "ordinal"})
"""Fields of a link that its place says already."""

_MOST: Final = 1000


@room("effects", effect="rw")
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


@effects.command("resolve", effect="rw")
@click.argument("key", metavar="KEY")
@click.option(
    "--happened", "result", metavar="RESULT", help="It did; what the tool returned, in JSON."
)
@click.option("--not-happened", "is_absent", is_flag=True, help="It did not.")
@click.option("--reason", default="", metavar="T", help="How you found out; kept with the effect.")
@click.option("--run", "run_id", metavar="RUN", help="Whose attempt you looked at, as ls shows.")
def resolve(
    *, key: str, result: str | None, is_absent: bool, reason: str, run_id: str | None
) -> None:
    """Say what became of an effect of unknown outcome, after you found it out downstream.

    What you say is final: an effect that happened is never done again, one that did not may be. If
    the run ended over it, its work goes on in a new run, which is told.
    """
    if (result is None) != is_absent:
        raise click.UsageError("say --happened RESULT or --not-happened")
    options = current_options()
    value = None if result is None else _result(result)

    async def work() -> session.Reply:
        async with session.connect(options, session.OPERATOR) as api:
            return await api.resolve_effect(
                key, happened=not is_absent, result=value, reason=reason, run_id=run_id
            )

    reply = session.run_async(work)
    emit(options, reply, rows=[reply["effect"]], name="key", text=lambda: _resolved_text(reply))


def _result(text: str) -> Any:
    """What the tool returned.

    Raises:
        UsageError: it is no JSON.
    """
    try:
        return parse.json_value(text)
    except ValueError as error:
        hint = """write a text in quotes of its own: --happened '"rf-1"'"""
        raise UsageError(f"the result {clipped(text, 60)!r} is no JSON", hint=hint) from error


def _resolved_text(reply: session.Reply) -> str:
    effect: Row = reply["effect"]
    line = f"{plain(effect['key'])} is {plain(effect['state'])}"
    run_id = reply["run_id"]
    if run_id:
        return f"{line}; the work goes on in run {plain(run_id)}"
    problem = reply.get("problem")
    return f"{line}; its work does not go on: {plain(problem)}" if problem else line


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
        Column("NOTE", _note),
    ]
    return table(columns, rows, options)


def _note(row: Row) -> str:
    if row.get("is_flagged"):
        return "needs a person"
    return f"by {plain(row['resolved_by'])}" if row.get("resolved_by") else "-"


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
