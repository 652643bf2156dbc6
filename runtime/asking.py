"""Asking again: which failures are tried once more here, and which are not.

A question without side effects is asked again when its worker was missing, busy, dead or late; the
answer is the same. An Execute of a write never is: what became of it is reconciled instead.
"""

from typing import TypeVar

from messages.base import Request
from messages.errors import BusError, StorageError, TreadleError
from messages.ledger import (
    Committed,
    Created,
    Done,
    DueRuns,
    LedgerRequest,
    Loaded,
    Settled,
    Taken,
)
from runtime.bus.port import Bus
from runtime.clock import Clock

ReplyT = TypeVar("ReplyT")

_TELLS_TIME = (Committed, Created, Done, DueRuns, Loaded, Settled, Taken)
_FIRST_DELAY_S = 0.05
_MAX_DELAY_S = 2.0
_PATIENCE_S = 20.0
"""A role that has been away this long: the run is released and Due brings it back."""


class GiveUp(Exception):
    """A role does not answer for too long; the run goes back to the ledger."""

    def __init__(self, role: str, cause: TreadleError) -> None:
        """Args: role: who did not answer; cause: the last error."""
        super().__init__(f"{role}: {cause.message}")
        self.role = role
        self.cause = cause


class Asking:
    """Typed asks with the retries that are safe."""

    def __init__(
        self,
        bus: Bus,
        clock: Clock,
        *,
        deadline_s: float = 10.0,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        """Ask over ``bus``.

        Args:
            bus: the process's connection.
            clock: waits between tries.
            deadline_s: of one try.
            patience_s: after which a role that does not answer is given up.
        """
        self.bus = bus
        self._clock = clock
        self._deadline_s = deadline_s
        self._patience_s = patience_s
        self._ledger_now: float | None = None
        self._read_at = 0.0

    @property
    def ledger_now(self) -> float:
        """The ledger's clock, as its last answer to this process told it.

        Raises:
            StorageError: it has not answered anything with a time yet.
        """
        if self._ledger_now is None:
            raise StorageError("the ledger has not told the time yet")
        return self._ledger_now + (self._clock.monotonic() - self._read_at)

    @property
    def ledger_age_s(self) -> float:
        """Seconds since it told the time: its clock may have been set since then."""
        return self._clock.monotonic() - self._read_at

    async def ledger(self, request: LedgerRequest[ReplyT]) -> ReplyT:
        """An operation of the ledger; each of them may be repeated (DESIGN.md section 4)."""
        return await self.again(request)

    async def again(self, request: Request[ReplyT], *, deadline_s: float | None = None) -> ReplyT:
        """Ask until there is an answer.

        Raises:
            GiveUp: there was none for ``patience_s``.
            TreadleError: the role answered that it cannot, and asking again will not help.
        """
        started = self._clock.monotonic()
        delay = _FIRST_DELAY_S
        while True:
            try:
                answer = await self.bus.ask(request, deadline_s=deadline_s or self._deadline_s)
            except (BusError, StorageError) as error:
                if self._clock.monotonic() - started > self._patience_s:
                    raise GiveUp(request.role, error) from error
            else:
                self._note_time(answer)
                return answer
            await self._clock.sleep(delay)
            delay = min(delay * 2, _MAX_DELAY_S)

    def _note_time(self, answer: object) -> None:
        if isinstance(answer, _TELLS_TIME):
            self._ledger_now, self._read_at = answer.now, self._clock.monotonic()
