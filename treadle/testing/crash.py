"""A process that dies once around the effect of a write."""

from typing import Any, Literal

import anyio

from runtime.tools.call import Caller
from runtime.tools.context import Ctx
from runtime.tools.outcome import Called
from runtime.tools.tool import Tool

Crash = Literal["before_effect", "after_effect"]
"""Where the process dies once: a write is claimed and not sent, or done and not recorded."""


class Dying:
    """The moment the process dies, once."""

    def __init__(self, at: Crash | None) -> None:
        self._at = at
        self._dead = anyio.Event()

    @property
    def is_dead(self) -> bool:
        """Whether it has happened."""
        return self._dead.is_set()

    async def reach(self, place: Crash) -> None:
        """Die here, if this is the place; a dead process does nothing more."""
        if place == self._at:
            self._dead.set()
            await anyio.sleep_forever()

    async def end(self, scope: anyio.CancelScope) -> None:
        """Take everything down at once, as a signal would."""
        await self._dead.wait()
        scope.cancel()


class MortalCaller(Caller):
    """Runs tools, and may die around the effect of a write."""

    def __init__(self, dying: Dying, **parts: Any) -> None:
        super().__init__(**parts)
        self._dying = dying

    async def call(
        self,
        tool: Tool[..., Any],
        ctx: Ctx[Any],
        values: dict[str, object],
        *,
        timeout_s: float | None = None,
    ) -> Called:
        """See ``Caller``."""
        if tool.kind == "write":
            await self._dying.reach("before_effect")
        called = await super().call(tool, ctx, values, timeout_s=timeout_s)
        if tool.kind == "write":
            await self._dying.reach("after_effect")
        return called
