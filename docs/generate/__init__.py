"""Writes the reference pages that are facts of the code, so that they cannot drift from it.

``python -m docs.generate`` writes them, ``--check`` says which are stale and ends 1. A test runs
the check, so a change of a message, a status, a setting or a command brings its page along.
"""

from pathlib import Path
from typing import Final

from docs.generate.cli import cli_page
from docs.generate.configuration import configuration_page
from docs.generate.errors import errors_page
from docs.generate.messages import messages_page
from docs.generate.statuses import statuses_page
from docs.generate.subjects import subjects_page

REFERENCE: Final = Path(__file__).parents[1] / "reference"


def pages() -> dict[str, str]:
    """The text of every generated page, by file name."""
    return {
        "messages.json": messages_page(),
        "statuses.md": statuses_page(),
        "errors.md": errors_page(),
        "cli.md": cli_page(),
        "configuration.md": configuration_page(),
        "subjects.md": subjects_page(),
    }


def stale() -> list[Path]:
    """The pages that are not what the code says now."""
    return [
        REFERENCE / name
        for name, text in pages().items()
        if not (REFERENCE / name).is_file()
        or (REFERENCE / name).read_text(encoding="utf-8") != text
    ]
