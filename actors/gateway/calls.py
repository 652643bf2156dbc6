"""One read, called by a person: a run of its own, decided by what the person typed."""

from actors.gateway.runs import App, Birth, Runs, Sender
from messages import api
from messages.agent import AgentSpec
from messages.errors import NotAllowed, NotFound
from messages.subjects import ApiAddress, TaskAddress
from messages.task import Task
from runtime.calls import AGENT, inputs_of
from runtime.intake import admit
from runtime.views.values import View


class Calls:
    """The verb call.

    Guarantees: what is called is a read of the app; it runs through the same roles as any run,
    with the scopes of whoever asks, and stands in the journal like any run.
    """

    def __init__(self, app: App, runs: Runs) -> None:
        self._app = app
        self._runs = runs

    async def call(self, sender: ApiAddress, body: api.CallTool) -> View:
        """``{v, run_id, existing}``, once the run is durable."""
        spec = self._spec(body.tool)
        task = Task(
            goal=f"Call {body.tool} once, as {sender.principal} asked.",
            inputs=inputs_of(body.tool, body.arguments),
            run_id=body.run_id,
        )
        address = TaskAddress(sender.tenant, sender.principal, AGENT)
        agents = {**self._app.agents, AGENT: spec}
        admitted = admit(task, address, agents, self._app.settings)
        birth = Birth(task.run_id or self._app.ids.new_id("call"))
        whose = Sender(sender.tenant, sender.principal)
        accepted = await self._runs.create(whose, task, admitted, birth)
        return {"v": 1, "run_id": accepted.run_id, "existing": accepted.existing}

    def _spec(self, tool: str) -> AgentSpec:
        spec = self._app.calls
        if spec is not None and any(known.name == tool for known in spec.tools):
            return spec
        agents = self._app.agents.values()
        kinds = {known.name: known.kind for agent in agents for known in agent.tools}
        if kinds.get(tool) == "write":
            raise NotAllowed(
                f"{tool} is a write; only reads are called by hand",
                hint="treadle submit gives the task to an agent, which can be approved",
            )
        reads = ", ".join(sorted(name for name, kind in kinds.items() if kind == "read"))
        raise NotFound("tool", tool, hint=f"reads of this app: {reads}" if reads else "")
