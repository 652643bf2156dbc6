"""When a conversation begins anew, and what it begins with."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from messages import events as e
from messages.agent import ContextSpec
from messages.authority import Verdict
from messages.canon import action_hash
from messages.decision import NeedsReservation
from messages.events import Recipe
from messages.parts import Action, Amount, Evidence, Reservation, Usage
from runtime.loop.budget import room_of
from runtime.model.conversation import Conversation, size_of
from runtime.model.pairs import unpaired
from runtime.model.prepare import Kitchen, Prepared
from runtime.model.shorten import FULL, TARGET, cleared, plan, summed_up
from tests.unit.runtime.loop.loop_world import SPEC, use
from tests.unit.runtime.loop.tales import GRANT
from tests.unit.runtime.model.test_render import told_of

WINDOW = 12_000
AGENT = replace(
    SPEC,
    context=ContextSpec(window_tokens=WINDOW),
    max_output_tokens=500,
    limits=replace(SPEC.limits, max_steps=99),
)
RICH = Reservation(step=9, most=Amount(tokens=10**6), output_tokens=500, take_id="t")
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig:2"}


def turn(step: int, size: int, *, model: str = "", thinks: bool = False) -> list[e.AnyEvent]:
    """A look, and a result of so many bytes."""
    evidence = Evidence(
        id=f"ev-{step}",
        tool="look",
        request_id=f"r{step}",
        fetched_at=0.0,
        source="s",
        payload="x" * size,
    )
    arguments = {"x": step}
    action = Action(
        ordinal=0,
        tool="look",
        arguments=arguments,
        action_hash=action_hash("look", arguments, None),
    )
    said = [*([THOUGHT] if thinks else []), use(0, "look", x=step)]
    return [
        e.Decided(
            step=step,
            content=tuple(said),
            stop_reason="tool_use",
            usage=Usage(),
            charged=Amount(),
            model="m-2026",
            started_at=0.0,
            recipe=Recipe(model=model),
        ),
        e.Accepted(step=step, actions=(action,)),
        e.Authorised(
            step=step,
            verdicts=(Verdict(ordinal=0, decision="allow", why="", rule="r"),),
            policy="p1",
            grant=GRANT,
        ),
        e.Observed(step=step, ordinal=0, kind="ok", evidence=evidence),
    ]


def talk_of(*sizes: int, **more: Any) -> Conversation:
    return told_of(*[turn(step, size, **more) for step, size in enumerate(sizes, 1)], spec=AGENT)


def contents(talk: Conversation) -> list[dict[str, Any]]:
    blocks = [block for message in talk.messages for block in message["content"]]
    return [json.loads(b["content"]) for b in blocks if b["type"] == "tool_result"]


# ------------------------------------------------------------------ when
def test_what_fits_goes_on_as_it_is() -> None:
    assert plan(talk_of(100, 100, 100), AGENT) is None


def test_results_are_left_out_first_and_as_few_as_will_do() -> None:
    room = room_of(AGENT)
    talk = talk_of(*[1_000] * 7)
    assert talk.size > FULL * room
    shorter = plan(talk, AGENT)
    assert shorter is not None
    assert (shorter.kind, shorter.kept_turns) == ("clear", 2)
    assert cleared(talk, AGENT, 2, 9).size <= TARGET * room < cleared(talk, AGENT, 3, 9).size


def test_turns_are_summed_up_where_results_are_not_what_is_large() -> None:
    talk = talk_of(*[100] * 30)
    shorter = plan(talk, AGENT)
    assert shorter is not None
    assert (shorter.kind, shorter.kept_turns) == ("sum_up", 3)


def test_a_single_turn_is_never_shortened() -> None:
    """The model has not seen its results yet; they were cut to their share when they came."""
    talk = talk_of(100_000)
    assert plan(talk, AGENT) is None
    assert talk.size < FULL * room_of(AGENT)


# ------------------------------------------------------------------ with what
def test_cleared_results_name_their_evidence_and_nothing_is_separated() -> None:
    talk = cleared(talk_of(*[1_500] * 5), AGENT, 2, 9)
    assert [sorted(content) for content in contents(talk)][:3] == [["cleared", "evidence"]] * 3
    assert [content["evidence"] for content in contents(talk)] == [f"ev-{n}" for n in range(1, 6)]
    assert all("data" in content for content in contents(talk)[3:])
    assert talk.unpaired == unpaired(talk.messages) == ""
    assert (talk.size, talk.most_tokens) == (size_of(talk.messages),) * 2
    assert "first 3 turns" in talk.messages[0]["content"][1]["text"]


def test_a_summary_stands_for_the_turns_that_are_gone() -> None:
    asked = e.Consulted(
        purpose="summary", text="so far", kept_turns=2, usage=Usage(), charged=Amount(), model="m"
    )
    talk = summed_up(talk_of(*[100] * 6), AGENT, asked, 9)
    assert [content["evidence"] for content in contents(talk)] == ["ev-5", "ev-6"]
    assert talk.messages[0]["content"][0] == talk_of(100).messages[0]["content"][0], "the task"
    assert talk.messages[0]["content"][2]["text"].startswith("On record: 6 steps; 6 reads")
    assert '"so far"' in talk.messages[0]["content"][3]["text"]
    assert talk.unpaired == ""
    assert talk.first_version == 9


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_a_new_conversation_has_no_thoughts(kept: int) -> None:
    talk = talk_of(*[1_500] * 5, thinks=True)
    new = cleared(talk, AGENT, kept, 9)
    assert THOUGHT not in [block for m in new.messages for block in m["content"]]


# ------------------------------------------------------------------ who
def test_another_model_gets_a_conversation_without_the_thoughts_of_the_first() -> None:
    talk = talk_of(100, 100, model="old", thinks=True)
    prepared = Kitchen(AGENT).step(talk, RICH)
    assert isinstance(prepared, Prepared)
    assert (prepared.recipe.kept_turns, prepared.recipe.model) == (2, AGENT.model)
    sent = [block for m in prepared.sent.messages for block in m["content"]]
    assert THOUGHT not in sent
    assert len([b for b in sent if b["type"] == "tool_result" and "data" in b["content"]]) == 2
    same = Kitchen(AGENT).step(talk_of(100, model=AGENT.model, thinks=True), RICH)
    assert isinstance(same, Prepared)
    assert same.recipe.kept_turns is None
    assert THOUGHT in same.sent.messages[1]["content"]


# ------------------------------------------------------------------ what it costs
def test_a_summary_is_reserved_before_it_is_asked_for() -> None:
    talk = talk_of(*[100] * 30)
    needs = Kitchen(AGENT).step(talk, RICH)
    assert isinstance(needs, NeedsReservation)
    assert needs.is_summary
    held = replace(RICH, most=needs.most, output_tokens=needs.output_tokens, is_summary=True)
    prepared = Kitchen(AGENT).summary(talk, held)
    assert isinstance(prepared, Prepared)
    assert prepared.sent.is_summary
    assert unpaired(prepared.sent.messages) == ""
    short = replace(held, most=replace(needs.most, tokens=needs.most.tokens - 1))
    assert Kitchen(AGENT).summary(talk, short) == needs


def test_a_summary_that_is_needed_no_more_gives_way_to_the_step() -> None:
    """As after an upgrade to a larger window between the two."""
    needs = Kitchen(AGENT).summary(talk_of(100), replace(RICH, is_summary=True))
    assert isinstance(needs, NeedsReservation)
    assert not needs.is_summary


@pytest.mark.parametrize(
    ("counted", "size", "is_believed"),
    [
        (900, 1_800, True),
        (100, 1_800, False),
        (0, 1_800, False),
        (10**6, 1_800, True),
        (900, 600, False),
    ],
)
def test_what_the_provider_counted_bounds_the_beginning(
    counted: int, size: int, *, is_believed: bool
) -> None:
    agent = replace(AGENT, prompt_bytes=400)
    talk = talk_of(size, size)
    prepared = Kitchen(agent).step(talk, RICH)
    assert isinstance(prepared, Prepared)
    recipe = prepared.counted(Usage(input_tokens=counted, output_tokens=7), agent.prompt_bytes)
    expected = min(talk.most_tokens, counted - 400) if is_believed else talk.most_tokens
    assert recipe.tokens == expected


def test_it_is_full_by_what_was_counted_not_by_bytes() -> None:
    talk = talk_of(*[1_500] * 5)
    assert plan(talk, AGENT) is not None
    counted = replace(talk, most_tokens=talk.size // 4, density=0.25, is_counted=True)
    assert plan(counted, AGENT) is None
