"""One world: the network, the disk, the downstream, and processes that live, die and come back."""

import random
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import anyio.lowlevel

from messages.parts import Price
from runtime.clock import Clock, Ids
from runtime.policy.grants import Signer
from runtime.settings import Model as ModelSettings
from runtime.settings import Policy, Runtime, Settings
from runtime.supervisor import Supervisor
from runtime.tools.call import Caller
from runtime.tools.ended import Raised, Returned
from runtime.tools.workers import Workers, _Call
from tests.simulation.agents import AGENT, APP, SHOP
from tests.simulation.disk import Disk
from tests.simulation.judge import Judge
from tests.simulation.machine import Machine, Process
from tests.simulation.network import Network, connect
from tests.simulation.options import Options, roles_of
from tests.simulation.provider import Provider
from tests.simulation.queue import Queue
from tests.simulation.shop import Shop
from treadle.assembly import Parts, assemble
from treadle.models import models_of

EPOCH = 1_700_000_000.0
GRACE_S = 2.0
TIMES = Runtime(
    lease_s=2.0,
    heartbeat_s=0.5,
    silence_s=1.5,
    due_s=1.0,
    grace_s=GRACE_S,
    slots=8,
    grant_s=4.0,
)
PRICE = ModelSettings(
    input_usd_per_mtok="3", output_usd_per_mtok="15", cache_write_usd_per_mtok="3.75"
)
SETTINGS = Settings(runtime=TIMES, models={"scripted": PRICE})
AGENTS, _ = models_of(APP, SETTINGS, "scripted")
SIGNER = Signer(bytes(32))
POLICY = Policy(version="simulated", limits={})


Main = Callable[[Process], Coroutine[Any, Any, object]]


class SimClock(Clock):
    """The machine's clock, wrong by ``skew_s``."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.skew_s = 0.0

    def now(self) -> float:
        """See ``Clock``."""
        return EPOCH + self._machine.time() + self.skew_s

    def monotonic(self) -> float:
        """See ``Clock``."""
        return self._machine.time()

    async def sleep(self, seconds: float) -> None:
        """See ``Clock``."""
        await anyio.sleep(seconds)


class SimIds(Ids):
    """Ids that say who made them."""

    def __init__(self, process: Process) -> None:
        self._name = f"{process.name}x{process.life}n"
        self._count = 0

    def new_id(self, prefix: str) -> str:
        """See ``Ids``."""
        self._count += 1
        return f"{prefix}-{self._name}{self._count}"

    def new_secret(self) -> str:
        """See ``Ids``."""
        return self.new_id("secret")


class Inline(Workers):
    """No threads: a sync function runs where it is called."""

    async def _in_thread(self, call: _Call) -> None:
        call.has_started = True
        try:
            call.ended = Returned(call.function())
        except Exception as error:  # noqa: BLE001 -- user code; it becomes an answer
            call.ended = Raised(error)
        await anyio.lowlevel.checkpoint()


class World:
    """Everything of one schedule."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.machine = Machine()
        self.clock = SimClock(self.machine)
        self._ledger_clock = SimClock(self.machine)
        self.judge = Judge(self.machine, self._ledger_clock.now)
        self.shop = Shop(self.machine, options, self.judge)
        self.queue = Queue(self.machine, options)
        self.network = Network(self.machine, self.clock, options, self.queue)
        self.disk = Disk(options, self._ledger_clock.now, self.judge.committed)
        self.judge.tables = self.disk.ledger.tables
        price = AGENTS[AGENT.name].price
        self.provider = Provider(options, self.judge, price or Price(date=""))
        self.clocks: dict[str, SimClock] = {"ledger": self._ledger_clock}
        self.living: dict[str, Process] = {}
        self.supervisors: dict[str, Supervisor] = {}
        self._lives: dict[str, int] = {}
        self.told: set[str] = set()
        """Runs whose submitter was told that they are taken."""
        self.excused: set[str] = set()
        """Those of which nothing was durable but what a broker kept that lost it."""

    # ------------------------------------------------------------------ processes
    def start(self, name: str, main: Main | None = None) -> Process:
        """A new life of a process."""
        life = self._lives[name] = self._lives.get(name, 0) + 1
        process = self.living[name] = Process(name, life)
        self.clocks.setdefault(name, SimClock(self.machine))
        process.context.run(SHOP.set, self.shop)
        self.judge.note(f"start {process!r}")
        self.machine.start(process, (main or self._serve)(process))
        return process

    def kill(self, name: str, back_s: float) -> None:
        """SIGKILL, and a new life after a while."""
        process = self.living.get(name)
        if process is None or not process.is_alive:
            return
        self.judge.note(f"kill {process!r}")
        self.machine.kill(process)
        self.network.unplug(process)
        self.machine.outside(back_s, self.start, name)

    def freeze(self, name: str, for_s: float) -> None:
        """SIGSTOP, and SIGCONT after a while."""
        process = self.living.get(name)
        if process is not None and process.is_alive and process.held is None:
            self.judge.note(f"freeze {process!r} {for_s:.2f} s")
            self.machine.freeze(process)
            self.machine.outside(for_s, self._thaw, process)

    def _thaw(self, process: Process) -> None:
        if process.is_alive and process.held is not None:
            self.judge.note(f"thaw {process!r}")
            self.machine.thaw(process)

    def drain(self, name: str) -> None:
        """SIGTERM; it comes back when it has ended."""
        process = self.living.get(name)
        if process is not None and process.is_alive and name in self.supervisors:
            self.judge.note(f"drain {process!r}")
            self.machine.call_soon(self.supervisors[name].stop, context=process.context)

    async def _serve(self, process: Process) -> None:
        """What ``treadle up`` does, with these parts."""
        roles = roles_of(self.options.layout, process.name)
        clock, ids = self.clocks[process.name], SimIds(process)
        chance = random.Random(f"{self.options.seed}.{process!r}")
        supervisor = Supervisor(clock=clock, chance=chance.random, grace_s=GRACE_S, signals=())
        self.supervisors[process.name] = supervisor
        try:
            async with connect(self.network, process, clock, ids, chance) as bus:
                await bus.prepare_streams(sorted(AGENTS))
                parts = Parts(
                    bus_of=lambda _role: bus,
                    ledger=self.disk,
                    app=APP,
                    agents=AGENTS,
                    models={"scripted": self.provider},
                    settings=SETTINGS,
                    policy=POLICY,
                    signer=SIGNER,
                    public_key=SIGNER.public_key,
                    clock=clock,
                    ids=ids,
                    chance=chance.random,
                    process=ids.new_id("proc"),
                    caller=Caller(clock=clock, ids=ids, chance=chance.random, workers=Inline()),
                )
                await supervisor.run(assemble(parts, roles).specs)
        except Exception as error:  # noqa: BLE001 -- a process that gives up is started again
            self.judge.broken("gave_up", f"{process!r}: {type(error).__name__}: {error}")
        self.network.unplug(process)
        process.is_alive = False
        self.machine.outside(0.5, self.start, process.name)

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self.judge.note("heal")
        for part in (self.network, self.queue, self.disk, self.shop, self.provider):
            part.is_healed = True
        for name, clock in self.clocks.items():
            clock.skew_s = clock.skew_s if name == "ledger" else self.clocks["ledger"].skew_s
        for process in self.living.values():
            process.fuse = 0
            self._thaw(process)

    # ------------------------------------------------------------------ what is shared
    def set_clock(self, name: str, off_s: float) -> None:
        """Somebody sets a machine's clock."""
        if name in self.clocks and not self.network.is_healed:
            self.judge.note(f"clock of {name} {off_s:+.2f} s")
            self.clocks[name].skew_s = off_s

    def lose_broker(self) -> None:
        """The broker goes away."""
        self.judge.note("broker gone")
        self.queue.is_down = True
        self.network.fall()

    def find_broker(self, is_wiped: bool) -> None:
        """It is back, perhaps without what it kept."""
        self.judge.note(f"broker back, wiped: {is_wiped}")
        if is_wiped:
            streamed = {job.name for job in self.options.jobs if not job.is_direct}
            self.excused |= (self.told & streamed) - self.judge.runs.keys()
            self.queue.wipe()
        self.queue.is_down = False
        self.network.rise()
