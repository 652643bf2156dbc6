"""A cancel that was heard of: it cuts short what is in flight."""

from types import TracebackType

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
        self._open: set[_Cutting] = set()

    def fire(self) -> None:
        """Cut what is in flight."""
        self.is_heard = True
        for waiting in self._open:
            waiting.cut()

    def cutting(self, *, grace_s: float = 0.0) -> "_Cutting":
        """What is done while entered is cut at a cancel, so many seconds after it."""
        return _Cutting(self, self._open, grace_s)


class _Cutting:
    """One thing that is waited for."""

    def __init__(self, interrupt: Interrupt, others: "set[_Cutting]", grace_s: float) -> None:
        self._interrupt = interrupt
        self._others = others
        self._grace_s = grace_s
        self._scope = anyio.CancelScope()

    def cut(self) -> None:
        if self._grace_s > 0:
            self._scope.deadline = min(self._scope.deadline, anyio.current_time() + self._grace_s)
        else:
            self._scope.cancel()

    def __enter__(self) -> None:
        self._scope.__enter__()
        self._others.add(self)
        if self._interrupt.is_heard:
            self.cut()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._others.discard(self)
        return bool(self._scope.__exit__(kind, error, trace))
