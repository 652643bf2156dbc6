"""A role that is here, and what it has done: what the directory tells of it."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from runtime.clock import Clock


class Listed(Protocol):
    """What the directory tells of a role that a process serves."""

    @property
    def role(self) -> str:
        """Which."""
        ...

    @property
    def tool(self) -> str | None:
        """Of an executor: which tool."""
        ...

    @property
    def subject(self) -> str:
        """Where it listens."""
        ...

    @property
    def served(self) -> int:
        """What it has dealt with, failures included."""
        ...

    @property
    def failed(self) -> int:
        """What it answered with a failure."""
        ...

    @property
    def refused(self) -> int:
        """What it refused because it had too much to do."""
        ...

    @property
    def running(self) -> int:
        """What it works on now."""
        ...

    @property
    def waiting(self) -> int:
        """What waits for it."""
        ...

    @property
    def busy_s(self) -> float:
        """Seconds it has worked, in all."""
        ...

    @property
    def breakers(self) -> Callable[[], dict[str, str]]:
        """How the breakers of what it depends on stand, by name."""
        ...


@dataclass(kw_only=True)
class Presence:
    """A role that is served by other means than ``Bus.serve`` (``Listed``): it counts itself."""

    role: str
    subject: str
    tool: str | None = None
    served: int = 0
    failed: int = 0
    refused: int = 0
    running: int = 0
    waiting: int = 0
    busy_s: float = 0.0
    breakers: Callable[[], dict[str, str]] = dict[str, str]

    @contextmanager
    def at_work(self, clock: Clock) -> Generator[None]:
        """Count one piece of work while entered."""
        started = clock.monotonic()
        self.running += 1
        try:
            yield
        except Exception:
            self.failed += 1
            raise
        finally:
            self.running -= 1
            self.served += 1
            self.busy_s += clock.monotonic() - started
