"""What JetStream keeps: tasks, results, dead letters. Described, created, compared, updated.

Spoken as plain JSON requests to ``$JS.API``: a library call that creates what is missing hides a
changed configuration. Nothing newer than NATS 2.10 is used.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream

from messages import subjects
from messages.errors import Busy, NotFound, ServerError, StorageError, TreadleError
from runtime.bus.port import Stored, TaskDelivery

Config = dict[str, Any]
"""A stream's or consumer's configuration as JetStream writes it."""

GATEWAY = "gateway"
"""The one durable consumer of the task stream."""
ACK_WAIT_S = 10.0
"""A gateway that said nothing for so long has lost a task; another one gets it."""
MAX_WAITING_TASKS = 100_000
RESULTS_AGE_S = 30 * 86_400.0
DUPLICATES_S = 120.0
PULL_LIMIT = 256
"""Tasks that all gateways together may hold without an acknowledgement."""

_NOT_FOUND = {10014, 10059, 10037}
"""JetStream's codes for: no such consumer, stream, message."""
_TAKEN = 10058
"""A stream of that name exists; somebody else created it in between."""
_FULL = {10077, 10023, 10047}
"""The stream's limits, the server's, the account's: too much is stored already."""
_FIXED = ("retention", "storage")
"""What an update cannot change."""


class Api(Protocol):
    """One request to JetStream."""

    async def __call__(self, subject: str, body: Config) -> Config:
        """The answer.

        Raises:
            TreadleError: JetStream refused; see ``refusal``.
        """
        ...


class Streams(Protocol):
    """The durable half of a bus; ``jetstream`` and ``memory`` give it."""

    async def publish(self, subject: str, data: bytes, message_id: str) -> None:
        """See ``Bus.publish_durable``."""
        ...

    def consume(
        self, stream: str, durable: str, batch: int
    ) -> AbstractAsyncContextManager[MemoryObjectReceiveStream[TaskDelivery]]:
        """See ``Bus.consume``."""
        ...

    async def created(self, stream: str) -> str:
        """See ``Bus.stream_created``."""
        ...

    async def last(self, stream: str, subject: str) -> bytes | None:
        """See ``Bus.last``."""
        ...

    async def stored(self, stream: str, subject: str, after: int) -> Stored | None:
        """See ``Bus.stored``."""
        ...

    async def discard(self, stream: str, sequence: int) -> None:
        """See ``Bus.discard``."""
        ...

    async def prepare(self, agents: Sequence[str]) -> None:
        """See ``Bus.prepare_streams``."""
        ...


class _Trouble(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Answer(msgspec.Struct):
    error: _Trouble | None = None


def _ns(seconds: float) -> int:
    return int(seconds * 1_000_000_000)


def tasks_stream(agents: Iterable[str]) -> Config:
    """The work queue: one subject per known agent; when it is full, the publisher hears so."""
    return {
        "name": subjects.TASKS_STREAM,
        "subjects": sorted(subjects.tasks_of_agent(agent) for agent in agents),
        "retention": "workqueue",
        "storage": "file",
        "discard": "new",
        "max_msgs": MAX_WAITING_TASKS,
        "duplicate_window": _ns(DUPLICATES_S),
    }


def results_stream() -> Config:
    """The newest result of each run, readable by subject."""
    return {
        "name": subjects.RESULTS_STREAM,
        "subjects": [f"{subjects.ROOT}.results.>"],
        "retention": "limits",
        "storage": "file",
        "discard": "old",
        "max_msgs_per_subject": 1,
        "max_age": _ns(RESULTS_AGE_S),
        "allow_direct": True,
        "duplicate_window": _ns(DUPLICATES_S),
    }


def dead_stream() -> Config:
    """What was set aside, until a person deals with it."""
    return {
        "name": subjects.DEAD_STREAM,
        "subjects": [f"{subjects.ROOT}.dead.>"],
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "max_msgs": MAX_WAITING_TASKS,
        "allow_direct": True,
        "duplicate_window": _ns(DUPLICATES_S),
    }


def gateway_consumer() -> Config:
    """Shared by all gateways. Tries are counted by them (``port.MAX_TRIES``), not by JetStream.

    A consumer with a delivery limit leaves the message in the stream without telling anybody.
    """
    return {
        "durable_name": GATEWAY,
        "name": GATEWAY,
        "ack_policy": "explicit",
        "ack_wait": _ns(ACK_WAIT_S),
        "max_deliver": -1,
        "max_ack_pending": PULL_LIMIT,
        "deliver_policy": "all",
        "replay_policy": "instant",
    }


def differs(wanted: Config, live: Config) -> bool:
    """Whether the live configuration contradicts ours; what we do not set does not count."""
    return any(live.get(key) != value for key, value in wanted.items())


def refusal(what: str, answer: bytes) -> TreadleError | None:
    """The error that an answer of JetStream is, or None if it is none.

    Args:
        what: whom we asked, for the text.
        answer: its JSON.
    """
    try:
        trouble = msgspec.json.decode(answer, type=_Answer).error
    except msgspec.DecodeError as error:
        return StorageError(
            f"{what}: JetStream answered {len(answer)} bytes that are no answer: {error}"
        )
    if trouble is None:
        return None
    if trouble.err_code in _NOT_FOUND:
        return NotFound("stream, consumer or message", what)
    if trouble.err_code in _FULL:
        return Busy(f"{what}: {trouble.description}")
    return Refusal(what, trouble.err_code, trouble.description)


class Refusal(StorageError):
    """JetStream said no; ``number`` is its error code."""

    def __init__(self, what: str, number: int, description: str) -> None:
        """Args: what: whom we asked; number, description: what it said."""
        super().__init__(f"{what}: {description} ({number})")
        self.number = number


async def prepare(api: Api, agents: Sequence[str]) -> None:
    """Make the streams and the gateway's consumer what this version wants; see ``Bus``."""
    await _settle_stream(api, tasks_stream(agents), is_keeping=True)
    await _settle_stream(api, results_stream())
    await _settle_stream(api, dead_stream())
    await _settle_consumer(api, subjects.TASKS_STREAM, gateway_consumer())


async def _settle_stream(api: Api, wanted: Config, *, is_keeping: bool = False) -> None:
    name = wanted["name"]
    try:
        found = await api(f"STREAM.INFO.{name}", {"subjects_filter": ">"} if is_keeping else {})
    except NotFound:
        try:
            await api(f"STREAM.CREATE.{name}", wanted)
        except Refusal as error:
            if error.number != _TAKEN:
                raise
            await _settle_stream(api, wanted, is_keeping=is_keeping)
        return
    live = found["config"]
    for key in _FIXED:
        if live.get(key) != wanted[key]:
            raise ServerError(
                f"stream {name} exists with {key}={live.get(key)}, and that cannot be changed",
                hint="move its messages away and delete it, or use another NATS account",
            )
    if is_keeping:
        held: dict[str, int] = found.get("state", {}).get("subjects") or {}
        wanted = {**wanted, "subjects": keep_subjects(wanted["subjects"], live["subjects"], held)}
    if differs(wanted, live):
        await api(f"STREAM.UPDATE.{name}", {**live, **wanted})


def keep_subjects(wanted: Iterable[str], live: Iterable[str], held: Iterable[str]) -> list[str]:
    """Our subjects, and those of agents that are gone while tasks for them still wait."""
    agents = {subject.rpartition(".")[2] for subject in held}
    kept = {subject for subject in live if subject.rpartition(".")[2] in agents}
    return sorted(kept.union(wanted))


async def _settle_consumer(api: Api, stream: str, wanted: Config) -> None:
    name = wanted["name"]
    try:
        found = await api(f"CONSUMER.INFO.{stream}.{name}", {})
    except NotFound:
        live: Config = {}
    else:
        live = found["config"]
    if differs(wanted, live):
        body = {"stream_name": stream, "config": {**live, **wanted}}
        await api(f"CONSUMER.CREATE.{stream}.{name}", body)
