"""Asking a person before something that matters is done."""

import click

from messages.errors import UsageError
from treadle.cli.failures import DeclinedError
from treadle.cli.format import note
from treadle.cli.options import Options


def agree(question: str, options: Options, *, would: str, shown: str = "") -> None:
    """Show what it is about and return once the person says yes, or has said ``--yes``.

    Args:
        question: What is asked.
        options: Whether somebody can be asked.
        would: What would be done, for whoever cannot be asked: "this would ...".
        shown: What it is about; empty: nothing more than the question says.

    Raises:
        UsageError: there is nobody to ask, and no ``--yes``.
        DeclinedError: the person said no.
    """
    if shown:
        note(options, shown)
    if options.is_yes:
        return
    if not options.may_ask:
        problem = f"this would {would}"
        raise UsageError(problem, hint="say --yes to do so")
    ask(question)


def ask(question: str) -> None:
    """Ask at the terminal.

    Raises:
        DeclinedError: the answer was no.
    """
    if not click.confirm(question, default=False, err=True):
        raise DeclinedError
