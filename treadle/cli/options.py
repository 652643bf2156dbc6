"""The options every command takes, before or after its name, and the click classes that add them.

What was given lies in click's shared ``meta``, so that ``treadle -o json approvals ls``,
``treadle approvals -o json ls`` and ``treadle approvals ls -o json`` mean the same; the innermost
one wins.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

import click

Output = Literal["table", "json", "jsonl", "name"]
Effect = Literal["ro", "rw"]

OUTPUTS: Final = ("table", "json", "jsonl", "name")
DEFAULT_DATA_DIR: Final = Path(".treadle")
_META: Final = "treadle.cli.options"


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What was given; None stands for "not given"."""

    config: Path | None = None
    nats: str | None = None
    data_dir: Path | None = None
    output: Output = "table"
    user: str | None = None
    color: Literal["auto", "always", "never"] = "auto"
    is_quiet: bool = False
    is_verbose: bool = False
    is_yes: bool = False
    is_without_input: bool = False

    @property
    def directory(self) -> Path:
        """The data directory: as given, or ``.treadle`` here."""
        return self.data_dir or DEFAULT_DATA_DIR

    @property
    def may_ask(self) -> bool:
        """Whether a person sits at the terminal and wants to be asked."""
        if self.is_yes or self.is_without_input:
            return False
        return sys.stdin.isatty() and sys.stderr.isatty()

    def has_color(self, *, is_terminal: bool) -> bool:
        """Whether decoration is wanted on a stream; NO_COLOR (any value) says no to ``auto``."""
        if self.color != "auto":
            return self.color == "always"
        return is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def current_options() -> Options:
    """The options of the command that runs now."""
    return Options(**click.get_current_context().meta.get(_META, {}))


class Command(click.Command):
    """A command that takes the global options and says whether it changes anything."""

    def __init__(self, *args: Any, effect: Effect, **attrs: Any) -> None:
        """Args: effect: ``ro`` where nothing changes, ``rw`` otherwise; the rest is click's."""
        super().__init__(*args, **attrs)
        self.effect: Effect = effect
        self.help = f"[{effect}] {self.help or ''}"
        self.params.extend(global_options(is_hidden=True))
        self.epilog = self.epilog or "Global options: treadle --help"


class Room(click.Group):
    """A noun with verbs below it, such as ``approvals``; without a verb it lists."""

    command_class = Command
    default_verb = "ls"

    def __init__(self, *args: Any, effect: Effect, **attrs: Any) -> None:
        """Args: effect: the strongest effect of any of its verbs; the rest is click's."""
        super().__init__(*args, invoke_without_command=True, **attrs)
        self.effect: Effect = effect
        self.help = f"[{effect}] {self.help or ''}"
        self.params.extend(global_options(is_hidden=True))
        self.epilog = self.epilog or "Global options: treadle --help"

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb that was named, or ``ls``."""
        result = super().invoke(ctx)
        if ctx.invoked_subcommand is not None:
            return result
        verb = self.commands[self.default_verb]
        with verb.make_context(self.default_verb, [], parent=ctx) as inner:
            return verb.invoke(inner)


def command(name: str, *, effect: Effect, **attrs: Any) -> Callable[[Callable[..., Any]], Command]:
    """Declare a command; see ``Command``."""
    return click.command(name, cls=Command, effect=effect, **attrs)


def room(name: str, *, effect: Effect, **attrs: Any) -> Callable[[Callable[..., Any]], Room]:
    """Declare a noun; see ``Room``."""
    return click.group(name, cls=Room, effect=effect, **attrs)


def global_options(*, is_hidden: bool) -> list[click.Parameter]:
    """Fresh parameters; ``is_hidden`` keeps them out of a command's own help."""
    flag: dict[str, Any] = {"is_flag": True, "default": None}
    path = click.Path(path_type=Path)
    declared: list[tuple[tuple[str, ...], str, dict[str, Any]]] = [
        (("--config",), "config", {"type": path, "metavar": "FILE", "help": "Settings file."}),
        (
            ("--nats",),
            "nats",
            {"metavar": "URL", "help": "NATS server, instead of the data directory's."},
        ),
        (
            ("--data-dir",),
            "data_dir",
            {"type": path, "metavar": "DIR", "help": "Default: .treadle"},
        ),
        (("-o", "--output"), "output", {"type": click.Choice(OUTPUTS), "help": "Default: table"}),
        (("--as",), "user", {"metavar": "NAME", "help": "Which user of connection.json to be."}),
        (("--color",), "color", {"type": click.Choice(("auto", "always", "never"))}),
        (("-q", "--quiet"), "is_quiet", {**flag, "help": "No progress on stderr."}),
        (("-v", "--verbose"), "is_verbose", {**flag, "help": "More on stderr."}),
        (("--yes",), "is_yes", {**flag, "help": "Answer every question with yes."}),
        (("--no-input",), "is_without_input", {**flag, "help": "Never ask; fail instead."}),
    ]
    return [
        click.Option(
            [*names, f"g_{field}"], expose_value=False, hidden=is_hidden, callback=_keep, **attrs
        )
        for names, field, attrs in declared
    ]


def _keep(ctx: click.Context, param: click.Parameter, value: object) -> None:
    if value is not None:
        given = cast("dict[str, object]", ctx.meta.setdefault(_META, {}))
        given[param.name.removeprefix("g_")] = value
