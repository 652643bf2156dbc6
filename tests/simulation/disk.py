"""The disk under the ledger: it outlives every process, is slow and refuses now and then."""

from collections.abc import Callable, Sequence

import anyio

from messages.errors import StorageError
from messages.ledger import AnyLedgerRequest
from runtime.ledger.memory import MemoryLedger
from runtime.ledger.port import GroupAnswer
from tests.simulation.options import Options

Watch = Callable[[AnyLedgerRequest, GroupAnswer], None]
"""Told of every operation in the moment in which it is carried out."""

_SHARE = (0.0, 0.01, 0.05)
_SLOW_S = (0.003, 0.05, 0.6)


class Disk:
    """What is durable (``Ledger``); any number of checkpointers may share it, as over PostgreSQL.

    A checkpointer that dies in here has committed or not, and nobody was told.

    Attributes:
        is_healed: Nothing goes wrong any more.
    """

    def __init__(self, options: Options, clock_now: Callable[[], float], watch: Watch) -> None:
        self.ledger = MemoryLedger(clock_now)
        self.is_healed = False
        self._watch = watch
        self._chance = options.chance("disk")
        level = options.level("disk")
        self._share, self._slow_s = _SHARE[level], _SLOW_S[level]

    async def apply(self, operations: Sequence[AnyLedgerRequest]) -> list[GroupAnswer]:
        """See ``Ledger``."""
        chance = self._chance.random
        await anyio.sleep(0.001 if self.is_healed else chance() * self._slow_s)
        if not self.is_healed and chance() < self._share:
            raise StorageError("the disk refuses")
        answers = [self._one(operation) for operation in operations]
        await anyio.sleep(0.0 if self.is_healed else chance() * 0.002)
        return answers

    def _one(self, operation: AnyLedgerRequest) -> GroupAnswer:
        [answer] = self.ledger.apply_now([operation])
        self._watch(operation, answer)
        return answer

    async def close(self) -> None:
        """See ``Ledger``."""
        await anyio.lowlevel.checkpoint()
