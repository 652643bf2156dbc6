"""The gateway's shell: two doors, the bounds on what goes on behind them, and the drain."""

from collections.abc import Mapping

import anyio
from anyio.abc import TaskGroup, TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream

from actors.gateway.api import Api
from actors.gateway.runs import App, Runs
from actors.gateway.tasks import Intake
from messages import subjects
from messages.agent import AgentSpec
from messages.errors import Busy, Unreachable
from runtime.bus.port import Bus, Delivery, TaskDelivery
from runtime.bus.presence import Presence
from runtime.calls import calls_spec
from runtime.clock import Clock, Ids
from runtime.settings import Settings
from runtime.supervisor import ChildSpec, Phase

API_SUBJECTS = f"{subjects.ROOT}.api.*.*.*"
ROLE = "gateway"
"""Queue group of the API, and name of the durable consumer of tasks: gateways share both."""
TASK_SLOTS = 16
API_SLOTS = 32
API_PENDING = 256
"""How many requests may wait for a slot; beyond, a client hears BUSY at once."""


class Gateway:
    """Intake and the public API.

    Receives: tasks from ``TREADLE_TASKS``; requests on ``treadle.api.<tenant>.<principal>.<verb>``.

    Replies: ``Accepted`` or ``Refusal`` on a task's ``reply_to``; one JSON object per request.

    Guarantees: a task is acknowledged after its run, or its dead letter, is durable; the same
    message gives the same run; who somebody is comes from the subject alone; at most ``TASK_SLOTS``
    tasks and ``API_SLOTS`` requests are worked on at once, and what exceeds ``API_PENDING`` is
    refused aloud.
    """

    def __init__(
        self,
        *,
        bus: Bus,
        agents: Mapping[str, AgentSpec],
        settings: Settings,
        clock: Clock,
        ids: Ids,
    ) -> None:
        """Args: bus: this process's connection; agents: every agent of the app, by name."""
        calls = calls_spec(agents)
        own = {name: spec for name, spec in agents.items() if spec is not calls}
        app = App(agents=own, settings=settings, clock=clock, ids=ids, calls=calls)
        runs = Runs(bus, app)
        self._bus = bus
        self._intake = Intake(bus, app, runs)
        self._api = Api(bus, app, runs)
        self._presence = Presence(role=ROLE, subject=API_SUBJECTS)
        self._clock = clock
        self._doors = anyio.CancelScope()
        self._is_stopping = False
        self._ended = anyio.Event()
        self._ended.set()
        self.is_open = anyio.Event()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled, or until a drain has let the last call finish.

        Raises:
            Unreachable: (in a group) the bus closed a door; a supervisor opens it again.
        """
        self._ended = anyio.Event()
        try:
            async with anyio.create_task_group() as work:
                with anyio.CancelScope() as self._doors:
                    if not self._is_stopping:
                        await self._open(work, task_status)
        finally:
            self._ended.set()

    async def drain(self, phase: Phase) -> None:
        """Take nothing new; then wait for what is under way. It owns nothing to release."""
        match phase:
            case Phase.STOP_TAKING:
                self._is_stopping = True
                self._intake.stop()
                self._doors.cancel()
            case Phase.FINISH:
                await self._ended.wait()
            case Phase.RELEASE | Phase.CLOSE:
                return

    @property
    def spec(self) -> ChildSpec:
        """How the supervisor runs it."""
        return ChildSpec(name=ROLE, run=self.run, drain=self.drain)

    async def _open(self, work: TaskGroup, task_status: TaskStatus[None]) -> None:
        async with (
            self._bus.consume(subjects.TASKS_STREAM, ROLE, batch=TASK_SLOTS) as tasks,
            self._bus.subscribe(API_SUBJECTS, queue=ROLE) as requests,
            self._bus.listed(self._presence),
            anyio.create_task_group() as doors,
        ):
            doors.start_soon(self._take_tasks, tasks, work, name="gateway tasks")
            doors.start_soon(self._take_requests, requests, work, name="gateway api")
            task_status.started()
            self.is_open.set()

    async def _take_tasks(
        self, tasks: MemoryObjectReceiveStream[TaskDelivery], work: TaskGroup
    ) -> None:
        """Take a task only when it can be worked on: the stream is the queue."""
        slots = anyio.Semaphore(TASK_SLOTS)

        async def deal(delivery: TaskDelivery) -> None:
            try:
                await self._intake.take(delivery)
            finally:
                slots.release()

        async for delivery in tasks:
            await slots.acquire()
            work.start_soon(deal, delivery, name=f"task {delivery.sequence}")
        raise Unreachable("the stream of tasks was closed")

    async def _take_requests(
        self, requests: MemoryObjectReceiveStream[Delivery], work: TaskGroup
    ) -> None:
        """Take every request at once, so that none waits unseen; refuse what is too much."""
        slots = anyio.Semaphore(API_SLOTS)
        here, open_requests = self._presence, 0

        async def deal(delivery: Delivery) -> None:
            nonlocal open_requests
            try:
                async with slots:
                    with here.at_work(self._clock):
                        here.waiting = open_requests - here.running
                        await self._api.take(delivery)
            finally:
                open_requests -= 1

        async for delivery in requests:
            if open_requests >= API_SLOTS + API_PENDING:
                here.refused += 1
                await self._api.refuse(delivery, Busy("the gateway has too many requests"))
                continue
            open_requests += 1
            here.waiting = open_requests - here.running
            work.start_soon(deal, delivery, name=delivery.subject)
        raise Unreachable("the subscription of the API was closed")
