"""What a role that answers requests has in common: how it is served, drained and supervised.

The knowledge of a role sits in a pure module named after it; its actor in ``actors/`` is the thin
shell that turns a request into a reply.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import ClassVar

import anyio

from messages.base import Message, Request
from runtime.bus.port import Bus, Serving, Work
from runtime.supervisor import ChildSpec, Phase

_LAST_S = 1.0
"""For what was accepted after the last run was given back."""


class Actor(ABC):
    """A member of its role's queue group.

    ``handle`` runs as a task with heartbeats. A role whose answers are pure overrides ``answer``
    and sets ``is_inline``: it runs on the reader at once. One of whose answers only some are
    overrides ``at_once``.
    """

    role: ClassVar[str]
    is_inline: ClassVar[bool] = False
    is_slow: ClassVar[bool] = False
    """Its calls may take minutes, as those of tools and models do."""
    slots: ClassVar[int] = 64
    pending: ClassVar[int] = 1024

    def __init__(self, bus: Bus) -> None:
        """Args: bus: the process's connection."""
        self.bus = bus
        self._serving: list[Serving] = []
        self.is_apart = False
        """No run is driven in this process."""
        self.is_serving = anyio.Event()

    @abstractmethod
    async def handle(self, request: Request[object], work: Work) -> Message:
        """Turn a request into its reply.

        Raises:
            TreadleError: travels to the asker as a failure with that code.
        """

    def answer(self, request: Request[object]) -> Message:
        """The same for a pure role; must not block."""
        raise NotImplementedError(f"{self.role} does not answer {type(request).__name__} inline")

    def at_once(self, request: Request[object]) -> Message | None:
        """The answer where nothing has to be waited for; None: ``handle`` gives it."""
        del request
        return None

    def _is_quick(self) -> bool:
        return type(self).at_once is not Actor.at_once

    def tools(self) -> tuple[str | None, ...]:
        """The tools to subscribe to; (None,) for a role that has none."""
        return (None,)

    def breakers(self, tool: str | None) -> dict[str, str]:
        """How the breakers of what it depends on stand, by name; for the directory."""
        del tool
        return {}

    @asynccontextmanager
    async def prepared(self) -> AsyncGenerator[None]:
        """What must be open while the role is served."""
        yield

    async def run(self) -> None:
        """Serve until cancelled."""
        async with self.prepared(), AsyncExitStack() as stack:
            for tool in self.tools():
                serving = await stack.enter_async_context(
                    self.bus.serve(
                        self.role,
                        self.answer if self.is_inline else self.handle,
                        tool=tool,
                        is_inline=self.is_inline,
                        at_once=self.at_once if self._is_quick() else None,
                        slots=self.slots,
                        pending=self.pending,
                        breakers=partial(self.breakers, tool),
                    )
                )
                self._serving.append(serving)
            self.is_serving.set()
            try:
                await anyio.sleep_forever()
            finally:
                self._serving.clear()

    async def drain(self, phase: Phase) -> None:
        """Let what is under way end; serve on while runs of this process finish; then stop.

        A role with long calls that no run of this process needs takes nothing new at once: its
        peers have the work.
        """
        match phase:
            case Phase.STOP_TAKING:
                if self.is_apart and self.is_slow:
                    await self._stop()
            case Phase.FINISH:
                for serving in list(self._serving):
                    await serving.finish(math.inf)  # the supervisor knows the grace period
            case Phase.RELEASE:
                return
            case Phase.CLOSE:
                await self._stop()
                for serving in list(self._serving):
                    await serving.finish(_LAST_S)

    async def _stop(self) -> None:
        for serving in list(self._serving):
            await serving.stop()

    @property
    def spec(self) -> ChildSpec:
        """How the supervisor runs it."""
        return ChildSpec(name=self.role, run=self.run, drain=self.drain)
