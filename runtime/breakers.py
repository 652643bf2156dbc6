"""The breakers of one process, by the name of what they guard."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass

from runtime.breaker import Breaker, Ended
from runtime.clock import Clock
from runtime.log import Level, Line, log


@dataclass
class Call:
    """One call, or why it is not made.

    Attributes:
        wait_s: 0: it is made. Else it is not, and may be after so many seconds.
        ended: How it ended, as far as the dependency is concerned; the caller says so.
    """

    wait_s: float = 0.0
    ended: Ended = "unheard"


class Breakers:
    """One for each name that is asked for or given."""

    def __init__(self, clock: Clock, names: Iterable[str] = ()) -> None:
        """Args: clock: its ``monotonic`` is read; names: shown although nothing was called yet."""
        self._clock = clock
        self._all = {name: Breaker() for name in names}

    @contextmanager
    def call(self, name: str) -> Generator[Call]:
        """One call of a dependency while entered, unless ``wait_s`` says otherwise."""
        breaker = self._all.setdefault(name, Breaker())
        admitted = breaker.admit(self._clock.monotonic())
        call = Call(wait_s=admitted.wait_s)
        if call.wait_s:
            yield call
            return
        try:
            yield call
        finally:
            now = self._clock.monotonic()
            before = breaker.state(now)
            breaker.ended(admitted, call.ended, now)
            self._tell(name, before, breaker.state(now))

    def states(self) -> dict[str, str]:
        """How each of them stands, in the order of their names."""
        now = self._clock.monotonic()
        return {name: self._all[name].state(now) for name in sorted(self._all)}

    def _tell(self, name: str, before: str, after: str) -> None:
        if after == "open" and before != "open":
            log(Line.BREAKER_OPENED, Level.WARNING, name=name, failures=self._all[name].failures)
        elif after == "closed" and before != "closed":
            log(Line.BREAKER_CLOSED, name=name)
