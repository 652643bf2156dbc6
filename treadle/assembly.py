"""What a process is made of: the roles it serves, each over its bus, for daemon and tests alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from actors.authoriser import Authoriser
from actors.checkpointer import Checkpointer
from actors.executor import Executor
from actors.gateway import Gateway
from actors.monitor import Monitor
from actors.notifier import Notifier
from actors.orchestrator.actor import Orchestrator
from actors.planner import Planner
from actors.validator import Validator
from messages.agent import AgentSpec
from messages.subjects import ROLES
from runtime.actor import Actor
from runtime.agent import App
from runtime.asking import Asking
from runtime.bus.port import Bus
from runtime.clock import Chance, Clock, Ids
from runtime.ledger.port import Ledger
from runtime.model.port import Model
from runtime.policy.grants import Signer, Verifier
from runtime.settings import Policy, Settings
from runtime.supervisor import ChildSpec
from runtime.tools.call import Caller
from runtime.tools.workers import Workers


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Everything the roles are given.

    Attributes:
        bus_of: The bus of a role; one for all roles where one process serves them all.
        ledger: For the checkpointer; None where another process serves it.
        agents: The app's agents as data, with model and price as they run here.
        models: By name.
        signer: For the authoriser; None where another process serves it.
        public_key: Of the signer, for executors.
        process: This process's id, new at every start.
        tools: The tools that executors here serve; None: all of the app's.
        caller: Runs user code; None: one of its own.
    """

    bus_of: Callable[[str], Bus]
    ledger: Ledger | None
    app: App
    agents: Mapping[str, AgentSpec]
    models: Mapping[str, Model]
    settings: Settings
    policy: Policy
    signer: Signer | None
    public_key: str
    clock: Clock
    ids: Ids
    chance: Chance
    process: str
    tools: tuple[str, ...] | None = None
    caller: Caller | None = None

    @cached_property
    def _askings(self) -> dict[Bus, Asking]:
        return {}

    def asking(self, role: str) -> Asking:
        """How a role asks; roles that share a bus share what it has told of the ledger's time."""
        bus = self.bus_of(role)
        return self._askings.setdefault(bus, Asking(bus, self.clock))


@dataclass(frozen=True)
class Roles:
    """The roles of one process.

    Attributes:
        answering: Those that serve requests; ready once each says ``is_serving``.
        gateway: Intake and API; ready once it says ``is_open``.
        orchestrator: Drives runs.
    """

    answering: tuple[Actor, ...]
    gateway: Gateway | None
    orchestrator: Orchestrator | None
    notifier: Notifier | None

    @property
    def specs(self) -> list[ChildSpec]:
        """How the supervisor runs them: whoever is asked first, before whoever asks."""
        specs = [actor.spec for actor in self.answering]
        if self.notifier is not None:
            specs.append(self.notifier.spec)
        if self.gateway is not None:
            specs.append(ChildSpec(name="gateway", run=self.gateway.run, drain=self.gateway.drain))
        if self.orchestrator is not None:
            specs.append(self._when_ready(self.orchestrator))
        return specs

    def _when_ready(self, orchestrator: Orchestrator) -> ChildSpec:
        """No run is taken before every role of this process can be asked."""

        async def run() -> None:
            await self.ready()
            await orchestrator.run()

        return ChildSpec(name="orchestrator", run=run, drain=orchestrator.drain)

    async def ready(self) -> None:
        """Return once every role here can be asked."""
        for actor in self.answering:
            await actor.is_serving.wait()
        if self.gateway is not None:
            await self.gateway.is_open.wait()


def assemble(parts: Parts, roles: tuple[str, ...] = ROLES) -> Roles:
    """These roles, over their buses."""
    builders: dict[str, Callable[[], Actor]] = {
        "checkpointer": lambda: _checkpointer(parts),
        "validator": lambda: Validator(parts.bus_of("validator"), parts.app.agents),
        "monitor": lambda: Monitor(
            parts.bus_of("monitor"), parts.app.agents, parts.asking("monitor"), caller
        ),
        "authoriser": lambda: _authoriser(parts, caller),
        "planner": lambda: Planner(
            parts.bus_of("planner"),
            parts.agents,
            parts.models,
            parts.asking("planner"),
            parts.clock,
            parts.chance,
        ),
        "executor": lambda: _executor(parts, caller),
    }
    caller = parts.caller or Caller(
        clock=parts.clock, ids=parts.ids, chance=parts.chance, workers=Workers()
    )
    answering = tuple(build() for role, build in builders.items() if role in roles)
    for actor in answering:
        actor.is_apart = "orchestrator" not in roles
    return Roles(
        answering=answering,
        gateway=_gateway(parts) if "gateway" in roles else None,
        orchestrator=_orchestrator(parts) if "orchestrator" in roles else None,
        notifier=Notifier(parts.bus_of("notifier"), parts.settings.notify)
        if "notifier" in roles
        else None,
    )


def _checkpointer(parts: Parts) -> Checkpointer:
    if parts.ledger is None:
        raise AssertionError("a checkpointer needs the ledger")
    return Checkpointer(parts.bus_of("checkpointer"), parts.ledger)


def _authoriser(parts: Parts, caller: Caller) -> Authoriser:
    if parts.signer is None:
        raise AssertionError("an authoriser needs the signing key")
    return Authoriser(
        parts.bus_of("authoriser"),
        parts.app.agents,
        parts.agents,
        policy=parts.policy,
        groups=parts.settings.known_groups,
        signer=parts.signer,
        asking=parts.asking("authoriser"),
        caller=caller,
        ids=parts.ids,
        times=parts.settings.runtime,
    )


def _executor(parts: Parts, caller: Caller) -> Executor:
    return Executor(
        parts.bus_of("executor"),
        registry=parts.app.tools,
        serves=parts.tools or tuple(parts.app.tools),
        open_deps=parts.app.open_deps,
        verifier=Verifier(parts.public_key),
        asking=parts.asking("executor"),
        clock=parts.clock,
        ids=parts.ids,
        caller=caller,
        times=parts.settings.runtime,
    )


def _gateway(parts: Parts) -> Gateway:
    return Gateway(
        bus=parts.bus_of("gateway"),
        agents=parts.agents,
        settings=parts.settings,
        clock=parts.clock,
        ids=parts.ids,
    )


def _orchestrator(parts: Parts) -> Orchestrator:
    return Orchestrator(
        parts.bus_of("orchestrator"),
        parts.agents,
        parts.asking("orchestrator"),
        parts.clock,
        parts.ids,
        parts.settings.runtime,
        process=parts.process,
    )
