"""Fenced code of a page, and a terminal to run it in as a reader would.

The info string says what a block is: ``python`` is run (``title=NAME`` saves it under that name
first, and a ``test_`` file is run by pytest), ``sh`` is pasted into the reader's shell, ``console``
shows ``$`` commands with their output, in which ``...`` stands for anything. ``json`` and ``toml``
must parse; ``toml title=NAME`` is saved, too. ``text`` and ``mermaid`` are pictures. All blocks of
a page share one folder and shell.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

RUN = frozenset({"python", "sh", "console"})
PARSED = frozenset({"json", "toml"})
SHOWN = frozenset({"text", "mermaid"})
SAVED = frozenset({"python", "toml"})

_FENCE = re.compile(r"^(?P<indent> *)(?P<marks>`{3,}|~{3,})(?P<info>[^`]*)$")
_MARK = "treadle-docs-command-ended"
_ENVIRON = {
    "PYTHONUNBUFFERED": "1",  # stdout and stderr in the order in which a terminal shows them
    "NO_COLOR": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block.

    Attributes:
        line: Of its fence, from 1.
        language: First word of the info string.
        title: The name it is saved under; empty: none.
        text: What stands inside.
    """

    line: int
    language: str
    title: str
    text: str


def blocks_of(markdown: str) -> list[Block]:
    """Every fenced block, in order.

    Raises:
        ValueError: a fence is not closed.
    """
    found: list[Block] = []
    opened: tuple[int, re.Match[str]] | None = None
    inside: list[str] = []
    for number, line in enumerate(markdown.splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None:
            if fence:
                opened, inside = (number, fence), []
        elif fence and fence["marks"] == opened[1]["marks"] and not fence["info"].strip():
            found.append(_block(opened[0], opened[1]["info"], inside))
            opened = None
        else:
            inside.append(line.removeprefix(opened[1]["indent"]))
    if opened is not None:
        message = f"the fence on line {opened[0]} is not closed"
        raise ValueError(message)
    return found


def _block(line: int, info: str, inside: list[str]) -> Block:
    language, _, rest = info.strip().partition(" ")
    title = rest.strip().removeprefix("title=")
    return Block(line=line, language=language, title=title, text="\n".join([*inside, ""]))


def exchanges(text: str) -> list[tuple[str, str]]:
    """Commands of a console block, each with the output that it shows."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line)
    return [(command, "\n".join(lines)) for command, lines in found]


def is_like(output: str, shown: str) -> bool:
    """Whether output is what the page shows; ``...`` alone is any lines, in a line any text."""
    pattern = ""
    for line in shown.strip().splitlines():
        if line.strip() == "...":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            parts = [re.escape(part) for part in line.rstrip().split("...")]
            pattern += r"[^\n]*".join(parts) + r"[^\S\n]*\n"
    return re.fullmatch(pattern, output.strip() + "\n" if output.strip() else "") is not None


def first_difference(output: str, shown: str) -> str:
    """The first line shown that the output does not have at its place; empty: it is like it."""
    if is_like(output, shown):
        return ""
    lines = shown.strip().splitlines()
    matching = (n for n in range(len(lines), 0, -1) if is_like(output, _start(lines[:n])))
    return [*lines, "(more than is shown)"][next(matching, 0)]


def _start(lines: list[str]) -> str:
    return "\n".join([*lines, "..."])


class Terminal:
    """A shell that stops at the first command that fails."""

    def __init__(self, folder: Path) -> None:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("TREADLE_")
        }
        path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
        self._shell = subprocess.Popen(
            ["/bin/bash", "-e"],
            cwd=folder,
            env={**kept, **_ENVIRON, "PATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, code: str) -> str:
        """Type some lines; what they print, whichever stream.

        Raises:
            AssertionError: a command failed.
        """
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        # In braces, so that bash has read all of it before the first command can read stdin.
        _ = self._shell.stdin.write(f"{{\n{code}\n}} </dev/null\nprintf '\\n%s\\n' {_MARK}\n")
        self._shell.stdin.flush()
        lines: list[str] = []
        for line in self._shell.stdout:
            if line.strip() == _MARK:
                return "".join(lines)
            lines.append(line)
        raise AssertionError(f"ended with {self._shell.wait()}:\n{code}\n\n{''.join(lines)}")

    def save(self, name: str, text: str) -> None:
        """A file in the folder where the shell is now."""
        _ = Path(self.run("pwd").strip(), name).write_text(text, "utf-8")

    def close(self, folder: Path) -> None:
        """End everything that was started here, the example's payments service included."""
        with suppress(ProcessLookupError):
            os.killpg(self._shell.pid, signal.SIGKILL)
        for file in (self._shell.stdin, self._shell.stdout):
            if file is not None:
                with suppress(BrokenPipeError):
                    file.close()
        _ = self._shell.wait()
        for place in folder.rglob("payments.json"):
            with suppress(OSError, ValueError, KeyError):
                os.kill(int(json.loads(place.read_bytes())["pid"]), signal.SIGKILL)


@contextmanager
def terminal(folder: Path) -> Generator[Terminal]:
    """A shell in that folder; nothing that it started is left behind."""
    shell = Terminal(folder)
    try:
        yield shell
    finally:
        shell.close(folder)
