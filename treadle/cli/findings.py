"""A finding of ``check``: what is wrong, where, and what to do about it."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any


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


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """``did you mean …``, or nothing where no known name is near."""
    nearest = get_close_matches(name, list(known), n=1)
    return f"did you mean {nearest[0]!r}?" if nearest else ""
