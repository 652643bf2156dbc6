"""Random runs in small windows: whatever happens, each request is sound and paid for.

The world of the pure loop, but what it sends is prepared by the very code that the planner uses, so
that results are left out and turns summed up between crashes, lost steps, people and rejections.
"""

from collections import Counter
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from messages import events as e
from messages.agent import AgentSpec, ContextSpec
from messages.decision import NeedsReservation
from messages.parts import Amount, Block, Evidence, Reservation, Usage
from messages.state import CallState
from runtime.loop import budget
from runtime.model.conversation import size_of
from runtime.model.cut import cut
from runtime.model.pairs import refuse_unpaired
from runtime.model.prepare import Kitchen, Prepared
from runtime.model.shorten import summary_bytes, summed_up
from tests.fakes.rules import body_of, broken_rule
from tests.unit.runtime.loop.loop_world import World, text, variants
from tests.unit.runtime.model.test_render import talk_of

SEEDS = 480
BATCHES = 8
TIGHT = 3_200
"""Of tokens: hardly the least window that there is; four calls at once, each result at its least,
do not fit into it where a byte is a token."""
THOUGHT: Block = {"type": "thinking", "thinking": "hm", "signature": "sig:2"}


def patient(spec: AgentSpec, window: int, keep_turns: int, *, has_done: bool) -> AgentSpec:
    """An agent that is not stopped before its conversation is long."""
    return replace(
        spec,
        context=ContextSpec(window_tokens=window, keep_turns=keep_turns),
        max_output_tokens=500,
        prompt_bytes=500,
        limits=replace(spec.limits, max_steps=40, max_tokens=10**6, max_seconds=10**6),
        on_policy_deny="tell",
        has_done=has_done,
        errors=replace(spec.errors, max_consecutive=99, max_total=99, max_corrections=99),
        progress=replace(spec.progress, warn_at=50, stop_at=60, stall_at=50, window=7),
    )


AGENTS = [
    patient(spec, window, keep_turns, has_done=has_done)
    for spec in variants()[:5]
    for window in (TIGHT, 6_000, 14_000)
    for keep_turns in (1, 3)
    for has_done in (False, True)
]


class Cooking(World):
    """A world that prepares what it sends, of long results and turns with thoughts.

    Attributes:
        bodies: what was sent, in order.
        token_bytes: of which the provider counts a token; it may not say so.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed, spec=Random(seed).choice(AGENTS))
        self.kitchen = Kitchen(self.spec)
        self.bodies: list[dict[str, Any]] = []
        self.token_bytes = Random(seed).choice([1, 2, 4])
        self.prepared: Prepared | None = None

    def evidence(self, call: CallState) -> Evidence:
        found = super().evidence(call)
        if self.rng.random() < 0.3:
            return found
        return replace(found, payload="x" * self.rng.choice([3, 800, 3_000]))

    def _proposal(self) -> tuple[tuple[Block, ...], str]:
        content, stop_reason = super()._proposal()
        match self.rng.choice(["thinks"] * 9 + ["says"] * 9 + ["only thinks", "is blank"]):
            case "thinks":
                return (THOUGHT, *content), stop_reason
            case "only thinks":
                return (THOUGHT,), stop_reason
            case "is blank":
                return (THOUGHT, text(" \n")), "end_turn"
            case _:
                return content, stop_reason

    def _is_prepared(self, reservation: Reservation) -> bool:
        talk = talk_of(self.journal, self.spec)
        assert talk.state == self.state
        prepare = self.kitchen.summary if reservation.is_summary else self.kitchen.step
        prepared = prepare(talk, reservation)
        if isinstance(prepared, Prepared):
            self.prepared = prepared
            self._check_sent(prepared, reservation)
            return True
        self._reserve(prepared, reservation)
        return False

    def _reserve(self, needs: NeedsReservation, held: Reservation) -> None:
        wider = budget.widened(
            self.state, held, needs.most, needs.output_tokens, is_summary=needs.is_summary
        )
        assert wider != held, "it would be asked for without end"
        self._widen(wider)

    def _check_sent(self, prepared: Prepared, held: Reservation) -> None:
        """By the rules of the provider, and of what was reserved."""
        refuse_unpaired(prepared.unpaired, prepared.sent.messages)
        body = body_of(prepared.sent)
        assert broken_rule(body, self.bodies) == ""
        self.bodies.append(body)
        most = self._input_tokens(prepared) + prepared.sent.max_output_tokens
        assert most <= held.most.tokens or self.spec.context.window_tokens == TIGHT

    def _input_tokens(self, prepared: Prepared) -> int:
        return (self.spec.prompt_bytes + size_of(prepared.sent.messages)) // self.token_bytes

    def _answered(self, reservation: Reservation) -> e.Decided | e.Consulted:
        prepared = self.prepared
        if reservation.is_final or prepared is None:
            return super()._answered(reservation)
        tokens = self._input_tokens(prepared)
        if reservation.is_summary:
            return self._summary(prepared.kept_turns, tokens)
        usage = Usage(input_tokens=tokens) if self.rng.random() < 0.8 else Usage()
        return replace(
            self._decided(reservation.step, reservation.most),
            usage=usage,
            charged=Amount(tokens=tokens),
            recipe=prepared.counted(usage, self.spec.prompt_bytes),
        )

    def _summary(self, kept_turns: int, tokens: int) -> e.Consulted:
        """What the planner makes of an answer, which may be blank or too long."""
        asked = e.Consulted(
            purpose="summary",
            text=cut("s" * self.rng.randrange(900), summary_bytes(self.spec)),
            kept_turns=kept_turns,
            usage=Usage(input_tokens=tokens),
            charged=Amount(tokens=tokens),
            model="scripted",
        )
        begun = summed_up(talk_of(self.journal, self.spec), self.spec, asked, self.state.version)
        return replace(asked, tokens=begun.most_tokens)


def begun(world: World) -> Counter[str]:
    """How often a new conversation began, and how."""
    events = [event for entry in world.journal for event in entry.events]
    return Counter(
        "summed up" if isinstance(event, e.Consulted) else "cleared"
        for event in events
        if isinstance(event, e.Consulted)
        or (isinstance(event, e.Decided) and event.recipe.kept_turns is not None)
    )


@pytest.mark.parametrize("batch", range(BATCHES))
def test_whatever_happens_each_request_is_sound_and_paid_for(
    batch: int, subtests: pytest.Subtests
) -> None:
    """One world for each seed, which names it where it fails."""
    new: Counter[str] = Counter()
    for seed in range(batch, SEEDS, BATCHES):
        with subtests.test(seed=seed):
            new += begun(Cooking(seed).play())
    assert set(new) == {"summed up", "cleared"}
