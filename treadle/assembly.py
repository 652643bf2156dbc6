"""What a process is made of: the roles of an app over one bus, for daemon and tests alike."""

from collections.abc import Mapping
from dataclasses import dataclass

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
        agents: The app's agents as data, with model and price as they run here.
        models: By agent.
        process: This process's id, new at every start.
        caller: Runs user code; None: one of its own.
    """

    bus: Bus
    ledger: Ledger
    app: App
    agents: Mapping[str, AgentSpec]
    models: Mapping[str, Model]
    settings: Settings
    policy: Policy
    signer: Signer
    clock: Clock
    ids: Ids
    chance: Chance
    process: str
    caller: Caller | None = None


@dataclass(frozen=True)
class Roles:
    """The roles of one process.

    Attributes:
        answering: Those that serve requests; ready once each says ``is_serving``.
        gateway: Intake and API; ready once it says ``is_open``.
        orchestrator: Drives runs.
    """

    answering: tuple[Actor, ...]
    gateway: Gateway
    orchestrator: Orchestrator
    notifier: Notifier

    @property
    def specs(self) -> list[ChildSpec]:
        """How the supervisor runs them: whoever is asked first, before whoever asks."""
        return [
            *(actor.spec for actor in self.answering),
            self.notifier.spec,
            ChildSpec(name="gateway", run=self.gateway.run, drain=self.gateway.drain),
            ChildSpec(
                name="orchestrator", run=self._drive_when_ready, drain=self.orchestrator.drain
            ),
        ]

    async def _drive_when_ready(self) -> None:
        """No run is taken before every role of this process can be asked."""
        await self.ready()
        await self.orchestrator.run()

    async def ready(self) -> None:
        """Return once every role can be asked."""
        for actor in self.answering:
            await actor.is_serving.wait()
        await self.gateway.is_open.wait()


def assemble(parts: Parts) -> Roles:
    """All nine roles over one bus."""
    bus, clock, ids, times = parts.bus, parts.clock, parts.ids, parts.settings.runtime
    asking = Asking(bus, clock)
    caller = parts.caller or Caller(clock=clock, ids=ids, chance=parts.chance, workers=Workers())
    answering: tuple[Actor, ...] = (
        Checkpointer(bus, parts.ledger),
        Validator(bus, parts.app.agents),
        Monitor(bus, parts.app.agents, asking, caller),
        Authoriser(
            bus,
            parts.app.agents,
            parts.agents,
            policy=parts.policy,
            groups=parts.settings.known_groups,
            signer=parts.signer,
            asking=asking,
            caller=caller,
            ids=ids,
            times=times,
        ),
        Planner(bus, parts.agents, parts.models, asking, clock),
        Executor(
            bus,
            registry=parts.app.tools,
            open_deps=parts.app.open_deps,
            verifier=Verifier(parts.signer.public_key),
            asking=asking,
            clock=clock,
            ids=ids,
            caller=caller,
            times=times,
        ),
    )
    return Roles(
        answering=answering,
        gateway=Gateway(
            bus=bus, agents=parts.agents, settings=parts.settings, clock=clock, ids=ids
        ),
        orchestrator=Orchestrator(
            bus, parts.agents, asking, clock, ids, times, process=parts.process
        ),
        notifier=Notifier(bus, parts.settings.notify),
    )
