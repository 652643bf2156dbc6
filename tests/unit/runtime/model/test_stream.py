"""Events of an answer, without any server: what is joined, counted, kept and turned down."""

from typing import Any

import msgspec
import pytest

from messages.errors import ModelError
from messages.parts import Usage
from runtime.model.port import ModelAnswer
from runtime.model.stream import Reading

END: list[dict[str, Any]] = [
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]


def begin(**usage: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"model": "m", "content": [], "usage": usage}}


def block(index: int, **frame: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": frame}


def delta(index: int, kind: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "content_block_delta",
        "index": index,
        "delta": {"type": f"{kind}_delta", **more},
    }


def read(*events: dict[str, Any] | str) -> Reading:
    reading = Reading()
    for event in events:
        text = event if isinstance(event, str) else msgspec.json.encode(event).decode()
        reading.take(text)
    return reading


def answer(*events: dict[str, Any] | str) -> ModelAnswer:
    return read(begin(input_tokens=5), *events, *END).answer("asked", "req")


def test_deltas_are_joined_to_the_block_they_belong_to() -> None:
    said = answer(
        block(0, type="thinking", thinking="", signature=""),
        block(1, type="text", text="a", citations=None),
        delta(0, "thinking", thinking="so "),
        delta(1, "text", text="b"),
        delta(0, "thinking", thinking="what"),
        delta(0, "signature", signature="EqQ=="),
        delta(1, "citations", citation={"cited_text": "x"}),
    )
    assert said.content == (
        {"type": "thinking", "thinking": "so what", "signature": "EqQ=="},
        {"type": "text", "text": "ab", "citations": [{"cited_text": "x"}]},
    )


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ([], {}),
        (['{"a', '": 1}'], {"a": 1}),
        (['{"a": 1'], '{"a": 1'),
        (['{"a": 1}{"a": 2}'], '{"a": 1}{"a": 2}'),
        (['{"a": NaN}'], '{"a": NaN}'),
        (["[1]"], "[1]"),
        (['"x"'], '"x"'),
        (["[" * 3000], "[" * 1000),
    ],
)
def test_arguments_are_what_was_written_or_its_text(written: list[str], expected: object) -> None:
    said = answer(
        block(0, type="tool_use", id="t", name="look", input={}),
        *[delta(0, "input_json", partial_json=part) for part in written],
    )
    assert said.content[0]["input"] == expected


def test_what_nobody_knows_is_kept_or_passed_over() -> None:
    said = answer(
        {"type": "ping"},
        {"type": "novel_event", "index": 3},
        "",
        block(0, type="novel_block", input={"a": 1}, text=None),
        delta(0, "novel", novel=1),
    )
    assert said.content == ({"type": "novel_block", "input": {"a": 1}, "text": None},)


def test_values_that_no_journal_can_hold_are_made_safe() -> None:
    said = answer(block(0, type="text", text="a\0b", n=2**70))
    assert said.content == ({"type": "text", "text": "a\ufffdb", "n": str(2**70)},)


@pytest.mark.parametrize(
    ("begun", "ended", "expected"),
    [
        ({"input_tokens": 5}, {"output_tokens": 9}, Usage(input_tokens=5, output_tokens=9)),
        (
            {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 1},
            {"output_tokens": 9, "input_tokens": 6, "cache_read_input_tokens": None},
            Usage(input_tokens=6, output_tokens=9, cache_read_tokens=2),
        ),
        ({"input_tokens": 5, "output_tokens": 1}, {}, None),
        ({"input_tokens": 5, "output_tokens": 1}, None, None),
        ({}, {"output_tokens": 9}, None),
        ({"input_tokens": "5"}, {"output_tokens": 9}, None),
        ({"input_tokens": True}, {"output_tokens": 9}, None),
    ],
)
def test_counts_are_totals_and_none_is_guessed(
    begun: dict[str, Any], ended: dict[str, Any] | None, expected: Usage | None
) -> None:
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": ended}
    said = read(begin(**begun), end, {"type": "message_stop"}).answer("m", "")
    assert said.usage == expected


@pytest.mark.parametrize("events", [[], END[:1], END[1:], [block(0, type="text", text="x")]])
def test_less_than_all_of_it_is_no_answer(events: list[dict[str, Any]]) -> None:
    with pytest.raises(ModelError) as caught:
        read(begin(), *events).answer("m", "")
    assert caught.value.reason == "incomplete"


@pytest.mark.parametrize(
    "event",
    [
        "{",
        "[]",
        "{}",
        '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}',
        '{"type":"content_block_start","index":"0","content_block":{}}',
        '{"type":"message_start","message":[]}',
        '{"type":"x","delta":' + "[" * 5000,
    ],
)
def test_what_is_no_event_is_a_value_error(event: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of msgspec, of json or our own
        Reading().take(event)


def test_an_error_event_is_the_providers_own_word() -> None:
    error = {"type": "overloaded_error", "message": "later"}
    with pytest.raises(ModelError, match="overloaded_error: later") as caught:
        read(begin(), {"type": "error", "error": error, "request_id": "req_7"})
    assert (caught.value.reason, caught.value.request_id) == ("overloaded", "req_7")
