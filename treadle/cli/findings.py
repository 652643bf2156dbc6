"""A finding of ``check``: what is wrong, where, and what to do about it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any

from treadle.cli.format import plain


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong."""

    code: str
    where: str
    message: str
    hint: str = ""

    def as_row(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def finding_text(finding: Finding) -> str:
    """For people: place, problem, code; what to do on a line of its own."""
    line = f"{plain(finding.where)}: {plain(finding.message)} ({finding.code})"
    return f"{line}\n  hint: {plain(finding.hint)}" if finding.hint else line


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """``did you mean …``, or nothing where no known name is near."""
    nearest = get_close_matches(name, list(known), n=1)
    return f"did you mean {nearest[0]!r}?" if nearest else ""
