"""The ledger as an evaluation's roles see it: with its own runs to drive and nobody else's."""

from collections.abc import Sequence

from msgspec.structs import replace

from messages.ledger import (
    AnyLedgerRequest,
    Append,
    Committed,
    Create,
    Created,
    Due,
    DueRun,
    DueRuns,
)
from runtime.ledger.port import GroupAnswer, Ledger

TENANT = "default"
"""Whose the runs of evaluations are: the one tenant of a data directory that configures none."""


class OwnRuns:
    """Implements ``Ledger`` over another one.

    A data directory may hold open runs of an app whose daemon is down; roles that do not know their
    agents would end them. So Due lists only what was created through here.

    Attributes:
        open: The runs that were created through here and have not ended, as far as is known: who
            is cancelled while the ledger commits does not hear what became of it.
        ended: Those that have.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.open: set[str] = set()
        self.ended: set[str] = set()

    async def apply(self, operations: Sequence[AnyLedgerRequest]) -> list[GroupAnswer]:
        """See ``Ledger``."""
        self.open.update(each.run_id for each in operations if isinstance(each, Create))
        answers = await self._ledger.apply([_without_others(each) for each in operations])
        return [self._seen(*pair) for pair in zip(operations, answers, strict=True)]

    async def close(self) -> None:
        """See ``Ledger``."""
        await self._ledger.close()

    def _seen(self, operation: AnyLedgerRequest, answer: GroupAnswer) -> GroupAnswer:
        match operation, answer:
            case (Create(), Created()) | (Append(), Committed()) if _has_ended(operation):
                self.open.discard(operation.run_id)
                self.ended.add(operation.run_id)
            case Due(), DueRuns():
                return replace(answer, runs=self._due(operation))
            case _:
                pass
        return answer

    def _due(self, operation: Due) -> tuple[DueRun, ...]:
        driving = {name.partition("/")[2] for name in operation.driving}
        free = sorted(self.open - driving)[: operation.limit]
        return tuple(DueRun(tenant=TENANT, run_id=run_id, need="drive") for run_id in free)


def _has_ended(operation: Create | Append) -> bool:
    return operation.summary.status.is_terminal


def _without_others(operation: AnyLedgerRequest) -> AnyLedgerRequest:
    """Due asks for nothing, only for the ledger's time."""
    if isinstance(operation, Due):
        return replace(operation, limit=0, stream="")
    return operation
