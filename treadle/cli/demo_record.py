"""The arguments of each call of a run, read off the ledger file.

The public views of events name calls without their arguments, which may be anybody's data; the
demo's are its own.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from messages.base import ReplyT, Request
from messages.events import Accepted
from runtime.clock import MachineClock
from runtime.ledger.sqlite import SqliteLedger
from runtime.views.reading import Reader

if TYPE_CHECKING:
    from messages.ledger import AnyLedgerRequest

Place = tuple[int, int]
"""Step and ordinal of a call."""


async def arguments_of(ledger_file: Path, run_id: str) -> dict[Place, dict[str, Any]]:
    """Arguments by step and ordinal, as they were validated.

    Raises:
        NotFound: there is no such run.
    """
    clock = MachineClock()
    ledger = await SqliteLedger.open_readonly(ledger_file, clock.now)

    async def ask(request: Request[ReplyT], /) -> ReplyT:
        [answer] = await ledger.apply([cast("AnyLedgerRequest", request)])
        return cast("ReplyT", answer)

    try:
        history = await Reader(ask, "default", clock.now).history(run_id)
    finally:
        await ledger.close()
    return {
        (event.step, action.ordinal): action.arguments
        for entry in history.entries
        for event in entry.events
        if isinstance(event, Accepted)
        for action in event.actions
    }
