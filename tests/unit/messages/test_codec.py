"""Bytes to message and back; what is no message is an error with a code, never a crash."""

import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from messages.base import Beat, reply_types
from messages.codec import decode, decode_as, encode, wire_types
from messages.errors import UnknownMessage, WireError
from messages.events import AnyEvent
from messages.ledger import Append, Committed, Entry
from messages.task import Result, Task
from tests.unit.messages.examples import everything, example, instances, tag_of

EVERY_CLASS = sorted(everything().items())


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_instance_of_any_message_survives_the_wire(data: st.DataObject) -> None:
    _, cls = data.draw(st.sampled_from(EVERY_CLASS), label="class")
    instance = data.draw(instances(cls), label="instance")
    assert msgspec.json.decode(encode(instance), type=cls) == instance


@settings(max_examples=60, deadline=None)
@given(event=st.sampled_from(AnyEvent.__args__).flatmap(instances))
def test_any_event_survives_the_journal(event: Any) -> None:
    entry = msgspec.structs.replace(example(Entry), events=(event,))
    assert msgspec.json.decode(encode(entry), type=Entry).events == (event,)


@pytest.mark.parametrize("cls", wire_types(), ids=tag_of)
def test_a_tag_finds_its_class(cls: Any) -> None:
    assert type(decode(encode(example(cls)))) is cls


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_wire_error(data: bytes) -> None:
    with pytest.raises(WireError):
        _ = decode(data)


@settings(max_examples=200, deadline=None)
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_damaged_message_is_a_message_or_a_wire_error(place: int, byte: int) -> None:
    data = bytearray(encode(example(Append)))
    data[place % len(data)] = byte
    with contextlib.suppress(WireError):
        assert type(decode(bytes(data))) in wire_types()


def test_an_unknown_tag_says_so() -> None:
    with pytest.raises(UnknownMessage, match="no message is called 'make-coffee/1'") as caught:
        _ = decode(b'{"t":"make-coffee/1","sugar":2}')
    assert caught.value.code == "UNKNOWN_MESSAGE"


def test_a_newer_version_says_what_is_spoken_here() -> None:
    with pytest.raises(UnknownMessage, match="execute/2: this process speaks execute/1") as caught:
        _ = decode(b'{"t":"execute/2"}')
    assert "upgrade" in caught.value.hint


def test_a_name_that_starts_like_ours_is_not_ours() -> None:
    with pytest.raises(UnknownMessage, match="no message is called 'exec/1'"):
        _ = decode(b'{"t":"exec/1"}')


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b"{}", b'"beat/1"', b'{"t":null}', b'{"t":7}', b"\xff\xfe",
     b'{"t":"beat/1"', b"[" * 100_000, b'{"t":"beat/1","progress":"\xed\xa0\x80"}',
     b'{"t":"beat/1","progress":' + b"1" * 5000 + b"}"],
    ids=range(12),
)  # fmt: skip
def test_what_is_no_message_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        _ = decode(data)


def test_a_malformed_message_says_where() -> None:
    with pytest.raises(WireError, match=r"a beat/1 message is malformed.*\$\.progress") as caught:
        _ = decode(b'{"t":"beat/1","progress":7}')
    assert not isinstance(caught.value, UnknownMessage)


@pytest.mark.parametrize("value", ["\ud800", {1: object()}, object()])
def test_what_json_cannot_say_is_refused_at_the_sender(value: Any) -> None:
    with pytest.raises(WireError):
        _ = encode(Result(run_id="r", agent="a", status="s", reason="r", version=1, output=value))


def test_equal_messages_are_equal_bytes_and_defaults_cost_none() -> None:
    assert encode(Beat()) == b'{"t":"beat/1"}'
    assert encode(Beat(progress="")) == encode(Beat())


def test_public_json_names_the_place_of_a_mistake() -> None:
    with pytest.raises(WireError, match=r"not a valid Task.*max_steps"):
        _ = decode_as(b'{"goal":"g","limits":{"max_steps":"three"}}', Task)


def test_a_mistyped_field_of_a_task_is_not_dropped_in_silence() -> None:
    with pytest.raises(WireError, match="run-id"):
        _ = decode_as(b'{"goal":"g","run-id":"x1"}', Task)


def test_a_request_names_its_replies() -> None:
    assert Committed in reply_types(Append)
    for cls in wire_types():
        if hasattr(cls, "verb"):
            replies = reply_types(cls)
            assert replies, cls
            assert set(replies) <= set(wire_types()), cls
