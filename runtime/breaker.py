"""A circuit breaker: what a dependency that fails again and again is asked from then on. Pure.

Closed, everything passes. ``TRIPS_AT`` failures in a row open it; then nothing passes until a pause
is over, after which one call, the probe, finds out. A probe that fails doubles the pause. Two calls
are never probes at once. The caller reports every call that was let pass, also one that was cut.

Source: REQUIREMENTS.md C14; research/sdk-facts.md 6.7 on why no library has it.
"""

from typing import Final, Literal, NamedTuple

TRIPS_AT: Final = 5
"""Failures in a row. In a provider's bad hour a few calls fail among many that do not."""
FIRST_PAUSE_S: Final = 5.0
LONGEST_PAUSE_S: Final = 60.0
SOON_S: Final = 2.0
"""When to ask again while a probe is under way."""

State = Literal["closed", "open", "half_open"]
Ended = Literal["ok", "failed", "unheard"]
"""unheard: nothing was learnt of the dependency, as when the call was cut or is itself at fault."""


class Pass(NamedTuple):
    """Whether a call may be made.

    Attributes:
        wait_s: 0: it may. Else how long to wait before asking again.
        is_probe: All that is known of the dependency hangs on it.
    """

    wait_s: float = 0.0
    is_probe: bool = False


class Breaker:
    """One dependency's. Times are seconds of a clock that never goes back.

    Attributes:
        failures: In a row.
        trips: How often it has opened.
    """

    def __init__(self) -> None:
        self.failures = 0
        self.trips = 0
        self._pause_s = 0.0
        self._open_until = 0.0
        self._is_probed = False

    def state(self, now: float) -> State:
        """How it stands."""
        if not self._pause_s:
            return "closed"
        return "open" if now < self._open_until else "half_open"

    def admit(self, now: float) -> Pass:
        """Whether one call may be made; if so, ``ended`` must follow."""
        match self.state(now):
            case "closed":
                return Pass()
            case "open":
                return Pass(wait_s=self._open_until - now)
            case "half_open" if self._is_probed:
                return Pass(wait_s=SOON_S)
            case "half_open":
                self._is_probed = True
                return Pass(is_probe=True)

    def ended(self, admitted: Pass, how: Ended, now: float) -> None:
        """How a call that was admitted has ended."""
        if admitted.is_probe:
            self._is_probed = False
        if how == "ok":
            self.failures, self._pause_s = 0, 0.0
        elif how == "failed":
            self.failures += 1
            is_closed = not self._pause_s
            if admitted.is_probe or (is_closed and self.failures >= TRIPS_AT):
                self.trips += is_closed
                self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
                self._open_until = now + self._pause_s
