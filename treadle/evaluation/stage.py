"""Where a suite is played: the real roles and the data directory's ledger, in this process.

Only the bus is not the daemon's: messages are handed over in memory, since nobody else takes part.
The runs stay in the ledger, where ``ls``, ``show`` and ``metrics`` find them by their labels.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import cast

import anyio
import anyio.to_thread

from messages import api, subjects
from messages.base import Failure, ReplyT, Request
from messages.errors import AlreadyRunning, Conflict, DeadlineExceeded, NotFound
from messages.ledger import AnyLedgerRequest, Renew, Tally, TallyRuns
from runtime.bus import memory
from runtime.bus.bus import WireBus
from runtime.bus.failures import to_error
from runtime.bus.tasks import lone_errors
from runtime.clock import MachineClock, MachineIds, machine_chance
from runtime.ledger.port import Ledger
from runtime.ledger.sqlite import SqliteLedger
from runtime.model import scripted
from runtime.policy.grants import Signer, load_signer
from runtime.settings import Policy, Runtime, Settings
from runtime.supervisor import Supervisor
from runtime.tally import merge
from runtime.views.reading import Reader
from treadle.assembly import Parts, assemble
from treadle.client.wire import REQUEST_S, request
from treadle.daemon import LEDGER_FILE
from treadle.evaluation.own_runs import TENANT, OwnRuns
from treadle.evaluation.play import TASK, Playbook, app_of, turn_of
from treadle.evaluation.suite import Suite, Task
from treadle.models import models_of

PRINCIPAL = "evaluation"
_LOOK_S = 0.1
"""How long a lost hint can go unnoticed."""
_CLEAN_S = 10.0
_BUSY = "an evaluation drives its runs itself: stop the daemon, or give another --data-dir"


class Evaluation:
    """One pass over a suite.

    Attributes:
        id: Its own; each of its runs has it as the label ``evaluation``.
    """

    def __init__(self, suite: Suite, ledger: Ledger, signer: Signer) -> None:
        """Use ``evaluation``."""
        self._suite = suite
        self._ledger = OwnRuns(ledger)
        self._signer = signer
        self._clock = MachineClock()
        self._ids = MachineIds()
        self._process = self._ids.new_id("proc")
        self._playbook = Playbook(suite)
        self._app = app_of(suite, self._playbook)
        self._cast = 0
        self._since = self._clock.now() - 1.0
        self.id = self._ids.new_id("eval")

    @property
    def open_runs(self) -> int:
        """Runs of it that have not ended."""
        return len(self._ledger.open)

    async def play(self, timeout_s: float) -> Mapping[str, Tally]:
        """Run every task in every configuration; the stored runs of each, counted.

        However this ends, no run of it stays open.

        Raises:
            DeadlineExceeded: Some had not ended by then, and were cancelled.
        """
        try:
            with anyio.move_on_after(timeout_s):
                async with self._life() as bus:
                    await self._submit(bus)
                    await self._until_ended(bus)
        finally:
            late = self._suite.runs - len(self._ledger.ended)
            if self.open_runs:
                await self._cancel_open()
        if late:
            hint = f"treadle ls --label evaluation={self.id}; while all is paused nothing runs"
            message = f"{late} of {self._suite.runs} runs had not ended after {timeout_s:g} s"
            raise DeadlineExceeded(f"{message}; what was open is cancelled", hint=hint)
        return {name: await self._count(configuration=name) for name in self._suite.configurations}

    # ------------------------------------------------------------------ the process
    @asynccontextmanager
    async def _life(self) -> AsyncGenerator[WireBus]:
        """Every role at work on a bus of their own."""
        async with memory.connect(memory.Hub(clock=self._clock)) as bus, lone_errors() as life:
            await bus.prepare_streams(sorted(self._app.agents))
            roles = assemble(await self._parts(bus))
            supervisor = Supervisor(
                clock=self._clock, chance=machine_chance, grace_s=1.0, signals=()
            )
            life.start_soon(supervisor.run, roles.specs)
            await roles.ready()
            yield bus

    async def _parts(self, bus: WireBus) -> Parts:
        settings = Settings(runtime=Runtime(due_s=_LOOK_S))
        script: Callable[[scripted.View], scripted.Turn] = partial(turn_of, self._suite)
        find = partial(models_of, self._app, settings, scripted.NAME, script=script)
        agents, models = await anyio.to_thread.run_sync(find)
        return Parts(
            bus_of=lambda _role: bus,
            ledger=self._ledger,
            app=self._app,
            agents=agents,
            models=models,
            settings=settings,
            policy=Policy(version="none"),
            signer=self._signer,
            public_key=self._signer.public_key,
            clock=self._clock,
            ids=self._ids,
            chance=machine_chance,
            process=self._process,
        )

    # ------------------------------------------------------------------ the runs
    async def _submit(self, bus: WireBus) -> None:
        for configuration in self._suite.configurations:
            for task in self._suite.tasks.values():
                for _ in range(task.repeat):
                    await self._submit_one(bus, configuration, task)

    async def _submit_one(self, bus: WireBus, configuration: str, task: Task) -> None:
        self._cast += 1
        run_id = f"{self.id}-{self._cast}"
        self._playbook.cast(run_id, task)
        body = api.Submit(
            agent=self._suite.agent(configuration),
            goal=task.goal,
            inputs={TASK: task.name},
            run_id=run_id,
            labels={
                "eval": self._suite.name,
                "configuration": configuration,
                "task": task.name,
                "evaluation": self.id,
            },
        )
        _ = await _ask(bus, "submit", body)

    async def _until_ended(self, bus: WireBus) -> None:
        async with bus.subscribe(subjects.event(TENANT, "*", "finished")) as ended:
            while self._ledger.open:
                with anyio.move_on_after(_LOOK_S):
                    _ = await ended.receive()

    async def _cancel_open(self) -> None:
        """End what is still open, in a life of its own: the first one was cut short."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(_CLEAN_S):
            async with self._life() as bus:
                for run_id in sorted(self._ledger.open):
                    await self._cancel(bus, run_id)
                await self._until_ended(bus)

    async def _cancel(self, bus: WireBus, run_id: str) -> None:
        try:
            await _ask(bus, "cancel", api.Cancel(run_id=run_id, reason="the evaluation stopped"))
        except (Conflict, NotFound):  # it has ended, or was never created: the answer was lost
            self._ledger.open.discard(run_id)

    async def _count(self, **labels: str) -> Tally:
        """The runs of this evaluation as they are stored."""
        query = TallyRuns(
            tenant=TENANT, labels={"evaluation": self.id, **labels}, since=self._since
        )
        return merge(await Reader(self._read, TENANT, self._clock.now).tally(query))

    async def _read(self, request: Request[ReplyT], /) -> ReplyT:
        [answer] = await self._ledger.apply([cast("AnyLedgerRequest", request)])
        if isinstance(answer, Failure):
            raise to_error(answer, "the ledger")
        return cast("ReplyT", answer)


@asynccontextmanager
async def evaluation(suite: Suite, data_dir: Path) -> AsyncGenerator[Evaluation]:
    """An evaluation that is ready to be played, while entered.

    Args:
        suite: What to play.
        data_dir: Whose ledger keeps the runs; made where there is none.

    Raises:
        AlreadyRunning: A daemon works on that ledger.
        StorageError: The ledger cannot be opened.
        ConfigError: The suite's tools or agents could not be declared like that.
    """
    clock = MachineClock()
    make = partial(data_dir.mkdir, 0o700, parents=True, exist_ok=True)
    await anyio.to_thread.run_sync(make)
    signer = await anyio.to_thread.run_sync(load_signer, data_dir)
    async with AsyncExitStack() as stack:
        try:
            ledger = await SqliteLedger.open(data_dir / LEDGER_FILE, clock.now)
        except AlreadyRunning as error:
            error.hint = _BUSY
            raise
        _ = stack.push_async_callback(ledger.close)
        if ledger.predecessor:  # we have its lock, so it drives nothing any more
            _ = await ledger.apply([Renew(process=ledger.predecessor, lease_s=0)])
        yield Evaluation(suite, ledger, signer)


async def _ask(bus: WireBus, verb: str, body: api.Submit | api.Cancel) -> None:
    _ = await request(bus, subjects.api(TENANT, PRINCIPAL, verb), body, timeout_s=REQUEST_S)
