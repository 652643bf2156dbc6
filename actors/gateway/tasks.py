"""Tasks from the stream: each becomes a durable run, or is refused aloud and kept as a dead letter.

The order is what makes intake lose nothing: the run (or the letter) is durable, then the submitter
is told, then the message is acknowledged. A crash between any two repeats the message, and the
same message gives the same run.
"""

from typing import NamedTuple

from actors.gateway.runs import App, Birth, Runs, Sender
from messages import subjects
from messages.codec import encode
from messages.errors import (
    BadTask,
    BusError,
    NotAllowed,
    RemoteFailure,
    StorageError,
    TreadleError,
    WireError,
)
from messages.subjects import TaskAddress
from messages.task import Accepted, Refusal, Task
from runtime.bus.failures import INTERNAL
from runtime.bus.port import MAX_TRIES, Bus, TaskDelivery
from runtime.faults import fault
from runtime.intake import (
    Admitted,
    admit,
    dead_letter,
    derived_run_id,
    lenient,
    parse_task,
    refusal_of,
    tenant_of,
    trace_of,
)
from runtime.log import Level, Line, describe, log

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 2.0
"""Between two tries while the ledger is away; with ``Runs``' deadline below the AckWait of 10 s."""
RETRY_S = 1.0
"""Before a message that made the handler fail is handed to whichever gateway is free."""


class Intake:
    """Deals with one delivery at a time; any number at once."""

    def __init__(self, bus: Bus, app: App, runs: Runs) -> None:
        self._bus = bus
        self._app = app
        self._clock = app.clock
        self._runs = runs
        self._is_stopping = False

    def stop(self) -> None:
        """Give tasks that wait for the ledger back, so that another gateway can take them."""
        self._is_stopping = True

    async def take(self, delivery: TaskDelivery) -> None:
        """Acknowledge, retry or set aside one delivery; never raises."""
        try:
            await self._take(delivery)
        except Exception as error:  # noqa: BLE001 -- one message must not stop the others
            log(Line.HANDLER_FAILED, Level.WARNING, sequence=delivery.sequence, **describe(error))
            await self._failed(delivery, error)

    async def _take(self, delivery: TaskDelivery) -> None:
        if delivery.deliveries > MAX_TRIES:
            await self._refuse(delivery, _Crashing())
            return
        try:
            checked = self._check(delivery)
        except TreadleError as error:
            await self._refuse(delivery, error)
            return
        accepted = await self._create_patiently(delivery, checked)
        await self._tell(delivery, accepted)
        fault("gateway.before_ack")
        await delivery.ack()

    async def _failed(self, delivery: TaskDelivery, error: Exception) -> None:
        try:
            if isinstance(error, WireError | BadTask):
                await self._refuse(delivery, error)
            elif delivery.deliveries >= MAX_TRIES and not _is_blameless(error):
                await self._refuse(delivery, _Unhandled(error))
            else:
                await delivery.retry(RETRY_S)
        except TreadleError as failure:  # it comes again by itself after the consumer's AckWait
            log(Line.BUS_ERROR, Level.WARNING, sequence=delivery.sequence, code=failure.code)

    def _check(self, delivery: TaskDelivery) -> "_Checked":
        address = subjects.parse_task(delivery.subject)
        task = parse_task(delivery.data)
        admitted = admit(task, address, self._app.agents, self._app.settings)
        return _Checked(Sender(address.tenant, address.principal), task, admitted)

    async def _create_patiently(self, delivery: TaskDelivery, checked: "_Checked") -> Accepted:
        """Hold on to a task while the bus or the ledger is away: waiting is no failed try."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return await self._create(delivery, checked)
            except TreadleError as error:
                if self._is_stopping or not _is_blameless(error):
                    raise
                log(Line.ASK_FAILED, Level.WARNING, sequence=delivery.sequence, code=error.code)
            await delivery.extend()
            await self._clock.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)

    async def _create(self, delivery: TaskDelivery, checked: "_Checked") -> Accepted:
        sender, task, admitted = checked
        run_id = task.run_id or await self._derive(delivery)
        birth = Birth(run_id, trace_of(delivery.headers))
        return await self._runs.create(sender, task, admitted, birth)

    async def _derive(self, delivery: TaskDelivery) -> str:
        created = await self._bus.stream_created(subjects.TASKS_STREAM)
        return derived_run_id(created, delivery.sequence, delivery.data)

    async def _refuse(self, delivery: TaskDelivery, error: TreadleError) -> None:
        run_id, _ = lenient(delivery.data, None)
        refusal = refusal_of(error, run_id)
        letter = dead_letter(
            refusal,
            subject=delivery.subject,
            data=delivery.data,
            deliveries=delivery.deliveries,
            sequence=delivery.sequence,
            at=self._clock.now(),
        )
        created = await self._bus.stream_created(subjects.TASKS_STREAM)
        where = subjects.dead(tenant_of(delivery.subject), "tasks", str(delivery.sequence))
        name = f"dead-{created}-{delivery.sequence}"
        await self._bus.publish_durable(where, encode(letter), message_id=name)
        log(Line.DEAD_LETTERED, Level.WARNING, subject=where, code=refusal.code)
        await self._tell(delivery, refusal)
        await delivery.drop(refusal.code)

    async def _tell(self, delivery: TaskDelivery, answer: Accepted | Refusal) -> None:
        """Answer on ``reply_to`` inside the sender's place; a lost answer is no harm."""
        _, reply_to = lenient(delivery.data, _address(delivery.subject))
        if reply_to is None:
            return
        try:
            await self._bus.publish(reply_to, encode(answer))
        except TreadleError as error:
            log(Line.BUS_ERROR, Level.WARNING, subject=reply_to, code=error.code)


class _Checked(NamedTuple):
    """What the pure part made of a delivery."""

    sender: Sender
    task: Task
    admitted: Admitted


class _Crashing(TreadleError):
    """Whoever took the message never came back to say what became of it."""

    code = "POISON"

    def __init__(self) -> None:
        super().__init__(f"this task was delivered {MAX_TRIES} times and nobody survived it")


class _Unhandled(TreadleError):
    """A message that makes the handler fail; only the failure's type leaves the process."""

    code = "POISON"

    def __init__(self, error: Exception) -> None:
        kind = type(error).__name__
        super().__init__(f"handling this task failed {MAX_TRIES} times, at last with {kind}")


def _is_blameless(error: Exception) -> bool:
    """Whether the message is not to blame: the bus, the ledger or a process between them is."""
    if isinstance(error, RemoteFailure):
        return error.remote_code != INTERNAL
    return isinstance(error, BusError | StorageError | NotAllowed)


def _address(subject: str) -> TaskAddress | None:
    try:
        return subjects.parse_task(subject)
    except TreadleError:
        return None
