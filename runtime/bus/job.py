"""One request that a server has accepted and not answered yet."""

from typing import TYPE_CHECKING

from messages.base import Request
from runtime.clock import Clock

if TYPE_CHECKING:
    import anyio

MAX_PROGRESS = 200
"""Characters of a progress note that a heartbeat carries."""


class Job:
    """What a handler knows of the ask it serves (``port.Work``), and what its server needs."""

    __slots__ = (
        "_clock",
        "deadline",
        "is_ended",
        "is_seen_through",
        "next_beat",
        "progress",
        "reply",
        "request",
        "scope",
    )

    def __init__(
        self, request: Request[object], reply: str, deadline: float, next_beat: float, clock: Clock
    ) -> None:
        """Args.

        request: what is asked.
        reply: where beats and the answer go.
        deadline: monotonic time at which the asker gives up.
        next_beat: monotonic time of the next heartbeat.
        clock: whose monotonic time.
        """
        self.request = request
        self.reply = reply
        self.deadline = deadline
        self.next_beat = next_beat
        self.progress = ""
        self.is_ended = False
        self.is_seen_through = False
        self.scope: anyio.CancelScope | None = None
        self._clock = clock

    @property
    def seconds_left(self) -> float:
        """See ``port.Work``."""
        return max(0.0, self.deadline - self._clock.monotonic())

    def beat(self, progress: str) -> None:
        """See ``port.Work``."""
        self.progress = progress[:MAX_PROGRESS]

    def see_through(self) -> None:
        """See ``port.Work``."""
        self.is_seen_through = True

    def abandon(self) -> None:
        """Nobody waits for it: no beats, no reply, and its handler is cancelled if it may be."""
        self.is_ended = True
        if self.scope is not None and not self.is_seen_through:
            self.scope.cancel()
