"""Steps 2 and 3: render the state and ask the model, once, within what is reserved.

An attempt that fails is answered as such, with the time after which another one may help: each is
paid for by a reservation of its own, and how many have failed stands in the journal. A conversation
that outgrew its window is summed up by the model before it is asked for the next step.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import anyio
from msgspec import structs

from messages.agent import AgentSpec, ModelUse
from messages.base import Message, Request
from messages.decision import (
    Consult,
    Consultation,
    Decide,
    Decision,
    ModelFailed,
    NeedsReservation,
    NotAsked,
)
from messages.errors import ModelError, NotFound
from messages.events import Consulted, Decided
from messages.ledger import Entry
from messages.parts import Amount, Attempt, Problem, Usage
from messages.status import Reason
from runtime import breaker
from runtime.actor import Actor
from runtime.asking import Asking
from runtime.breakers import Breakers, Call
from runtime.bus.port import Bus, Work
from runtime.clock import Chance, Clock
from runtime.faults import fault
from runtime.journal import JournalCache
from runtime.model import retry
from runtime.model.conversation import Conversation
from runtime.model.cut import cut_for_json
from runtime.model.fold import fold_conversation
from runtime.model.pairs import refuse_unpaired
from runtime.model.port import Model, ModelAnswer
from runtime.model.prepare import Kitchen, Prepared
from runtime.model.shorten import summary_bytes, summed_up

_CUT_OFF = " (cut off)"


class Heard(NamedTuple):
    """How one attempt ended, and when it was made."""

    answer: ModelAnswer | ModelError
    started_at: float
    duration_s: float


class Planner(Actor):
    """Owns the model.

    Receives: Decide, Consult.
    Replies: Decision or Consultation; NeedsReservation or NotAsked, without having asked;
        ModelFailed.
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
        self._kitchens = {name: Kitchen(agent) for name, agent in agents.items()}
        self._talks: JournalCache[Conversation] = JournalCache(
            asking, self._fold, lambda talk: talk.state.version
        )

    async def handle(self, request: Request[object], work: Work) -> Message:
        """Answer one Decide or Consult."""
        if not isinstance(request, Decide | Consult):
            raise NotFound("verb", f"planner.{request.verb}")
        if request.agent not in self._agents:
            raise NotFound("agent", request.agent)
        talk = await self._talks.at(request.tenant, request.run_id, request.version, request.tail)
        kitchen = self._kitchens[request.agent]
        prepare = kitchen.step if isinstance(request, Decide) else kitchen.summary
        prepared = prepare(talk, request.reservation)
        if isinstance(prepared, NeedsReservation):
            return prepared
        with self._breakers.call(prepared.use.model) as call:
            if call.wait_s:  # not all of those who wait come back at once
                return NotAsked(retry_in_s=call.wait_s + self._chance() * breaker.SOON_S)
            work.beat("asking the model")
            heard = await self._ask(prepared, work, call)
        if isinstance(heard.answer, ModelError):
            return self._failed(heard.answer, heard, request, talk)
        if isinstance(request, Decide):
            prompt_bytes = self._agents[request.agent].prompt_bytes
            decided = _decided(prepared, heard, heard.answer, request)
            recipe = prepared.counted(decided.usage, prompt_bytes)
            return Decision(decided=structs.replace(decided, recipe=recipe))
        text = _text_of(heard.answer, summary_bytes(self._agents[request.agent]))
        consulted = _consulted(prepared, heard, heard.answer, request, text)
        begun = summed_up(talk, self._agents[request.agent], consulted, request.version)
        return Consultation(consulted=structs.replace(consulted, tokens=begun.most_tokens))

    def breakers(self, tool: str | None) -> dict[str, str]:
        """See ``Actor``."""
        del tool
        return self._breakers.states()

    def _fold(self, talk: Conversation | None, entry: Entry) -> Conversation:
        name = talk.state.agent if talk else getattr(entry.events[0], "agent", "")
        if name not in self._agents:
            raise NotFound("agent", name)
        return fold_conversation(talk, entry, self._agents[name])

    async def _ask(self, prepared: Prepared, work: Work, call: Call) -> Heard:
        """One attempt, within the time there is."""
        started_at, started = self._clock.now(), self._clock.monotonic()
        late = ModelError("timeout", "the model did not answer in time")
        answer: ModelAnswer | ModelError = late
        with anyio.move_on_after(max(work.seconds_left - 1.0, 0.1)):
            fault("planner.before_model")
            try:
                refuse_unpaired(prepared.unpaired, prepared.sent.messages)
                answer = await self._models[prepared.use.model].attempt(prepared.sent)
            except (ModelError, TimeoutError) as error:
                answer = error if isinstance(error, ModelError) else late
        fault("planner.after_model")
        call.ended = retry.heard(answer) if isinstance(answer, ModelError) else "ok"
        return Heard(answer, started_at, self._clock.monotonic() - started)

    def _failed(
        self, failure: ModelError, heard: Heard, request: Decide | Consult, talk: Conversation
    ) -> ModelFailed:
        """The final turn is had once, whatever becomes of it."""
        reservation, failed = request.reservation, talk.state.failed_attempts + 1
        again = None if reservation.is_final else retry.pause_s(failure, failed, self._chance())
        return ModelFailed(
            reason=Reason.MODEL_UNAVAILABLE,
            message=failure.message,
            charged=Amount() if failure.is_free else reservation.most,
            attempts=(_tried(failure, heard),),
            retry_after_s=failure.retry_after_s,
            retry_in_s=again,
        )


def _decided(prepared: Prepared, heard: Heard, answer: ModelAnswer, request: Decide) -> Decided:
    return Decided(
        step=request.reservation.step,
        content=answer.content,
        stop_reason=answer.stop_reason,
        parameters={**answer.parameters, "max_tokens": prepared.sent.max_output_tokens},
        recipe=prepared.recipe,
        **_paid(prepared, heard, answer, request.reservation.most),
    )


def _consulted(
    prepared: Prepared, heard: Heard, answer: ModelAnswer, request: Consult, text: str
) -> Consulted:
    return Consulted(
        purpose="summary",
        text=text,
        kept_turns=prepared.kept_turns,
        **_paid(prepared, heard, answer, request.reservation.most),
    )


def _paid(prepared: Prepared, heard: Heard, answer: ModelAnswer, most: Amount) -> dict[str, Any]:
    """Who answered, when, and what it cost at which price, for the record."""
    usage, charged = _settled(answer, prepared.use, most)
    price = prepared.use.price
    return {
        "usage": usage,
        "is_usage_reported": answer.usage is not None,
        "charged": charged,
        "is_over_reservation": charged.tokens > most.tokens
        or charged.cost_microusd > most.cost_microusd,
        "price_date": price.date if price else "",
        "price": price,
        "model": answer.model,
        "request_id": answer.request_id,
        "started_at": heard.started_at,
        "duration_s": round(heard.duration_s, 6),
    }


def _text_of(answer: ModelAnswer, most: int) -> str:
    """The words of an answer, in at most so many bytes; a call that came with them is not done."""
    words = [str(block.get("text", "")) for block in answer.content if block.get("type") == "text"]
    text = "\n".join(words).strip()
    kept = cut_for_json(text, most - len(_CUT_OFF))
    is_cut = kept != text or answer.stop_reason == "max_tokens"
    return kept + _CUT_OFF if kept and is_cut else kept


def _settled(answer: ModelAnswer, use: ModelUse, most: Amount) -> tuple[Usage, Amount]:
    """Reported usage and what is charged; what is not reported is charged at the reservation."""
    usage = answer.usage
    if usage is None or min(structs.astuple(usage)) < 0:
        return Usage(), most
    cost = use.price.cost(usage) if use.price else 0
    return usage, Amount(tokens=usage.tokens, cost_microusd=cost)


def _tried(failure: ModelError, heard: Heard) -> Attempt:
    return Attempt(
        request_id=failure.request_id,
        started_at=heard.started_at,
        duration_s=heard.duration_s,
        error=Problem(code=failure.reason.upper(), message=failure.message),
    )
