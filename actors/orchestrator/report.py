"""Telling the world what is durable already: live events, approvals feed, results."""

import msgspec

from messages import events as e
from messages import subjects
from messages.errors import BusError, TreadleError, WireError
from messages.ledger import Entry, Published
from messages.state import LoopState
from runtime.asking import Asking
from runtime.bus.port import Bus
from runtime.log import Level, Line, log
from runtime.views.events import event_line
from runtime.views.run import result_of

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


async def publish_result(bus: Bus, asks: Asking, state: LoopState, reply_to: str | None) -> None:
    """Put the terminal result into the results stream and remember which stream that was.

    Raises:
        TreadleError: the stream or the ledger did not take it; Due lists the run again.
    """
    stream = await bus.stream_created(subjects.RESULTS_STREAM)
    data = _ENCODE(result_of(state))
    subject = subjects.result(state.tenant, state.run_id)
    await bus.publish_durable(subject, data, message_id=f"{stream}.{state.tenant}.{state.run_id}")
    await asks.again(Published(tenant=state.tenant, run_id=state.run_id, stream=stream))
    if reply_to is not None:
        try:
            await bus.publish(reply_to, data)
        except TreadleError as error:
            log(Line.EVENTS_LOST, Level.WARNING, code=error.code)
