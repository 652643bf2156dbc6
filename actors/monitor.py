"""Step 8: progress, and whether recorded evidence bears out that the task is done."""

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread

from messages.base import Message, Request
from messages.checks import Assess, Assessment, Judge, JudgeVerdict
from messages.errors import NotFound
from messages.parts import JsonValue, Problem
from messages.state import LoopState
from runtime.actor import Actor
from runtime.agent import Agent
from runtime.artifacts import fetch_artifact
from runtime.asking import Asking
from runtime.bus.port import Bus, Work
from runtime.journal import StateCache
from runtime.loop.evolve import evolve
from runtime.loop.progress import assess
from runtime.tools.draft import draft_of

JUDGE_S = 5.0
"""A predicate is pure over recorded evidence; one that takes longer is broken."""


class Monitor(Actor):
    """Watches progress and judges completion.

    Receives: Assess, Judge.
    Replies: Assessment, JudgeVerdict.
    Guarantees: the user's ``done`` runs under a deadline and outside the event loop; when it fails
    the proposal to finish is rejected, never accepted.
    """

    role = "monitor"

    def __init__(
        self, bus: Bus, agents: Mapping[str, Agent[Any]], asking: Asking, *, grace_s: float
    ) -> None:
        """Args: bus, agents: as ever; asking: for journals and artifacts."""
        super().__init__(bus, grace_s=grace_s)
        self._agents = agents
        self._asking = asking
        self._states = StateCache(asking)

    async def handle(self, request: Request[object], work: Work) -> Message:
        """Assess or judge."""
        del work
        match request:
            case Assess():
                return Assessment(flags=assess(request))
            case Judge():
                return await self._judge(request)
            case _:
                raise NotFound("verb", f"monitor.{request.verb}")

    async def _judge(self, request: Judge) -> JudgeVerdict:
        agent = self._agents.get(request.agent)
        if agent is None:
            raise NotFound("agent", request.agent)
        state = await self._states.at(request.tenant, request.run_id, request.version, request.tail)
        for event in request.pending:
            state = evolve(state, event)
        try:
            with anyio.fail_after(JUDGE_S):
                unmet = await anyio.to_thread.run_sync(
                    self._ask_predicate, agent, state, request.output, abandon_on_cancel=True
                )
        except TimeoutError:
            return _broken(f"done() took longer than {JUDGE_S:g} s")
        except Exception as error:  # noqa: BLE001 - user code; any failure rejects completion
            return _broken(f"done() raised {type(error).__name__}")
        return JudgeVerdict(unmet=unmet)

    def _ask_predicate(self, agent: Agent[Any], state: LoopState, output: JsonValue) -> str | None:
        """In a worker thread: the user's ``done`` over recorded evidence."""
        if agent.done_hook is None:
            return None
        decoded = agent.decode_output(output) if agent.output is not None else None
        if isinstance(decoded, Problem):
            return decoded.message
        draft = draft_of(state, decoded.value if decoded else None, fetch=self._artifact(state))
        unmet = agent.done_hook(draft)
        return None if unmet is None else unmet.why

    def _artifact(self, state: LoopState) -> Callable[[str], JsonValue]:
        """Reads a payload that was too large for the journal, from the worker thread."""

        def fetch(ref: str) -> JsonValue:
            return anyio.from_thread.run(fetch_artifact, self._asking, state.tenant, ref)

        return fetch


def _broken(message: str) -> JudgeVerdict:
    return JudgeVerdict(problem=Problem(code="PREDICATE_FAILED", message=message))
