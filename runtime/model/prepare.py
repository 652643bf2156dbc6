"""What a planner is about to send, or what has to be reserved before it may. Pure."""

from typing import NamedTuple

from msgspec.structs import replace

from messages.agent import AgentSpec, ModelUse
from messages.canon import digest
from messages.decision import NeedsReservation
from messages.events import Recipe
from messages.parts import Amount, JsonValue, Reservation, Usage
from runtime.loop.budget import MIN_OUTPUT_TOKENS, STEP_OVERHEAD_BYTES, cost_bound
from runtime.model.conversation import Conversation, size_of
from runtime.model.port import ModelRequest
from runtime.model.render import SUM_UP_BYTES, request_of, summary_request, tools_of
from runtime.model.shorten import cleared, is_foreign, plan, summary_bytes

BYTES_A_TOKEN = 6
"""A count that means more is none: it is a script's, or a gateway's that counts something else."""
SHORT_BYTES = 4_000
"""Of a shorter conversation nobody can tell, and nothing hangs on it."""
Tools = tuple[dict[str, JsonValue], ...]


class Prepared(NamedTuple):
    """A request that is paid for.

    Attributes:
        use: Who is asked.
        sent: What they are sent.
        recipe: What it was made of.
        kept_turns: Of a summary: the newest turns, which it is not about.
        size: Of a step: bytes of the conversation.
        unpaired: What is wrong with it.
    """

    use: ModelUse
    sent: ModelRequest
    recipe: Recipe
    kept_turns: int = 0
    size: int = 0
    unpaired: str = ""

    def counted(self, usage: Usage, prompt_bytes: int) -> Recipe:
        """The recipe, with what the provider counted of the conversation, where that can be true.

        What it counts is exact and so the better bound.
        """
        whole = usage.tokens - usage.output_tokens
        if self.size < SHORT_BYTES or whole * BYTES_A_TOKEN < prompt_bytes + self.size:
            return self.recipe
        most = min(self.recipe.tokens, max(whole - prompt_bytes, 1))
        return replace(self.recipe, tokens=most)


class Kitchen:
    """Prepares the requests of one agent."""

    def __init__(self, agent: AgentSpec) -> None:
        """Args: agent: whose."""
        self._agent = agent
        self._tools = tools_of(agent)
        self._recipe = Recipe(
            agent_code=agent.code,
            instructions=digest(agent.instructions),
            tools=digest(self._tools),
        )

    def step(self, talk: Conversation, reservation: Reservation) -> Prepared | NeedsReservation:
        """The request of a step, or of the last turn; a summary may have to come first."""
        if reservation.is_final:  # rendered to fit
            sent = request_of(talk, self._agent, self._tools, reservation)
            return Prepared(self._agent.use("final"), sent, self._recipe)
        shorter, kept = plan(talk, self._agent), None
        if shorter is not None and shorter.kind == "sum_up":
            return self._summary(talk, reservation, shorter.kept_turns)
        if shorter is not None:
            kept = shorter.kept_turns
            talk = cleared(talk, self._agent, kept, talk.state.version + 1)
        use, output = self._agent.use(), max(reservation.output_tokens, MIN_OUTPUT_TOKENS)
        if needs := self._unpaid(use, talk.most_tokens, output, reservation, is_summary=False):
            return needs
        sent = request_of(talk, self._agent, self._tools, reservation)
        made_of = {"first_version": talk.first_version, "kept_turns": kept}
        recipe = replace(self._recipe, model=use.model, tokens=talk.most_tokens, **made_of)
        return Prepared(use, sent, recipe, size=talk.size, unpaired=talk.unpaired)

    def summary(self, talk: Conversation, reservation: Reservation) -> Prepared | NeedsReservation:
        """The request of a summary; or of the step, where none is needed any more."""
        shorter = plan(talk, self._agent)
        if shorter is None or shorter.kind == "clear":
            return self.step(talk, replace(reservation, is_summary=True))
        return self._summary(talk, reservation, shorter.kept_turns)

    def _summary(
        self, talk: Conversation, reservation: Reservation, kept_turns: int
    ) -> Prepared | NeedsReservation:
        use = self._agent.use("summary")
        output = max(min(self._agent.max_output_tokens, summary_bytes(self._agent)), 1)
        sent = summary_request(talk, self._agent, self._tools, kept_turns, output)
        most = size_of(sent.messages)
        if not is_foreign(talk, self._agent):  # a count of one model bounds no other
            most = min(most, talk.most_tokens + SUM_UP_BYTES)
        needs = self._unpaid(use, most, output, reservation, is_summary=True)
        return needs or Prepared(use, sent, self._recipe, kept_turns, unpaired=talk.unpaired)

    def _unpaid(
        self, use: ModelUse, most_tokens: int, output: int, held: Reservation, *, is_summary: bool
    ) -> NeedsReservation | None:
        """The reservation that a request really needs, if the open one is not for it."""
        window = self._agent.context.window_tokens
        needed = min(self._agent.prompt_bytes + most_tokens + STEP_OVERHEAD_BYTES, window)
        is_same = held.is_summary == is_summary
        if is_same and needed + output <= held.most.tokens and output == held.output_tokens:
            return None
        cost = cost_bound(use, needed, output)
        least = held.most.cost_microusd if is_same else 0
        most = Amount(tokens=needed + output, cost_microusd=max(cost, least))
        return NeedsReservation(most=most, output_tokens=output, is_summary=is_summary)
