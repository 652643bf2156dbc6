"""The ledger as the checkpointer sees it: a group of operations in, their answers out."""

from collections.abc import Sequence
from typing import Protocol

from messages.base import Failure
from messages.ledger import AnyLedgerAnswer, AnyLedgerRequest

GroupAnswer = AnyLedgerAnswer | Failure
"""The answer to one operation of a group; a Failure is that operation's alone."""


class Ledger(Protocol):
    """A back end. SQLite, PostgreSQL and the in-memory one share ``rules`` and one suite."""

    async def apply(self, operations: Sequence[AnyLedgerRequest]) -> list[GroupAnswer]:
        """Apply the operations in order in one transaction and answer after the commit.

        Each operation has its own answer, at its own index; one that is refused does not disturb
        the others. An operation that cannot be carried out (a corrupt run, a bug) is answered
        with a Failure and the others are committed all the same.

        A commit that has begun is not abandoned by cancellation: it ends, and the cancellation is
        raised after it. So a caller that was cancelled does not know whether it was committed.

        Raises:
            StorageError: nothing of the group was committed; trying again may help.
        """
        ...

    async def close(self) -> None:
        """Let go of files and connections."""
        ...
