"""What nobody may read: secrets that this process knows, taken out of every text that it keeps.

Text comes in at one point (``runtime.tools.clean``: what tools and providers return, raise and say)
and leaves into the log at another; both ask here. A secret is found as it is, in base64, as part of
a URL, and escaped in JSON.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

SHOWN: Final = "…"
"""In place of a secret."""
LEAST_CHARS: Final = 8
"""A shorter value is no secret worth the name, and would be found in words that mean nothing."""
_NAMES: Final = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")
"""How variables are called whose values are secret, ours or those of tools."""
_RANDOM: Final = re.compile(r"(?=.*\d)(?=.*[A-Za-z])\S{16,}")
"""What such a value looks like. SORT_KEY=customer_id is none, and must not vanish from results."""

_forms: set[str] = set()
_pattern: re.Pattern[str] | None = None
_pattern_bytes: re.Pattern[bytes] | None = None


def remember(*secrets: str) -> None:
    """Keep these out of everything from now on; short ones and repeated ones change nothing."""
    global _pattern, _pattern_bytes
    told = [_readable(secret) for secret in secrets]
    known = {form for secret in told if len(secret) >= LEAST_CHARS for form in _all(secret)}
    if known <= _forms:
        return
    _forms.update(known)
    text = "|".join(re.escape(form) for form in sorted(_forms, key=len, reverse=True))
    _pattern, _pattern_bytes = re.compile(text), re.compile(text.encode())


def forget() -> None:
    """Know none; for tests."""
    global _pattern, _pattern_bytes  # noqa: PLW0603 -- see remember
    _forms.clear()
    _pattern = _pattern_bytes = None


def in_environment(environ: Mapping[str, str]) -> Iterator[str]:
    """Values of variables that are called like secrets and look like some."""
    for name, value in environ.items():
        if _NAMES.search(name.upper()) and _RANDOM.fullmatch(value.strip()):
            yield value.strip()


def redact(text: str) -> str:
    """The text without any secret."""
    return text if _pattern is None else _pattern.sub(SHOWN, text)


def is_in(data: bytes) -> bool:
    """Whether JSON text holds a secret."""
    return _pattern_bytes is not None and _pattern_bytes.search(data) is not None


def _readable(secret: str) -> str:
    """The longest part that is text: bytes of a variable that are none are in no text of ours."""
    return max(re.split("[\ud800-\udfff]", secret), key=len)


def _all(secret: str) -> Iterable[str]:
    """A secret in every form in which it is looked for.

    Inside a longer text that is base64 as a whole it begins at any of three places in a group.
    """
    raw = secret.encode()
    yield secret
    yield from (quote(secret, safe=""), quote(secret), quote_plus(secret))
    escaped = json.dumps(secret)[1:-1]
    yield from (escaped, json.dumps(escaped)[1:-1])  # as text in JSON, and as JSON in text in JSON
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            coded = encode(b"\0" * before + raw).decode().rstrip("=")
            first = (before * 8 + 5) // 6
            whole = (before + len(raw)) * 8 // 6
            yield coded[first:whole]
