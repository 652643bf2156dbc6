"""pause and resume: one run, an agent, everything."""

from typing import Final

import click

from treadle.cli import session
from treadle.cli.agree import agree
from treadle.cli.format import Row, emit, plain
from treadle.cli.inspect import runs_text
from treadle.cli.options import Options, command, current_options

_MOST: Final = 1000


@command("pause", effect="rw")
@click.argument("run_id", required=False, metavar="[RUN]")
@click.option("--agent", metavar="A", help="Instead of RUN: every run of this agent, new ones too.")
@click.option("--all", "is_all", is_flag=True, help="Instead of RUN: everything, new runs too.")
@click.option("--reason", default="", metavar="T", help="Kept with the hold.")
def pause(*, run_id: str | None, agent: str | None, is_all: bool, reason: str) -> None:
    """Stop RUN before its next step, or keep all runs of an agent, or everything, from going on.

    What is in flight is settled first. An agent or everything is held until resumed, tasks that
    come meanwhile are accepted and wait; you are shown the open runs and asked.
    """
    _check_one(run_id, agent, is_all=is_all)
    options = current_options()

    async def work() -> session.Reply:
        async with session.connect(options, session.OPERATOR) as api:
            if run_id is None:
                reply = await api.list(agent=agent, limit=_MOST)
                _agree(list(reply["runs"]), agent, options)
            return await api.pause(run_id, agent=agent, everything=is_all, reason=reason)

    _print(options, session.run_async(work), "pause asked", "held")


@command("resume", effect="rw")
@click.argument("run_id", required=False, metavar="[RUN]")
@click.option("--agent", metavar="A", help="Instead of RUN: end the hold of this agent.")
@click.option("--all", "is_all", is_flag=True, help="Instead of RUN: end the hold of everything.")
@click.option("--reason", default="", metavar="T", help="Kept with the run.")
def resume(*, run_id: str | None, agent: str | None, is_all: bool, reason: str) -> None:
    """Undo a pause; --all also ends the hold of ``up --paused``.

    Each hold is ended by its own name: --all leaves those of single agents and runs alone.
    """
    _check_one(run_id, agent, is_all=is_all)
    options = current_options()

    async def work() -> session.Reply:
        async with session.connect(options, session.OPERATOR) as api:
            return await api.resume(run_id, agent=agent, everything=is_all, reason=reason)

    _print(options, session.run_async(work), "resume asked", "lifted")


def _check_one(run_id: str | None, agent: str | None, *, is_all: bool) -> None:
    if sum((run_id is not None, agent is not None, is_all)) != 1:
        raise click.UsageError("name one RUN, or give --agent A, or --all")


def _agree(matches: list[Row], agent: str | None, options: Options) -> None:
    """Show which runs a hold reaches now, and ask."""
    held = f"agent {agent}" if agent else "everything"
    agree(
        f"Hold {held}, {len(matches)} open runs now?",
        options,
        would=f"hold {held}, {len(matches)} open runs now",
        shown=runs_text(matches, options) if matches else "",
    )


def _print(options: Options, reply: Row, of_run: str, key: str) -> None:
    """What was asked for: of a run, or of whatever the hold names."""
    if "run_id" in reply:
        name, text = "run_id", f"{of_run}: {plain(reply['run_id'])}"
    else:
        name = key
        what = "everything" if reply[key] == "*" else f"agent {plain(reply[key])}"
        text = f"{key}: {what}"
    emit(options, reply, rows=[reply], name=name, text=lambda: text)
