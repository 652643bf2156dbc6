"""What "ready" means for a process of the daemon: its roles, NATS, the ledger."""

from collections.abc import Awaitable, Callable, Sequence

from messages.base import Failure
from messages.ledger import Due
from runtime.bus.bus import WireBus
from runtime.clock import Clock
from runtime.http.health import CHECK_S, Check, Health
from runtime.ledger.port import Ledger

_PROCESS = "health"
"""Owns nothing: asking Due under this name changes nothing."""


def health_of(
    listen: str,
    roles: Sequence[str],
    bus_of: Callable[[str], WireBus],
    ledger: Ledger | None,
    clock: Clock,
) -> Health:
    """The health of a process.

    Args:
        listen: HOST:PORT on loopback.
        roles: What it was started for.
        bus_of: The connection of a role.
        ledger: Where this process serves the checkpointer; None: the ledger is asked over NATS.
        clock: The process's.

    Raises:
        ConfigError: ``listen`` is no address, or one that others can reach.
    """
    checks: dict[str, Check] = {"nats": lambda: _connected(roles, bus_of)}
    checks |= {f"role {role}": _served(role, bus_of) for role in roles}
    checks["ledger"] = _direct(ledger) if ledger is not None else _asked(bus_of(roles[0]))
    return Health(listen=listen, checks=checks, clock=clock)


async def _connected(roles: Sequence[str], bus_of: Callable[[str], WireBus]) -> str | None:
    cut_off = [role for role in roles if not bus_of(role).is_connected]
    return f"no connection for: {', '.join(cut_off)}" if cut_off else None


def _served(role: str, bus_of: Callable[[str], WireBus]) -> Check:
    async def check() -> str | None:
        return None if role in bus_of(role).roles else "is not served"

    return check


def _direct(ledger: Ledger) -> Check:
    async def check() -> str | None:
        [answer] = await ledger.apply([Due(process=_PROCESS, limit=1)])
        return answer.message if isinstance(answer, Failure) else None

    return check


def _asked(bus: WireBus) -> Callable[[], Awaitable[str | None]]:
    async def check() -> str | None:
        _ = await bus.ask(Due(process=_PROCESS, limit=1), deadline_s=CHECK_S)
        return None

    return check
