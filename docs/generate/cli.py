"""The command line, read off the click commands themselves."""

import re
from collections.abc import Iterator
from typing import Final, cast

import click

from docs.generate.markdown import BY_HAND, prose, table
from treadle.cli import failures
from treadle.cli.main import COMMANDS, cli
from treadle.cli.options import Command, Room, global_options

_INTRO: Final = (
    "`[ro]` commands change nothing, `[rw]` commands do. Data goes to stdout, everything else to"
    " stderr. With `-o json` the answer is one object with `v`, and an error is one object on"
    " stderr: see [errors](errors.md)."
)
_EXIT_LINE: Final = re.compile(r"^(?P<code>\d+) +(?P<meaning>\S.*)$", re.MULTILINE)
_TAG: Final = re.compile(r"^\[r[ow]\] ")


def cli_page() -> str:
    """Every command with its options, the options of all, and the exit codes."""
    lines = ["# Command line", "", BY_HAND, "", _INTRO, "", "## Global options", ""]
    lines += ["They may stand before or after the command; the last one counts.", ""]
    lines += _options(global_options(is_hidden=False))
    lines += ["", "## Exit codes", ""]
    found = _EXIT_LINE.finditer(failures.__doc__ or "")
    lines += table(["code", "meaning"], ((one["code"], one["meaning"]) for one in found))
    for section in dict.fromkeys(entry.section for entry in COMMANDS.values()):
        lines += ["", f"## {section}"]
        for name, entry in COMMANDS.items():
            if entry.section == section:
                lines += _command(f"treadle {name}", _found(name))
    return "\n".join([*lines, ""])


def _found(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    if command is None:  # the table of commands names it
        raise LookupError(name)
    return command


def _command(path: str, command: click.Command) -> Iterator[str]:
    effect = cast("Command | Room", command).effect
    usage = " ".join([path, *command.collect_usage_pieces(click.Context(command))])
    yield from ("", f"### {path}", "", f"`[{effect}]` `{usage}`")
    yield from _help(_TAG.sub("", command.help or ""))
    options = [one for one in command.params if not getattr(one, "hidden", False)]
    rows = list(_options(options))
    if rows:
        yield from ("", *rows)
    if isinstance(command, click.Group):
        for name, verb in command.commands.items():
            yield from _command(f"{path} {name}", verb)


def _help(text: str) -> Iterator[str]:
    """Paragraphs; one that begins with click's mark for "as it is" stays as it is."""
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("\b"):
            yield from ("", "```text", *paragraph.splitlines()[1:], "```")
        elif paragraph:
            yield from ("", prose(paragraph))


def _options(params: list[click.Parameter]) -> Iterator[str]:
    options = [one for one in params if isinstance(one, click.Option)]
    if options:
        yield from table(["option", "meaning"], map(_option, options))


def _option(option: click.Option) -> tuple[str, str]:
    context = click.Context(click.Command("treadle"))
    written, meaning = option.get_help_record(context) or ("", "")
    return f"`{written}`", prose(meaning)
