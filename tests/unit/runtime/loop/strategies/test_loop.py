"""What a turn proposes, read off its structure and never off its words."""

import pytest

from messages.parts import Block
from messages.state import Proposal
from runtime.loop.strategies.loop import CONTROL_TOOLS, control_tools, read_turn
from tests.unit.runtime.loop.loop_world import text, use


def kind(*blocks: Block, stop_reason: str = "tool_use", is_final: bool = False) -> str:
    return read_turn(blocks, stop_reason, is_final=is_final)[0].kind


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (
            use(0, "finish", output={"a": 1}),
            Proposal(kind="finish", output={"a": 1}, control_id="tu-0"),
        ),
        (use(0, "finish"), Proposal(kind="finish", control_id="tu-0")),
        (
            use(0, "ask_user", question="Which?", schema={"type": "string"}),
            Proposal(kind="ask_user", text="Which?", schema={"type": "string"}, control_id="tu-0"),
        ),
        (
            use(0, "ask_user", question=5, schema="odd"),
            Proposal(kind="ask_user", text="5", control_id="tu-0"),
        ),
        (
            use(0, "wait", seconds=30, why="pending"),
            Proposal(kind="wait", text="pending", seconds=30.0, control_id="tu-0"),
        ),
        (use(0, "give_up", why="no"), Proposal(kind="give_up", text="no", control_id="tu-0")),
    ],
)
def test_a_lone_control_call_is_a_proposal_without_calls(block: Block, expected: Proposal) -> None:
    assert read_turn((text("thinking aloud"), block), "tool_use", is_final=False) == (expected, ())


def test_calls_keep_their_order_and_ids() -> None:
    content = (text("a"), use(1, "look", x=1), text("b"), use(0, "scan", x=2))
    proposal, calls = read_turn(content, "tool_use", is_final=False)
    assert proposal.kind == "calls"
    seen = [(call.ordinal, call.tool_use_id, call.tool, call.arguments) for call in calls]
    assert seen == [(0, "tu-1", "look", {"x": 1}), (1, "tu-0", "scan", {"x": 2})]


def test_a_control_call_among_others_is_a_call_like_them() -> None:
    """The validator turns it down; nothing ends while something else was asked for."""
    for control in CONTROL_TOOLS:
        content = (use(0, "look"), use(1, control))
        proposal, calls = read_turn(content, "tool_use", is_final=False)
        assert (proposal.kind, [call.tool for call in calls]) == ("calls", ["look", control])
    assert kind(use(0, "finish", output=1), use(1, "finish", output=2)) == "calls"
    assert kind(use(0, "wait", seconds=1), use(1, "give_up")) == "calls"


def test_plain_text_is_a_finish_proposal() -> None:
    proposal, calls = read_turn((text("All "), text("done.")), "end_turn", is_final=False)
    assert (proposal.kind, proposal.output, proposal.control_id) == ("finish", "All \ndone.", None)
    assert calls == ()


@pytest.mark.parametrize(
    "content",
    [
        (),
        (text(""),),
        (text(" \n\t"),),
        ({"type": "thinking", "thinking": "hm"},),
        ({"type": "text", "text": 5},),
    ],
)
def test_a_turn_that_says_nothing_is_empty(content: tuple[Block, ...]) -> None:
    assert kind(*content, stop_reason="end_turn") == "empty"


@pytest.mark.parametrize("stop_reason", ["max_tokens", "model_context_window_exceeded"])
def test_a_cut_turn_proposes_nothing_but_keeps_its_calls(stop_reason: str) -> None:
    """They need results, or the conversation could not go on."""
    for control in (use(0, "finish", output="x"), use(0, "mail", x=1)):
        proposal, calls = read_turn((control,), stop_reason, is_final=False)
        assert (proposal.kind, len(calls)) == ("cut", 1)
    assert kind(text("half a sent"), stop_reason=stop_reason) == "cut"


def test_a_refusal_proposes_nothing() -> None:
    assert kind(text("No."), use(0, "mail"), stop_reason="refusal") == "refused"


@pytest.mark.parametrize("stop_reason", ["end_turn", "tool_use", "max_tokens", "refusal"])
def test_the_final_turn_is_its_text(stop_reason: str) -> None:
    content = (text("Known: a."), use(0, "mail", x=1))
    proposal, calls = read_turn(content, stop_reason, is_final=True)
    assert (proposal.kind, proposal.text, calls) == ("final", "Known: a.", ())


@pytest.mark.parametrize("value", ["{", None, [1], 5])
def test_arguments_that_are_no_object_reach_the_validator_as_such(value: object) -> None:
    block: Block = {"type": "tool_use", "id": "t", "name": "look", "input": value}
    _, calls = read_turn((block,), "tool_use", is_final=False)
    assert calls[0].arguments == {"": value}


def test_the_control_tools_are_offered_with_the_agents_output() -> None:
    schema = {"type": "object", "title": "Outcome"}
    tools = control_tools(schema)
    assert [tool["name"] for tool in tools] == list(CONTROL_TOOLS)
    assert tools[0]["input_schema"]["properties"]["output"] == schema
    assert control_tools(None)[0]["input_schema"]["properties"]["output"]["type"] == "string"
    assert tools == control_tools(schema), "byte-stable: providers cache and bind the prefix"
