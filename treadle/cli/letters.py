"""dlq: dead letters, which are tasks that became no run and runs that were set aside."""

from typing import Final

import click

from runtime.clock import MachineClock
from treadle.cli import session
from treadle.cli.agree import agree
from treadle.cli.format import Column, Row, ago, clipped, emit, facts, plain, table
from treadle.cli.options import Options, current_options, room

_MOST: Final = 500


@room("dlq", effect="rw")
def dlq() -> None:
    """Dead letters: refused tasks, and runs set aside as poison, until a person deals with them."""


@dlq.command("ls", effect="ro")
@click.option("--limit", type=click.IntRange(1, _MOST), default=100, show_default=True)
def ls(*, limit: int) -> None:
    """List dead letters, the oldest first."""
    options = current_options()

    async def ask() -> session.Reply:
        async with session.connect(options, session.OPERATOR) as api:
            return await api.letters(limit=limit)

    reply = session.run_async(ask)
    rows = reply["letters"]
    emit(options, reply, rows=rows, name="id", text=lambda: _list_text(rows, options))


@dlq.command("show", effect="ro")
@click.argument("letter_id", metavar="ID", type=click.IntRange(min=1))
def show(*, letter_id: int) -> None:
    """Show one dead letter: why it was refused, and the task as it was sent."""
    options = current_options()

    async def ask() -> Row:
        async with session.connect(options, session.OPERATOR) as api:
            return await _read(api, letter_id)

    letter = session.run_async(ask)
    emit(options, letter, rows=[letter], name="id", text=lambda: _letter_text(letter, options))


@dlq.command("retry", effect="rw")
@click.argument("ids", nargs=-1, required=True, metavar="ID...", type=click.IntRange(min=1))
def retry(*, ids: tuple[int, ...]) -> None:
    """Send the task of a letter again, from the same sender, byte for byte; the letter goes.

    Whatever was wrong has to be put right first: an agent that is deployed now, a limit that was
    raised. A task that is refused again is a new letter.
    """
    options = current_options()

    async def work() -> list[Row]:
        async with session.connect(options, session.OPERATOR) as api:
            return [(await api.retry_letter(one))["letter"] for one in ids]

    _print(options, session.run_async(work), "sent again")


@dlq.command("drop", effect="rw")
@click.argument("ids", nargs=-1, required=True, metavar="ID...", type=click.IntRange(min=1))
@click.option("--reason", required=True, metavar="T", help="Kept in the daemon's log.")
def drop(*, ids: tuple[int, ...], reason: str) -> None:
    """Throw letters away for good; they are shown and you are asked."""
    options = current_options()

    async def work() -> list[Row]:
        async with session.connect(options, session.OPERATOR) as api:
            letters = [await _read(api, one) for one in ids]
            agree(
                f"Drop these {len(letters)} letters?",
                options,
                would=f"drop {len(letters)} letters",
                shown=_list_text(letters, options),
            )
            return [(await api.drop_letter(one, reason=reason))["letter"] for one in ids]

    _print(options, session.run_async(work), "dropped")


async def _read(api: session.Api, letter_id: int) -> Row:
    letter: Row = (await api.letters(letter_id))["letters"][0]
    return letter


def _print(options: Options, rows: list[Row], word: str) -> None:
    text = "\n".join(f"{word}: {plain(row['id'])}  {plain(row['subject'])}" for row in rows)
    emit(options, {"letters": rows}, rows=rows, name="id", text=lambda: text)


def _list_text(rows: list[Row], options: Options) -> str:
    if not rows:
        return "no dead letters"
    now = MachineClock().now()
    columns = [
        Column("ID", lambda row: plain(row["id"]), is_number=True),
        Column("CODE", lambda row: plain(row["code"])),
        Column("AGE", lambda row: ago(row["at"], now), is_number=True),
        Column("SUBJECT", lambda row: plain(row["subject"])),
        Column("RUN", lambda row: plain(row.get("run_id") or "-")),
        Column("REASON", lambda row: clipped(plain(row["message"]), 80)),
    ]
    return table(columns, rows, options)


def _letter_text(letter: Row, options: Options) -> str:
    size = f"{letter['payload_bytes']} bytes" + (", cut" if letter["is_cut"] else "")
    pairs = [
        ("Letter", f"{plain(letter['id'])}  {plain(letter['kind'])}"),
        ("Subject", plain(letter["subject"])),
        ("Run", plain(letter.get("run_id") or "")),
        ("Reason", f"{plain(letter['message'])} ({plain(letter['code'])})"),
        ("Hint", plain(letter["hint"])),
        ("At", plain(letter["at"])),
        ("Delivered", f"{letter['deliveries']} times"),
        ("Payload", f"{size}, {plain(letter['encoding'])}"),
    ]
    return f"{facts(pairs, options)}\n\n{plain(letter['payload'])}"
