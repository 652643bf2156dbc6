"""completion: the script that makes a shell complete ``treadle``."""

from typing import Final

import click
from click.shell_completion import get_completion_class

from treadle.cli.format import emit
from treadle.cli.options import command, current_options

_SHELLS: Final = ("bash", "zsh", "fish")
_VARIABLE: Final = "_TREADLE_COMPLETE"
"""Click answers with completions when it is set; see ``main``."""


_HELP: Final = """Print the completion script of a shell.

\b
bash   eval "$(treadle completion bash)"        in ~/.bashrc
zsh    eval "$(treadle completion zsh)"         in ~/.zshrc
fish   treadle completion fish > ~/.config/fish/completions/treadle.fish
"""
"""Not a docstring: click keeps the lines after a backspace as they are; a raw string has none."""


@command("completion", effect="ro", help=_HELP)
@click.argument("shell", type=click.Choice(_SHELLS), metavar="bash|zsh|fish")
def completion(*, shell: str) -> None:
    """Print the completion script of a shell; see ``_HELP``."""
    options = current_options()
    kind = get_completion_class(shell)
    if kind is None:  # click knows these three
        raise click.UsageError(f"no completion for {shell}")
    root = click.get_current_context().find_root().command
    script = kind(root, {}, "treadle", _VARIABLE).source()
    reply = {"shell": shell, "script": script}
    emit(options, reply, rows=[reply], name="shell", text=lambda: script)
