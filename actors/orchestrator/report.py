"""Telling the world what is durable already: live events and the feeds of people."""

import msgspec

from messages import events as e
from messages import subjects
from messages.errors import BusError, WireError
from messages.ledger import Entry
from messages.state import LoopState
from runtime.bus.port import Bus
from runtime.log import Level, Line, log
from runtime.views.events import event_line

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
                for event in entry.events:
                    line = event_line(entry, event)
                    subject = subjects.event(state.tenant, state.run_id, str(line["kind"]))
                    await self._bus.publish(subject, _ENCODE(line))
                    await self._feed(state, event, line)
        except (BusError, WireError) as error:
            log(Line.EVENTS_LOST, Level.WARNING, code=error.code)

    async def _feed(self, state: LoopState, event: e.AnyEvent, line: dict[str, object]) -> None:
        tenant = state.tenant
        match event:
            case e.ApprovalRequested():
                subject = subjects.approval(tenant, event.approval_id, "requested")
            case e.ApprovalResolved() | e.ApprovalExpired():
                subject = subjects.approval(tenant, event.approval_id, "resolved")
            case e.HumanAsked():
                subject = subjects.question(tenant, state.run_id, "asked")
            case e.HumanAnswered():
                subject = subjects.question(tenant, state.run_id, "answered")
            case _:
                return
        await self._bus.publish(subject, _ENCODE(line))
