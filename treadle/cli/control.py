"""Control: cancel one run or many."""

from typing import Final

import click

from treadle.cli import session
from treadle.cli.agree import agree
from treadle.cli.format import (
    Row,
    emit,
    plain,
)
from treadle.cli.inspect import runs_text
from treadle.cli.options import command, current_options

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
            if matches:
                agree(
                    f"Cancel these {len(matches)} runs?",
                    options,
                    would=f"cancel {len(matches)} runs",
                    shown=runs_text(matches, options),
                )
            return [await api.cancel(run["run_id"], reason=reason) for run in matches]

    rows = session.run_async(work)
    reply: Row = rows[0] if run_id is not None else {"runs": rows}
    emit(options, reply, rows=rows, name="run_id", text=lambda: _cancelled_text(rows))


async def _matches(api: session.Api, agent: str | None, status: str | None) -> list[Row]:
    reply = await api.list(status=status.upper() if status else None, agent=agent, limit=_MOST)
    return list(reply["runs"])


def _cancelled_text(rows: list[Row]) -> str:
    if not rows:
        return "no open run matches"
    return "\n".join(f"cancel asked: {plain(row['run_id'])}" for row in rows)
