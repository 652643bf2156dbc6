"""doctor: is all well, seen from here and from inside.

From here: is there a daemon, does NATS let us in, do the clocks agree, is there room on the disk.
From inside, through the gateway: streams, ledger, actors, owners, what waits for a person. Without
a daemon the ledger is checked in the data directory.
"""

import shutil
from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Any, Final

import anyio
import anyio.to_thread

from messages.errors import BusError, TreadleError
from runtime.clock import MachineClock
from treadle.cli import session
from treadle.cli.failures import DONE, FINDINGS
from treadle.cli.format import Column, Row, emit, epoch, plain, table
from treadle.cli.options import Options, command, current_options

_LEAST_FREE: Final = 512 * 1024 * 1024
_LEAST_SHARE: Final = 0.02
_SKEW_S: Final = 1.0


@command("doctor", effect="ro")
def doctor() -> int:
    """Check that everything works: exit 8 and what to do where something does not.

    Looks at NATS, the streams, the ledger and the chain of its newest runs, the actors of every
    role, clocks, runs without an owner, effects and letters that wait for a person, disk space.
    """
    options = current_options()
    checks = session.run_async(lambda: _examine(options))
    findings = [check for check in checks if not check["ok"]]
    reply = {"ok": not findings, "checks": checks, "findings": findings}
    emit(options, reply, rows=checks, name="name", text=lambda: _text(checks, options))
    return FINDINGS if findings else DONE


async def _examine(options: Options) -> list[Row]:
    checks: list[Row] = []
    async with AsyncExitStack() as stack:
        try:
            api = await stack.enter_async_context(session.connect(options, session.OPERATOR))
        except TreadleError as error:
            checks += [_failed("nats", error), *await _recorded(options)]
        else:
            checks += [_check("nats", "reachable, and lets us in"), *await _asked(api)]
    return [*checks, await anyio.to_thread.run_sync(_disk, options)]


async def _asked(api: session.Api) -> list[Row]:
    """What the gateway finds; where none answers, at least who is there."""
    clock = MachineClock()
    try:
        before, seen = clock.now(), await api.ping()
        after = clock.now()
        inside: list[Row] = list((await api.checkup())["checks"])
    except BusError as error:
        rows = (await api.actors())["actors"]
        alive = ", ".join(sorted({plain(row["role"]) for row in rows})) or "nobody"
        return [_failed("gateway", error), _check("actors", f"answering: {alive}", is_ok=False)]
    gateway = _check("gateway", f"answers within {(after - before) * 1000:.0f} ms")
    return [gateway, *inside, _skew(before, epoch(seen.get("at")), after)]


def _skew(before: float, theirs: float | None, after: float) -> Row:
    """Our clock against the gateway's; what a round trip can explain is no skew."""
    if theirs is None:
        return _check("own clock", "the gateway did not say what time it is", is_ok=False)
    skew_s = max(before - theirs, theirs - after, 0.0)
    detail = f"differs from the gateway's by {skew_s:.3f} s at least"
    hint = "keep the clocks in step (NTP)"
    return _check("own clock", detail, is_ok=skew_s <= _SKEW_S, hint=hint)


async def _recorded(options: Options) -> list[Row]:
    """The ledger in the data directory, where there is one."""
    if options.nats is not None or not await anyio.Path(options.directory).exists():
        return []
    try:
        async with session.read_offline(options, None) as reader:
            return [await reader.check_ledger()]
    except TreadleError as error:
        return [_failed("ledger", error)]


def _disk(options: Options) -> Row:
    """Room for the ledger and the streams; both stop when the disk is full."""
    place = options.directory.absolute()
    while not place.exists():
        place = place.parent
    usage = shutil.disk_usage(place)
    detail = f"{usage.free / 2**30:.1f} GiB free below {place}"
    is_ok = usage.free >= max(_LEAST_FREE, _LEAST_SHARE * usage.total)
    return _check("disk", detail, is_ok=is_ok, hint="make room: nothing is taken when it is full")


def _check(name: str, detail: str, *, is_ok: bool = True, hint: str = "") -> dict[str, Any]:
    return {"name": name, "ok": is_ok, "detail": detail, "hint": "" if is_ok else hint}


def _failed(name: str, error: TreadleError) -> Row:
    return _check(name, f"{error.message} ({error.code})", is_ok=False, hint=error.hint)


def _text(checks: Iterable[Row], options: Options) -> str:
    columns = [
        Column("CHECK", lambda row: plain(row["name"])),
        Column("", lambda row: "ok" if row["ok"] else "NOT OK"),
        Column("DETAIL", lambda row: plain(row["detail"])),
        Column("WHAT TO DO", lambda row: plain(row["hint"] or "")),
    ]
    return table(columns, checks, options)
