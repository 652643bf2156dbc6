"""The ledger's own time: what ``now`` means in every lease, expiry and ``until``.

A machine's clock may be set back. Expiries already granted must not move away again and no row may
be written before the one that caused it, so the ledger's time never goes back; and it must not
stand still either, or a dead owner would own its runs until the machine has caught up.
"""

from collections.abc import Callable

CATCH_UP = 0.5
"""Rate at which the ledger's time passes while the machine's clock is behind it."""


class LedgerClock:
    """Non-decreasing time over a machine clock that may jump.

    A jump forward is followed at once. After a jump back, time passes at half its rate until the
    machine has caught up: a lease then takes at most twice as long to expire, and waits that guard
    against a second effect (W) only become longer.
    """

    def __init__(self, machine_now: Callable[[], float], last: float = 0.0) -> None:
        """Args: machine_now: epoch seconds; last: the last time this ledger gave out, if any."""
        self._machine_now = machine_now
        self._read = machine_now()
        self._last = max(last, self._read)

    def now(self) -> float:
        """Epoch seconds, never less than the last answer."""
        read = self._machine_now()
        passed = max(0.0, read - self._read)
        self._read = read
        self._last = max(read, self._last + passed * CATCH_UP)
        return self._last
