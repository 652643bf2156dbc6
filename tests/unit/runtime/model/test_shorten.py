"""When a conversation begins anew, and what it begins with."""

import json
import re
from typing import Any

import pytest
from msgspec.structs import replace

from messages import events as e
from messages.agent import AgentSpec, ContextSpec, ModelUse
from messages.authority import Verdict
from messages.canon import action_hash
from messages.decision import NeedsReservation
from messages.events import Recipe
from messages.parts import Action, Amount, Evidence, Reservation, Usage
from runtime.loop.budget import room_of
from runtime.model.conversation import Conversation, size_of
from runtime.model.pairs import unpaired
from runtime.model.port import ModelRequest
from runtime.model.prepare import Kitchen, Prepared
from runtime.model.render import CHARACTERS_A_TOKEN
from runtime.model.results import opening
from runtime.model.shorten import FULL, TARGET, cleared, plan, summary_bytes, summed_up
from tests.unit.runtime.loop.loop_world import SPEC, text, use
from tests.unit.runtime.loop.tales import GRANT
from tests.unit.runtime.model.test_render import told_of

WINDOW = 12_000
AGENT = replace(
    SPEC,
    context=ContextSpec(window_tokens=WINDOW),
    max_output_tokens=500,
    limits=replace(SPEC.limits, max_steps=99),
)
LONG = replace(
    AGENT,
    context=ContextSpec(window_tokens=200_000),
    instructions="long " * 6_000,
    prompt_bytes=32_000,
)
SHORT = replace(LONG, code="c0de2", instructions="short", prompt_bytes=2_000)
"""The same agent after its prompt became shorter."""
RICH = Reservation(step=9, most=Amount(tokens=10**6), output_tokens=500, take_id="t")
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig:2"}


def turn(
    step: int,
    size: int,
    *,
    model: str = "",
    code: str = "",
    tokens: int = 0,
    thinks: bool = False,
    words: str = "",
) -> list[e.AnyEvent]:
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
    said = [THOUGHT] * thinks + [text(words)] * bool(words) + [use(0, "look", x=step)]
    return [
        e.Decided(
            step=step,
            content=tuple(said),
            stop_reason="tool_use",
            usage=Usage(),
            charged=Amount(),
            model="m-2026",
            started_at=0.0,
            recipe=Recipe(model=model, agent_code=code, tokens=tokens),
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


def summary_of(talk: Conversation, agent: AgentSpec) -> tuple[Prepared, NeedsReservation]:
    """The request of a summary, and what had to be reserved for it."""
    needs = Kitchen(agent).step(talk, RICH)
    assert isinstance(needs, NeedsReservation)
    held = replace(RICH, most=needs.most, output_tokens=needs.output_tokens, is_summary=True)
    prepared = Kitchen(agent).summary(talk, held)
    assert isinstance(prepared, Prepared)
    return prepared, needs


def thoughts(sent: ModelRequest) -> list[dict[str, Any]]:
    return [block for m in sent.messages for block in m["content"] if block["type"] == "thinking"]


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


def test_so_it_does_where_there_is_but_one_turn_and_that_is_large() -> None:
    talk = told_of(turn(1, 100, model="old", thinks=True, words="x" * 9_500), spec=AGENT)
    assert talk.size > FULL * room_of(AGENT)
    prepared = Kitchen(replace(AGENT, model="new")).step(talk, RICH)
    assert isinstance(prepared, Prepared)
    assert thoughts(prepared.sent) == []


def test_another_prompt_gets_none_of_the_thoughts_either() -> None:
    """They are bound to the instructions and the tools as well (research/sdk-facts.md 2.2)."""
    turns = [turn(n, 100, model=LONG.model, code=LONG.code, thinks=True) for n in range(1, 4)]
    talk = told_of(*turns, spec=LONG)
    same, other = (Kitchen(agent).step(talk, RICH) for agent in (LONG, SHORT))
    assert isinstance(same, Prepared)
    assert isinstance(other, Prepared)
    assert len(thoughts(same.sent)) == 3
    assert other.sent.system == SHORT.instructions
    assert thoughts(other.sent) == []


@pytest.mark.parametrize(
    ("agent", "is_same"),
    [
        (replace(AGENT, model="big"), True),
        (replace(AGENT, model="big", roles={"summary": ModelUse(model="small")}), False),
        (replace(AGENT, model="new"), False),
    ],
    ids=["the same model", "one for summaries", "a new one"],
)
def test_who_sums_up_sees_no_thoughts_of_another(agent: AgentSpec, *, is_same: bool) -> None:
    talk = talk_of(*[100] * 30, model="big", thinks=True)
    prepared, _ = summary_of(talk, agent)
    assert prepared.use == agent.use("summary")
    assert bool(thoughts(prepared.sent)) is is_same


# ------------------------------------------------------------------ what it costs
def test_a_summary_is_reserved_before_it_is_asked_for() -> None:
    talk = talk_of(*[100] * 30)
    prepared, needs = summary_of(talk, AGENT)
    assert needs.is_summary
    assert prepared.sent.is_summary
    assert unpaired(prepared.sent.messages) == ""
    less = replace(needs.most, tokens=needs.most.tokens - 1)
    short = replace(RICH, most=less, output_tokens=needs.output_tokens, is_summary=True)
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


def test_a_count_of_one_model_bounds_no_other() -> None:
    """One counts a token for four bytes, who sums up for three."""
    agent = replace(AGENT, model="big", roles={"summary": ModelUse(model="small")})
    talk = talk_of(*[100] * 65, model="big")
    talk = replace(talk, most_tokens=talk.size // 4, density=0.25, is_counted=True)
    prepared, needs = summary_of(talk, agent)
    counted = (agent.prompt_bytes + size_of(prepared.sent.messages)) // 3
    assert counted <= needs.most.tokens - needs.output_tokens


@pytest.mark.parametrize("agent", [LONG, SHORT], ids=["the same", "another"])
def test_a_count_under_one_prompt_bounds_no_other(agent: AgentSpec) -> None:
    """As after an upgrade in the middle of a run to an agent with shorter instructions."""
    turns: list[list[e.AnyEvent]] = []
    for step in range(1, 9):
        talk = told_of(*turns, spec=LONG)
        counted = (LONG.prompt_bytes + talk.size) // 3
        prepared = Kitchen(LONG).step(talk, RICH)
        assert isinstance(prepared, Prepared)
        recipe = prepared.counted(Usage(input_tokens=counted), LONG.prompt_bytes)
        turns.append(turn(step, 15_000, model=LONG.model, code=LONG.code, tokens=recipe.tokens))
    talk = told_of(*turns, spec=agent)
    needs = Kitchen(agent).step(talk, replace(RICH, most=Amount(tokens=1)))
    assert isinstance(needs, NeedsReservation)
    counted = (agent.prompt_bytes + talk.size) // 3
    assert counted <= needs.most.tokens - needs.output_tokens


@pytest.mark.parametrize(("window", "size"), [(WINDOW, 100), (200_000, 3_000)])
def test_a_summary_may_be_as_long_as_it_is_told(window: int, size: int) -> None:
    """Neither its share of the room nor its tokens cut it off."""
    agent = replace(AGENT, context=ContextSpec(window_tokens=window), max_output_tokens=4_096)
    turns = [turn(step, 100, words="x" * size) for step in range(1, 61)]
    prepared, _ = summary_of(told_of(*turns, spec=agent), agent)
    asked = prepared.sent.messages[-1]["content"][-1]["text"]
    [longest] = re.findall(r"at most (\d+) characters", asked)
    assert int(longest) <= summary_bytes(agent)
    assert int(longest) <= CHARACTERS_A_TOKEN * prepared.sent.max_output_tokens


def test_a_task_that_is_too_long_for_the_window_says_so() -> None:
    state = replace(talk_of(100).state, goal="g" * 5_000, inputs={"text": "i" * 5_000})
    words = opening(state, AGENT)["text"]
    assert "of 5000 characters)" in words
    assert len(words) < room_of(AGENT) / 4
    assert "cut" not in opening(talk_of(100).state, AGENT)["text"]
