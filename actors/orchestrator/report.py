"""Telling the world what is durable already: live events and the feeds of people."""

import msgspec

from messages import events as e
from messages import subjects
from messages.errors import BusError, WireError
from messages.ledger import Entry
from messages.state import LoopState
from runtime.bus.port import Bus
from runtime.log import Level, Line, log
from runtime.views.events import entry_lines

ForPeople = (
    e.ApprovalRequested | e.ApprovalResolved | e.ApprovalExpired | e.HumanAsked | e.HumanAnswered
)
_ENCODE = msgspec.json.Encoder().encode


class Reporter:
    """Publishes; nothing of what it sends is the record, so a loss is only logged."""

    def __init__(self, bus: Bus) -> None:
        """Args: bus: the process's connection."""
        self._bus = bus

    async def events(self, state: LoopState, entries: list[Entry]) -> None:
        """Live progress of what was just committed."""
        try:
            for entry in entries:
                for event, line in zip(entry.events, entry_lines(entry), strict=True):
                    data = _ENCODE(line)
                    subject = subjects.event(state.tenant, state.run_id, line["kind"])
                    await self._bus.publish(subject, data)
                    if isinstance(event, ForPeople):
                        await self._bus.publish(_feed_of(state, event), data)
        except (BusError, WireError) as error:
            log(Line.EVENTS_LOST, Level.WARNING, code=error.code)


def _feed_of(state: LoopState, event: ForPeople) -> str:
    """Where people hear of it besides."""
    match event:
        case e.ApprovalRequested():
            return subjects.approval(state.tenant, event.approval_id, "requested")
        case e.ApprovalResolved() | e.ApprovalExpired():
            return subjects.approval(state.tenant, event.approval_id, "resolved")
        case e.HumanAsked():
            return subjects.question(state.tenant, state.run_id, "asked")
        case e.HumanAnswered():
            return subjects.question(state.tenant, state.run_id, "answered")
