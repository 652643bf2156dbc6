"""A cancel that was heard of: it cuts short what is in flight."""

from collections.abc import Generator
from contextlib import contextmanager

import anyio


class Interrupt:
    """Lets a cancel cut short what a drive waits for.

    The word of a cancel is only a hint: whoever is cut, or sees that it was heard, reads the
    signals from the ledger before anything else.

    Attributes:
        is_heard: A cancel was told of and the signals have not been read since.
    """

    def __init__(self) -> None:
        """Nothing is in flight."""
        self.is_heard = False
        self._open: dict[anyio.CancelScope, float] = {}

    def fire(self) -> None:
        """Cut what is in flight."""
        self.is_heard = True
        for scope, grace_s in self._open.items():
            _cut(scope, grace_s)

    @contextmanager
    def cutting(self, *, grace_s: float = 0.0) -> Generator[None]:
        """Begin something that is cut at a cancel, so many seconds after it."""
        with anyio.CancelScope() as scope:
            self._open[scope] = grace_s
            if self.is_heard:
                _cut(scope, grace_s)
            try:
                yield
            finally:
                del self._open[scope]


def _cut(scope: anyio.CancelScope, grace_s: float) -> None:
    if grace_s > 0:
        scope.deadline = min(scope.deadline, anyio.current_time() + grace_s)
    else:
        scope.cancel()
