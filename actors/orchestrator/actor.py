"""The hub: takes runs that want a drive and drives them, one directive at a time."""

from collections.abc import Callable, Mapping
from functools import partial

import anyio
from anyio.abc import TaskGroup

from actors.orchestrator.drive import Drive
from actors.orchestrator.hand import Hand
from actors.orchestrator.pen import Lost, Pen, Reloaded
from actors.orchestrator.publisher import Publisher
from actors.orchestrator.report import Reporter
from actors.orchestrator.suspects import RunKey, Suspects
from messages import subjects
from messages.agent import AgentSpec
from messages.errors import BadIdentifier, TreadleError
from messages.ledger import Due, Entry, Load, Loaded, Renew, Take, Taken
from messages.status import Reason, Status
from runtime.asking import Asking, GiveUp
from runtime.bus.port import Bus, Delivery
from runtime.bus.presence import Presence
from runtime.clock import Clock, Ids
from runtime.faults import fault
from runtime.log import Level, Line, describe, log, scope
from runtime.loop import directives as d
from runtime.loop.evolve import fold
from runtime.settings import Runtime
from runtime.supervisor import ChildSpec, Phase
from runtime.views.run import log_fields

_GIVE_BACK_S = 5.0


class Orchestrator:
    """Drives runs.

    Receives: wakes (hints, as a queue group), signals of runs it owns, and what Due lists.
    Guarantees: one drive per run in this process; a run is driven only under a take of the ledger;
    losing every hint costs a second, never a run.
    """

    role = "orchestrator"

    def __init__(  # noqa: PLR0913 - what driving takes
        self,
        bus: Bus,
        agents: Mapping[str, AgentSpec],
        asking: Asking,
        clock: Clock,
        ids: Ids,
        times: Runtime,
        *,
        process: str,
    ) -> None:
        """Args: agents: as data; process: this process's id, new at every start."""
        self._bus = bus
        self._agents = agents
        self._asking = asking
        self._clock = clock
        self._ids = ids
        self._times = times
        self._process = process
        self._reporter = Reporter(bus)
        self._driving: dict[RunKey, Hand | None] = {}
        self._publisher = Publisher(bus, asking)
        self._crashes: dict[RunKey, int] = {}
        """Drives of a run that failed in a row here: they count as deaths of its owner."""
        self._suspects = Suspects(times.poison_deaths)
        self._presence = Presence(role=self.role, subject=f"{subjects.ROOT}.wakes.*.*")
        self._is_draining = False
        self._is_idle = anyio.Event()

    # ------------------------------------------------------------------ lifecycle
    async def run(self) -> None:
        """Serve until cancelled."""
        async with self._bus.listed(self._presence), anyio.create_task_group() as tasks:
            await self._renew()
            tasks.start_soon(self._renew_forever)
            tasks.start_soon(self._follow_wakes, tasks)
            tasks.start_soon(self._follow_signals)
            tasks.start_soon(self._sweep_forever, tasks)

    async def drain(self, phase: Phase) -> None:
        """Take nothing new, let drives reach their next directive, give every run back."""
        match phase:
            case Phase.STOP_TAKING:
                self._is_draining = True
                for hand in self._driving.values():
                    if hand is not None:
                        hand.is_draining = True
            case Phase.FINISH:
                while self._driving:
                    self._is_idle = anyio.Event()
                    await self._is_idle.wait()
            case Phase.RELEASE:
                with anyio.CancelScope(shield=True), anyio.move_on_after(2.0):
                    await self._asking.bus.ask(Renew(process=self._process, lease_s=0))
            case Phase.CLOSE:
                pass

    async def _renew_forever(self) -> None:
        while True:
            await self._clock.sleep(self._times.lease_s / 4)
            await self._renew()

    async def _renew(self) -> None:
        try:
            _ = await self._asking.again(
                Renew(process=self._process, lease_s=self._times.lease_s),
                deadline_s=self._times.lease_s / 2,
            )
        except GiveUp as error:
            log(Line.ASK_FAILED, Level.WARNING, **describe(error.cause))

    # ------------------------------------------------------------------ what wants a drive
    async def _follow_wakes(self, tasks: TaskGroup) -> None:
        async with self._bus.subscribe(f"{subjects.ROOT}.wakes.*.*", queue=self.role) as deliveries:
            async for delivery in deliveries:
                key = _run_of(delivery)
                if key is not None:
                    _ = self._start(tasks, key)

    async def _follow_signals(self) -> None:
        """A cancel reaches a live owner at once and cuts short what it waits for."""
        async with self._bus.subscribe(f"{subjects.ROOT}.signals.*.*") as deliveries:
            async for delivery in deliveries:
                key = _run_of(delivery)
                hand = self._driving.get(key) if key is not None else None
                if hand is not None and delivery.data == b"cancel":
                    hand.interrupt.fire()

    async def _sweep_forever(self, tasks: TaskGroup) -> None:
        while True:
            try:
                await self._sweep(tasks)
            except (GiveUp, TreadleError) as error:
                cause = error.cause if isinstance(error, GiveUp) else error
                log(Line.ASK_FAILED, Level.WARNING, **describe(cause))
            await self._clock.sleep(self._times.due_s)

    async def _sweep(self, tasks: TaskGroup) -> None:
        free = self._times.slots - len(self._driving)
        if free <= 0 or self._is_draining:
            return
        due = await self._asking.bus.ask(
            Due(
                process=self._process,
                limit=free + len(self._suspects),
                driving=tuple(f"{tenant}/{run_id}" for tenant, run_id in self._driving),
                stream=await self._bus.stream_created(subjects.RESULTS_STREAM),
            )
        )
        suspects: list[RunKey] = []
        for run in due.runs:
            key = (run.tenant, run.run_id)
            if run.need == "publish":
                self._publisher.start(tasks, key)
            elif self._suspects.is_one(run.deaths):
                suspects.append(key)
            else:
                _ = self._start(tasks, key)
        self._suspects.line_up(suspects)
        self._suspects.start(partial(self._start, tasks))

    def _start(self, tasks: TaskGroup, key: RunKey) -> bool:
        is_full = len(self._driving) >= self._times.slots
        if self._is_draining or is_full or key in self._driving:
            return False
        self._driving[key] = None
        tasks.start_soon(self._take_and_drive, tasks, key)
        return True

    def _clear(self, tasks: TaskGroup, key: RunKey) -> None:
        """The run is driven alone no longer."""
        self._suspects.clear(key)
        self._suspects.start(partial(self._start, tasks))

    # ------------------------------------------------------------------ one run
    async def _take_and_drive(self, tasks: TaskGroup, key: RunKey) -> None:
        with scope(tenant=key[0], run_id=key[1]), self._presence.at_work(self._clock):
            try:
                await self._drive(key, partial(self._clear, tasks, key))
            except Lost as error:
                log(Line.RUN_LOST, why=error.why)
            except GiveUp as error:
                log(Line.ASK_FAILED, Level.WARNING, **describe(error.cause))
                await self._give_back(key)
            except TreadleError as error:
                log(Line.ASK_FAILED, Level.ERROR, **describe(error))
                self._crashes[key] = self._crashes.get(key, 0) + 1
            except Exception as error:  # noqa: BLE001 - one run that cannot be driven is set aside; the others go on
                log(Line.RUN_LOST, Level.ERROR, **describe(error))
                self._crashes[key] = self._crashes.get(key, 0) + 1
            else:
                _ = self._crashes.pop(key, None)
            finally:
                _ = self._driving.pop(key, None)
                self._clear(tasks, key)
                if not self._driving:
                    self._is_idle.set()

    async def _give_back(self, key: RunKey) -> None:
        """A role was away for too long: write what is known, so that no step is lost by it."""
        hand = self._driving.get(key)
        if hand is None:
            return
        try:
            with anyio.move_on_after(_GIVE_BACK_S):
                await hand.let_go()
        except (Lost, Reloaded, GiveUp, TreadleError) as error:
            log(Line.RUN_LOST, Level.WARNING, error=type(error).__name__)

    async def _drive(self, key: RunKey, on_progress: Callable[[], None]) -> None:
        take_id = self._ids.new_id("take")
        taken = await self._asking.again(
            Take(tenant=key[0], run_id=key[1], process=self._process, take_id=take_id)
        )
        if not isinstance(taken, Taken):
            return
        log(Line.RUN_TAKEN, version=taken.version)
        fault("orchestrator.after_take")
        entries = await self._all_entries(key, taken)
        state = fold(entries)
        agent = self._agents.get(state.agent)
        pen = Pen(
            asking=self._asking,
            clock=self._clock,
            ids=self._ids,
            process=self._process,
            take_id=take_id,
            state=state,
            taken=taken,
            tail=entries[-3:],
        )
        hand = Hand(
            pen=pen,
            agent=agent or AgentSpec(name=state.agent, code="", model="", instructions=""),
            asking=self._asking,
            reporter=self._reporter,
            clock=self._clock,
            ids=self._ids,
            times=self._times,
            process=self._process,
            is_draining=self._is_draining,
        )
        self._driving[key] = hand
        if agent is None:
            _ = await hand.finish(
                d.Finish(
                    status=Status.FAILED,
                    reason=Reason.AGENT_CHANGED,
                    why=f"no agent is called {state.agent} any more",
                )
            )
        else:
            deaths = taken.deaths + self._crashes.get(key, 0)
            await Drive(hand, deaths=deaths, on_progress=on_progress).run()
        if pen.state.status.is_terminal:
            log(Line.RUN_FINISHED, **log_fields(pen.state))
            await self._publisher.publish(pen.state, entries)

    async def _all_entries(self, key: RunKey, taken: Taken) -> list[Entry]:
        entries = list(taken.entries)
        while not entries or entries[-1].version < taken.version:
            after = entries[-1].version if entries else -1
            loaded = await self._asking.again(
                Load(tenant=key[0], run_id=key[1], after=after, upto=taken.version)
            )
            if not isinstance(loaded, Loaded) or not loaded.entries:
                raise Lost("unread")
            entries.extend(loaded.entries)
        return entries

    @property
    def spec(self) -> ChildSpec:
        """How the supervisor runs it."""
        return ChildSpec(name=self.role, run=self.run, drain=self.drain)


def _run_of(delivery: Delivery) -> RunKey | None:
    try:
        return subjects.parse_run(delivery.subject)
    except BadIdentifier as error:
        log(Line.BAD_MESSAGE, Level.WARNING, **describe(error))
        return None
