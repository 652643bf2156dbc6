"""Terminal results into the results stream, also for runs that ended elsewhere.

A result counts as published only in the stream that exists now: a broker that lost its store gets
every result again (Due lists them).
"""

import msgspec
from anyio.abc import TaskGroup

from messages import subjects
from messages.errors import StorageError, TreadleError
from messages.events import Finished, RunCreated
from messages.ledger import Entry, Load, Loaded, Published
from messages.state import LoopState
from messages.status import Reason
from runtime.asking import Asking, GiveUp
from runtime.bus.port import Bus
from runtime.faults import fault
from runtime.intake import run_letter
from runtime.log import Level, Line, describe, log, scope
from runtime.loop.evolve import fold
from runtime.views.run import result_of

_ENCODE = msgspec.json.Encoder().encode
_AT_A_TIME = 8


class Publisher:
    """Publishes each result once per stream."""

    def __init__(self, bus: Bus, asking: Asking) -> None:
        """Args: bus: the process's connection; asking: for journals of runs it did not drive."""
        self._bus = bus
        self._asking = asking
        self._busy: set[tuple[str, str]] = set()

    def start(self, tasks: TaskGroup, key: tuple[str, str]) -> None:
        """Publish the result of (tenant, run) in the background, if there is a free place."""
        if key not in self._busy and len(self._busy) < _AT_A_TIME:
            self._busy.add(key)
            tasks.start_soon(self._load_and_publish, key)

    async def publish(self, state: LoopState, entries: list[Entry]) -> None:
        """Put a result into the stream, tell the submitter, remember which stream it was.

        Raises:
            GiveUp, TreadleError: it may not be there; Due lists the run again.
        """
        stream = await self._bus.stream_created(subjects.RESULTS_STREAM)
        data = _ENCODE(result_of(state))
        if state.reason == Reason.POISON:
            await self._set_aside(state, stream, data)
        fault("orchestrator.before_publish")
        await self._bus.publish_durable(
            subjects.result(state.tenant, state.run_id),
            data,
            message_id=f"{stream}.{state.tenant}.{state.run_id}",
        )
        fault("orchestrator.after_publish")
        _ = await self._asking.again(
            Published(tenant=state.tenant, run_id=state.run_id, stream=stream)
        )
        reply_to = _reply_to(entries)
        if reply_to is not None:
            await self._bus.publish(reply_to, data)

    async def _set_aside(self, state: LoopState, stream: str, result: bytes) -> None:
        """A run that only kills its owners is for a person to look at."""
        last = (await self._entries(state.tenant, state.run_id))[-1]
        ended = last.events[-1]
        why = ended.why if isinstance(ended, Finished) else ""
        subject = subjects.result(state.tenant, state.run_id)
        letter = run_letter(subject=subject, why=why, result=result, at=last.at)
        await self._bus.publish_durable(
            subjects.dead(state.tenant, "runs", state.run_id),
            _ENCODE(letter),
            message_id=f"dead-{stream}.{state.tenant}.{state.run_id}",
        )
        log(Line.RUN_POISONED, Level.ERROR, why=why)

    async def _load_and_publish(self, key: tuple[str, str]) -> None:
        with scope(tenant=key[0], run_id=key[1]):
            try:
                entries = await self._entries(*key)
                await self.publish(fold(entries), entries)
            except GiveUp as error:
                log(Line.ASK_FAILED, Level.WARNING, **describe(error.cause))
            except TreadleError as error:
                log(Line.ASK_FAILED, Level.WARNING, **describe(error))
            finally:
                self._busy.discard(key)

    async def _entries(self, tenant: str, run_id: str) -> list[Entry]:
        entries: list[Entry] = []
        is_partial = True
        while is_partial:
            after = entries[-1].version if entries else -1
            loaded = await self._asking.again(Load(tenant=tenant, run_id=run_id, after=after))
            if not isinstance(loaded, Loaded) or not loaded.entries:
                raise StorageError(f"run {run_id} ends at version {after}")
            entries.extend(loaded.entries)
            is_partial = loaded.is_partial
        return entries


def _reply_to(entries: list[Entry]) -> str | None:
    created = entries[0].events[0]
    return created.reply_to if isinstance(created, RunCreated) else None
