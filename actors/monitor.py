"""Step 8: progress, and whether recorded evidence bears out that the task is done."""

from collections.abc import Mapping
from typing import Any

from messages.base import Message, Request
from messages.checks import Assess, Assessment, Judge, JudgeVerdict
from messages.errors import NotFound
from messages.parts import Problem
from messages.state import LoopState
from runtime.actor import Actor
from runtime.agent import Agent
from runtime.artifacts import fetch_artifact
from runtime.asking import Asking
from runtime.bus.port import Bus, Work
from runtime.faults import fault
from runtime.journal import StateCache
from runtime.loop.evolve import evolve
from runtime.loop.monitor import assess
from runtime.tools.call import Caller
from runtime.tools.draft import Fetch, draft_of


class Monitor(Actor):
    """Watches progress and judges completion.

    Receives: Assess, Judge.
    Replies: Assessment, JudgeVerdict.
    Guarantees: the user's ``done`` runs under a deadline and outside the event loop; when it fails
    the proposal to finish is rejected, never accepted.
    """

    role = "monitor"

    def __init__(
        self,
        bus: Bus,
        agents: Mapping[str, Agent[Any]],
        asking: Asking,
        caller: Caller,
    ) -> None:
        """Args: asking: for journals and artifacts; caller: runs user code under a deadline."""
        super().__init__(bus)
        self._caller = caller
        self._agents = agents
        self._asking = asking
        self._states = StateCache(asking)

    def at_once(self, request: Request[object]) -> Message | None:
        """Progress is assessed from the request alone."""
        if not isinstance(request, Assess):
            return None
        fault("monitor.before_answer")
        return Assessment(flags=assess(request))

    async def handle(self, request: Request[object], work: Work) -> Message:
        """Judge."""
        del work
        if not isinstance(request, Judge):
            raise NotFound("verb", f"monitor.{request.verb}")
        fault("monitor.before_answer")
        return await self._judge(request)

    async def _judge(self, request: Judge) -> JudgeVerdict:
        agent = self._agents.get(request.agent)
        if agent is None:
            raise NotFound("agent", request.agent)
        if agent.done_hook is None:
            return JudgeVerdict()
        state = await self._states.at(request.tenant, request.run_id, request.version, request.tail)
        for event in request.pending:
            state = evolve(state, event)
        output: object = None
        if agent.output is not None:
            decoded = agent.decode_output(request.output)
            if isinstance(decoded, Problem):
                return JudgeVerdict(problem=decoded)
            output = decoded.value
        draft = draft_of(state, output, fetch=await self._large(state))
        return await self._caller.judge(agent.done_hook, draft)

    async def _large(self, state: LoopState) -> Fetch:
        """Payloads that were too large for the journal, read before the predicate wants them."""
        whole = {
            item.ref: await fetch_artifact(self._asking, state.tenant, item.ref)
            for item in state.evidence
            if item.ref is not None
        }
        return whole.__getitem__
