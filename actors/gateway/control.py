"""Stopping and holding: cancel, pause and resume of a run, an agent, or everything."""

from typing import Literal

from actors.gateway.runs import App, Runs
from messages import api
from messages.errors import Conflict, NotFound, UsageError
from messages.ledger import Hold, HoldRow, Lift, Missing, Refused, RunEnded, SendSignal, Signal
from messages.subjects import ApiAddress, identifier
from runtime.bus.port import Bus
from runtime.log import Line, log
from runtime.views.values import View

ANY = "*"


class Control:
    """The verbs cancel, pause and resume. A hold never reaches beyond the sender's tenant."""

    def __init__(self, bus: Bus, app: App, runs: Runs) -> None:
        self._bus = bus
        self._app = app
        self._runs = runs

    async def cancel(self, sender: ApiAddress, body: api.Cancel) -> View:
        """End a run and its descendants; it passes every hold."""
        return await self._signal(sender, body.run_id, "cancel", body.reason)

    async def pause(self, sender: ApiAddress, body: api.Control) -> View:
        """Suspend a run at its next entry, or keep an agent's or all runs from being driven."""
        if body.run_id is not None:
            return await self._signal(sender, _only(body).run_id or "", "pause", body.reason)
        agent = self._held(body)
        hold = HoldRow(
            tenant=sender.tenant,
            agent=agent,
            person=sender.principal,
            reason=body.reason,
            at=self._app.clock.now(),
        )
        await self._bus.ask(Hold(hold=hold))
        log(Line.CONTROL, verb="pause", tenant=sender.tenant, agent=agent, person=sender.principal)
        return {"v": 1, "held": agent}

    async def resume(self, sender: ApiAddress, body: api.Control) -> View:
        """Undo a pause."""
        if body.run_id is not None:
            return await self._signal(sender, _only(body).run_id or "", "resume", body.reason)
        agent = self._held(body)
        await self._bus.ask(Lift(tenant=sender.tenant, agent=agent))
        if agent == ANY and not self._app.settings.tenants:
            # One tenant: the hold that the daemon was started with (--paused) is its own.
            await self._bus.ask(Lift(tenant=ANY, agent=ANY))
        log(Line.CONTROL, verb="resume", tenant=sender.tenant, agent=agent, person=sender.principal)
        return {"v": 1, "lifted": agent}

    def _held(self, body: api.Control) -> str:
        """The agent a hold names, ``*`` for all."""
        chosen = _only(body)
        if chosen.agent is None:
            return ANY
        return self._app.agent(identifier("agent", chosen.agent)).name

    async def _signal(
        self,
        sender: ApiAddress,
        run_id: str,
        kind: Literal["cancel", "pause", "resume"],
        reason: str,
    ) -> View:
        identifier("run", run_id)
        signal = Signal(kind=kind, person=sender.principal, reason=reason, channel="api")
        answer = await self._bus.ask(SendSignal(tenant=sender.tenant, run_id=run_id, signal=signal))
        if isinstance(answer, Missing):
            raise NotFound("run", run_id)
        if isinstance(answer, RunEnded):
            raise Conflict(f"run {run_id} has ended {answer.status}", why="ENDED")
        if isinstance(answer, Refused):
            raise Conflict(answer.message, why=answer.why)
        for told in (run_id, *answer.also):
            await self._runs.nudge(sender.tenant, told, kind)
        log(Line.CONTROL, verb=kind, run_id=run_id, person=sender.principal)
        return {"v": 1, "run_id": run_id}


def _only(body: api.Control) -> api.Control:
    """The body, if it names exactly one of run, agent and all."""
    named = [body.run_id is not None, body.agent is not None, body.is_all]
    if sum(named) != 1:
        raise UsageError("name one of a run, an agent, and all")
    return body
