"""The ``treadle`` command: a table of commands that are imported when they run.

Nothing here imports nats, msgspec, structlog or anthropic, so ``treadle --help`` and a mistyped
command answer at once. Data goes to stdout, everything else to stderr; see ``failures`` for the
shape of an error and the exit codes.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Any, Final, NamedTuple, cast

import click

from treadle.cli.failures import report
from treadle.cli.options import Effect, global_options


class Entry(NamedTuple):
    """Where a command lives and what the overview says of it."""

    section: str
    place: str
    effect: Effect
    help: str


COMMANDS: Final[dict[str, Entry]] = {
    "demo": Entry("Start", "demo:demo", "rw", "Run the refund example end to end."),
    "init": Entry("Start", "start:init", "rw", "Write a new app into an empty directory."),
    "check": Entry("Start", "start:check", "ro", "Load an app and say what is wrong with it."),
    "up": Entry("Start", "start:up", "rw", "Run the daemon in the foreground."),
    "submit": Entry("Runs", "submit:submit", "rw", "Submit a task; print its run id."),
    "ls": Entry("Runs", "inspect:ls", "ro", "List runs, open ones by default."),
    "show": Entry("Runs", "inspect:show", "ro", "One run: state, budgets, evidence."),
    "watch": Entry("Runs", "inspect:watch", "ro", "Follow one run, event by event."),
    "trace": Entry("Runs", "trace:trace", "ro", "Steps with times, tokens, cost, calls."),
    "metrics": Entry("Runs", "metrics:metrics", "ro", "Loops, budget stops, recovery, spend."),
    "cancel": Entry("Runs", "control:cancel", "rw", "Cancel one run, or all that match."),
    "pause": Entry("Runs", "holds:pause", "rw", "Hold one run, an agent, or everything."),
    "resume": Entry("Runs", "holds:resume", "rw", "Undo a pause, or up --paused."),
    "approvals": Entry("People", "people:approvals", "ro", "What waits for a person."),
    "approve": Entry("People", "people:approve", "rw", "Allow exactly the action that was shown."),
    "deny": Entry("People", "people:deny", "rw", "Refuse an action, with a reason."),
    "answer": Entry("People", "answer:answer", "rw", "Answer what a run asks a person."),
    "eval": Entry("Operations", "evaluate:evaluate", "rw", "Run a scripted suite; its figures."),
    "agents": Entry("Operations", "registry:agents", "ro", "What agents a daemon runs."),
    "tools": Entry("Operations", "registry:tools", "rw", "Their tools; call one read by hand."),
    "actors": Entry("Operations", "ops:actors", "ro", "Who is alive, and what they have done."),
    "effects": Entry("Operations", "effects:effects", "rw", "The ledger of side effects."),
    "dlq": Entry("Operations", "letters:dlq", "rw", "Dead letters: look, send again, drop."),
    "doctor": Entry("Operations", "doctor:doctor", "ro", "Check that everything works."),
    "config": Entry("Operations", "configuration:config", "ro", "What is configured; is it fine."),
    "completion": Entry("Operations", "completion:completion", "ro", "Completion for your shell."),
    "version": Entry("Operations", "ops:version", "ro", "Versions of Treadle and what it runs on."),
}


class Overview(click.Group):
    """The top level: knows every command by name, imports the one that is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        """All names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of that command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].place.partition(":")
        return cast("click.Command", getattr(import_module(f"treadle.cli.{module}"), attribute))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """One list per section, without importing any command."""
        for section in dict.fromkeys(entry.section for entry in COMMANDS.values()):
            with formatter.section(section):
                formatter.write_dl(
                    [
                        (name, f"[{entry.effect}] {entry.help}")
                        for name, entry in COMMANDS.items()
                        if entry.section == section
                    ]
                )


def _help_if_alone() -> None:
    """``treadle`` alone is a question, not a mistake."""
    context = click.get_current_context()
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


cli = Overview(
    "treadle",
    params=global_options(is_hidden=False),
    invoke_without_command=True,
    callback=_help_if_alone,
    help=(
        "Runs agent loops: every step recorded, every side effect authorised once.\n\n"
        "[ro] commands change nothing, [rw] commands do. The options below may stand before or"
        " after the command.\n\n"
        "Exit codes: 0 done, 1 refused or failed, 2 usage, 3 not found, 4 not allowed, 5 the"
        " awaited run ended other than SUCCEEDED, 6 it waits for a person, 7 conflict, 8 findings,"
        " 69 daemon or NATS unreachable, 124 timeout, 130 interrupted."
    ),
    epilog="First steps: treadle demo",
)


def run(arguments: Sequence[str], **extra: Any) -> int:
    """Run one command line.

    Args:
        arguments: without the program's name.
        extra: passed to click's context, as its test runner does.

    Returns:
        The exit code; see the module ``failures``.
    """
    try:
        result: object = cli.main(
            list(arguments), prog_name="treadle", standalone_mode=False, **extra
        )
    except SystemExit as left:  # click leaves so where nobody reads its output any more
        return left.code if isinstance(left.code, int) else 1
    except BaseException as error:  # noqa: BLE001 -- the end of the line: every error becomes a code
        return report(error, arguments)
    return result if isinstance(result, int) else 0


def main() -> None:
    """The console script."""
    if isinstance(sys.stdout, TextIOWrapper):  # a terminal that knows no arrow gets an escape
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
