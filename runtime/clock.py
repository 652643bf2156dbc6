"""Time, ids and randomness: the only place that asks the machine for them.

Whatever needs one of the three takes it as an argument, so a test, the simulator and a replay can
supply their own. Decisions (``runtime.loop``) get plain values and never see these classes.
"""

import os
import random
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

import anyio

Chance = Callable[[], float]
"""A random number from 0.0 up to, but not including, 1.0."""

machine_chance: Chance = random.SystemRandom().random
"""The machine's randomness, for jitter."""


class Clock(Protocol):
    """What time it is, and waiting for it to pass."""

    def now(self) -> float:
        """Seconds since the Unix epoch, UTC; may jump when the machine's clock is set."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back, means nothing to other processes."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds of ``monotonic``."""
        ...


class Ids(Protocol):
    """Names nobody else has."""

    def new_id(self, prefix: str) -> str:
        """An identifier ``<prefix>-<letters and digits>``, unique without asking anyone."""
        ...

    def new_secret(self) -> str:
        """A password that cannot be guessed."""
        ...


class MachineClock:
    """The machine's clock; read some sixty times an iteration, so without a frame of its own."""

    now = staticmethod(time.time)  # noqa: TID251 -- this is the place
    monotonic = staticmethod(time.monotonic)  # noqa: TID251 -- this is the place

    async def sleep(self, seconds: float) -> None:
        """See ``Clock``."""
        await anyio.sleep(seconds)


class MachineIds:
    """Random ids and passwords.

    An id holds 80 random bits: a billion runs of one tenant meet twice with probability 4e-7.
    """

    def new_id(self, prefix: str) -> str:
        """See ``Ids``."""
        return f"{prefix}-{os.urandom(10).hex()}"

    def new_secret(self) -> str:
        """See ``Ids``."""
        return secrets.token_urlsafe(32)


class FakeClock:
    """A clock that stands still until it is told otherwise; for tests and the simulator.

    Attributes:
        sleepers: How many tasks sleep on this clock now.
    """

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        """Args: now: what it shows first, in epoch seconds; ``monotonic`` starts at 0."""
        self._start = now
        self._elapsed = 0.0
        self._waiting: list[tuple[float, anyio.Event]] = []

    def now(self) -> float:
        """See ``Clock``."""
        return self._start + self._elapsed

    def monotonic(self) -> float:
        """See ``Clock``."""
        return self._elapsed

    @property
    def sleepers(self) -> int:
        """How many tasks sleep on this clock now."""
        return len(self._waiting)

    async def sleep(self, seconds: float) -> None:
        """Sleep until ``advance`` has gone far enough."""
        sleeper = (self._elapsed + seconds, anyio.Event())
        self._waiting.append(sleeper)
        try:
            await sleeper[1].wait()
        finally:
            self._waiting.remove(sleeper)

    def advance(self, seconds: float) -> None:
        """Let time pass and wake whoever has slept long enough."""
        self._elapsed += seconds
        for due, woken in self._waiting:
            if due <= self._elapsed:
                woken.set()

    def jump(self, seconds: float) -> None:
        """Set ``now`` forward or back, as an administrator or NTP does; ``monotonic`` stays."""
        self._start += seconds


class FixedIds:
    """Ids from supplied sequences, so that a golden test can name them.

    A prefix without a sequence counts: ``run-1``, ``run-2``. A sequence that has run out is an
    error, since a golden test that needs more ids than it names is not the test it was.
    """

    def __init__(self, sequences: Mapping[str, Iterable[str]] | None = None) -> None:
        """Args: sequences: whole ids by prefix, as in ``{"apr": ["apr-5521"]}``."""
        self._sequences: dict[str, Iterator[str]] = {
            prefix: iter(ids) for prefix, ids in (sequences or {}).items()
        }
        self._counts: dict[str, int] = {}

    def new_id(self, prefix: str) -> str:
        """The next supplied id of that prefix.

        Raises:
            LookupError: The supplied sequence is used up.
        """
        sequence = self._sequences.get(prefix)
        if sequence is None:
            return f"{prefix}-{self._count(prefix)}"
        for supplied in sequence:
            return supplied
        message = f"no more ids supplied for {prefix!r}"
        raise LookupError(message)

    def new_secret(self) -> str:
        """``secret-1``, ``secret-2`` …."""
        return f"secret-{self._count('secret')}"

    def _count(self, prefix: str) -> int:
        self._counts[prefix] = self._counts.get(prefix, 0) + 1
        return self._counts[prefix]
