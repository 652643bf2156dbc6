"""Runs whose next death is their last: driven one at a time until each has made progress.

When a process dies, the owner of every run that it drove has died, and at most one of them is to
blame. Driven together once more, the innocent would be set aside with the guilty one. So a run that
may not lose another owner is driven here only while no other such run is. Whoever kills its owner
then is set aside for its own deaths; the others have not even been taken, and no death is counted.
"""

from collections.abc import Callable

RunKey = tuple[str, str]
"""Tenant and run."""


class Suspects:
    """Who waits for their turn, and whose turn it is.

    Hints drive a run whatever it is suspected of: they come with news, which is a fresh start.
    """

    def __init__(self, poison_deaths: int) -> None:
        """Args: poison_deaths: so many deaths without progress set a run aside."""
        self._least = max(1, poison_deaths - 1)
        self._waiting: list[RunKey] = []
        self._turn: RunKey | None = None

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def is_one(self, deaths: int) -> bool:
        """Whether a run that lost so many owners without progress may not lose another."""
        return deaths >= self._least

    def line_up(self, keys: list[RunKey]) -> None:
        """These wait now, in this order, and no others."""
        self._waiting = keys

    def start(self, start: Callable[[RunKey], bool]) -> None:
        """Give the turn to the first that starts, if nobody has it.

        Args:
            start: starts the drive of a run; False: it is driven already, or there is no slot.
        """
        while self._turn is None and self._waiting:
            key = self._waiting.pop(0)
            if start(key):
                self._turn = key

    def clear(self, key: RunKey) -> None:
        """A run has made progress, or its drive is over: its turn, if it had it, ends."""
        if key == self._turn:
            self._turn = None
