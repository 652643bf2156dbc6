"""Steps 2 and 3: render the state and ask the model, once, within what is reserved.

An attempt that fails is answered as such, with the time after which another one may help: each is
paid for by a reservation of its own, and how many have failed stands in the journal.
"""

from collections.abc import Mapping

import anyio
from msgspec import structs

from messages.agent import AgentSpec, ModelUse
from messages.base import Message, Request
from messages.canon import digest
from messages.decision import Decide, Decision, ModelFailed, NeedsReservation, NotAsked
from messages.errors import ModelError, NotFound
from messages.events import Decided, Recipe
from messages.parts import Amount, Attempt, JsonValue, Problem, Usage
from messages.status import Reason
from runtime import breaker
from runtime.actor import Actor
from runtime.asking import Asking
from runtime.breakers import Breakers, Call
from runtime.bus.port import Bus, Work
from runtime.clock import Chance, Clock
from runtime.faults import fault
from runtime.journal import JournalCache
from runtime.loop.budget import MIN_OUTPUT_TOKENS, STEP_OVERHEAD_BYTES, cost_bound
from runtime.model import retry
from runtime.model.port import Model, ModelAnswer
from runtime.model.render import (
    Conversation,
    fold_conversation,
    input_size,
    request_of,
    tools_of,
)


class Planner(Actor):
    """Owns the model.

    Receives: Decide.
    Replies: Decision; NeedsReservation or NotAsked, without having asked; ModelFailed.
    Guarantees: the model is asked at most once per reservation, and never for more than it covers.
    """

    role = "planner"
    is_slow = True

    def __init__(
        self,
        bus: Bus,
        agents: Mapping[str, AgentSpec],
        models: Mapping[str, Model],
        asking: Asking,
        clock: Clock,
        chance: Chance,
    ) -> None:
        """Args.

        agents: by name.
        models: by the name that an agent's uses have for it.
        asking: for the journal.
        clock: durations.
        chance: jitter of the pauses between attempts.
        """
        super().__init__(bus)
        self._agents = agents
        self._models = models
        self._clock = clock
        self._chance = chance
        self._breakers = Breakers(clock, models)
        self._tools = {name: tools_of(agent) for name, agent in agents.items()}
        self._recipes = {name: _recipe(agent, self._tools[name]) for name, agent in agents.items()}
        self._talks: JournalCache[Conversation] = JournalCache(
            asking, fold_conversation, lambda talk: talk.state.version
        )

    async def handle(self, request: Request[object], work: Work) -> Message:
        """Answer one Decide."""
        if not isinstance(request, Decide):
            raise NotFound("verb", f"planner.{request.verb}")
        agent = self._agents.get(request.agent)
        if agent is None:
            raise NotFound("agent", request.agent)
        talk = await self._talks.at(request.tenant, request.run_id, request.version, request.tail)
        wider = _wider(talk, agent, request)
        if wider is not None:
            return wider
        use = agent.use("final" if request.reservation.is_final else None)
        with self._breakers.call(use.model) as call:
            if call.wait_s:  # not all of those who wait come back at once
                return NotAsked(retry_in_s=call.wait_s + self._chance() * breaker.SOON_S)
            work.beat("asking the model")
            return await self._attempt(talk, agent, use, request, work, call)

    def breakers(self, tool: str | None) -> dict[str, str]:
        """See ``Actor``."""
        del tool
        return self._breakers.states()

    async def _attempt(
        self,
        talk: Conversation,
        agent: AgentSpec,
        use: ModelUse,
        request: Decide,
        work: Work,
        call: Call,
    ) -> Decision | ModelFailed:
        reservation = request.reservation
        sent = request_of(talk, agent, self._tools[agent.name], reservation)
        started_at, started = self._clock.now(), self._clock.monotonic()
        late = ModelError("timeout", "the model did not answer in time")
        answer: ModelAnswer | ModelError = late
        with anyio.move_on_after(max(work.seconds_left - 1.0, 0.1)):
            fault("planner.before_model")
            try:
                answer = await self._models[use.model].attempt(sent)
            except (ModelError, TimeoutError) as error:
                answer = error if isinstance(error, ModelError) else late
        fault("planner.after_model")
        if isinstance(answer, ModelError):
            call.ended = retry.heard(answer)
            attempt = _tried(answer, started_at, self._clock.monotonic() - started)
            return self._failed(answer, attempt, request, talk.state.failed_attempts + 1)
        call.ended = "ok"
        decided = _decided(answer, use, request)
        return Decision(
            decided=Decided(
                step=reservation.step,
                content=answer.content,
                stop_reason=answer.stop_reason,
                usage=decided[0],
                is_usage_reported=answer.usage is not None,
                charged=decided[1],
                price_date=use.price.date if use.price else "",
                price=use.price,
                model=answer.model,
                parameters={**answer.parameters, "max_tokens": sent.max_output_tokens},
                request_id=answer.request_id,
                started_at=started_at,
                duration_s=round(self._clock.monotonic() - started, 6),
                recipe=self._recipes[agent.name],
            )
        )

    def _failed(
        self, failure: ModelError, attempt: Attempt, request: Decide, failed: int
    ) -> ModelFailed:
        """The final turn is had once, whatever becomes of it."""
        is_final = request.reservation.is_final
        return ModelFailed(
            reason=Reason.MODEL_UNAVAILABLE,
            message=failure.message,
            charged=Amount() if failure.is_free else request.reservation.most,
            attempts=(attempt,),
            retry_after_s=failure.retry_after_s,
            retry_in_s=None if is_final else retry.pause_s(failure, failed, self._chance()),
        )


def _recipe(agent: AgentSpec, tools: tuple[dict[str, JsonValue], ...]) -> Recipe:
    return Recipe(
        agent_code=agent.code, instructions=digest(agent.instructions), tools=digest(tools)
    )


def _wider(talk: Conversation, agent: AgentSpec, request: Decide) -> NeedsReservation | None:
    """The reservation that the input really needs, if the open one does not cover it."""
    reservation = request.reservation
    if reservation.is_final:
        return None  # rendered to fit
    needed = input_size(talk, agent) + STEP_OVERHEAD_BYTES
    if needed + reservation.output_tokens <= reservation.most.tokens:
        return None
    output = max(reservation.output_tokens, MIN_OUTPUT_TOKENS)
    return NeedsReservation(
        most=Amount(
            tokens=needed + output,
            cost_microusd=max(
                cost_bound(agent.use(), needed, output), reservation.most.cost_microusd
            ),
        ),
        output_tokens=output,
    )


def _decided(answer: ModelAnswer, use: ModelUse, request: Decide) -> tuple[Usage, Amount]:
    """Reported usage and what is charged; what is not reported is charged at the reservation."""
    usage = answer.usage
    if usage is None or min(structs.astuple(usage)) < 0:
        return Usage(), request.reservation.most
    cost = use.price.cost(usage) if use.price else 0
    return usage, Amount(tokens=usage.tokens, cost_microusd=cost)


def _tried(failure: ModelError, started_at: float, duration_s: float) -> Attempt:
    return Attempt(
        request_id=failure.request_id,
        started_at=started_at,
        duration_s=duration_s,
        error=Problem(code=failure.reason.upper(), message=failure.message),
    )
