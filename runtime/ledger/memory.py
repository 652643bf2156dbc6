"""The ledger in memory: for tests, ``testing.run`` and the simulator. Nothing outlives it."""

from collections.abc import Callable, Sequence

import anyio.lowlevel

from messages.ledger import AnyLedgerRequest
from runtime.ledger.clock import LedgerClock
from runtime.ledger.failures import as_failure
from runtime.ledger.memory_tables import MemoryTables
from runtime.ledger.port import GroupAnswer
from runtime.ledger.rules import apply


class MemoryLedger:
    """Implements ``Ledger``.

    Attributes:
        tables: The rows, which a test may look at or tamper with.
    """

    def __init__(self, clock_now: Callable[[], float]) -> None:
        """Args: clock_now: epoch seconds."""
        self.tables = MemoryTables()
        self._clock = LedgerClock(clock_now)

    async def apply(self, operations: Sequence[AnyLedgerRequest]) -> list[GroupAnswer]:
        """See ``Ledger``. A cancellation arrives before anything is changed, or not at all."""
        await anyio.lowlevel.checkpoint()
        return self.apply_now(operations)

    def apply_now(self, operations: Sequence[AnyLedgerRequest]) -> list[GroupAnswer]:
        """The same without giving way, for a simulator that has no event loop."""
        now = self._clock.now()
        return [self._one(op, now) for op in operations]

    def _one(self, op: AnyLedgerRequest, now: float) -> GroupAnswer:
        self.tables.begin()
        try:
            return apply(self.tables, op, now)
        except Exception as error:  # noqa: BLE001 -- one bad operation must not spoil its group
            self.tables.undo()
            return as_failure(op, error)

    async def close(self) -> None:
        """See ``Ledger``."""
        await anyio.lowlevel.checkpoint()
