"""How a call of user code ended, as data; what that means is said in ``runtime.tools.outcome``."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Returned:
    """The function came back."""

    value: object


@dataclass(frozen=True)
class Raised:
    """The function raised."""

    error: BaseException


@dataclass(frozen=True)
class Late:
    """It did not come back in time; what started may still be running.

    Attributes:
        has_started: False: its time was up before it could be called.
    """

    has_started: bool


@dataclass(frozen=True)
class Vanished:
    """The function cancelled itself: it neither returned nor raised anything."""


Ended = Returned | Raised | Late | Vanished
"""How a call of user code ended."""
