"""Cutting a model call short when a signal arrives."""

from types import TracebackType

import anyio


class Interrupt:
    """Lets a signal cut a model call short."""

    def __init__(self) -> None:
        """Nothing is being thought about."""
        self._scope: anyio.CancelScope | None = None

    def fire(self) -> None:
        """Cut the call in flight, if there is one."""
        if self._scope is not None:
            self._scope.cancel()

    def __enter__(self) -> anyio.CancelScope:
        """Begin a call that may be cut."""
        self._scope = anyio.CancelScope()
        return self._scope.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """The call is over or was cut."""
        scope, self._scope = self._scope, None
        return scope is not None and bool(scope.__exit__(kind, error, trace))
