"""Stored bytes stay readable: the golden file of every message, and what readers must tolerate."""

from typing import Any

import msgspec
import pytest

from messages import base
from messages.base import Event, Message, Part
from messages.codec import decode, encode, wire_types
from messages.events import AnyEvent, event_kind
from messages.ledger import Entry
from tests.unit.messages.examples import PUBLIC, everything, example, has_default, tag_of
from tests.unit.messages.golden import FOLDER, current, golden_bytes, older

EVERYTHING = everything()
TAGGED = sorted(EVERYTHING.keys() - PUBLIC.keys() - {"entry"})
FIX = "python -m tests.unit.messages.golden"


def subclasses(cls: type[Any]) -> set[type[Any]]:
    return {cls} | {below for sub in cls.__subclasses__() for below in subclasses(sub)}


@pytest.mark.parametrize("name", sorted(EVERYTHING))
def test_a_message_still_has_its_golden_bytes(name: str) -> None:
    assert current(name).is_file(), f"{name} has no golden file yet: {FIX}"
    assert encode(example(EVERYTHING[name])) == golden_bytes(current(name)), FIX


@pytest.mark.parametrize("name", sorted(EVERYTHING))
def test_golden_bytes_are_read_as_the_equal_instance(name: str) -> None:
    cls = EVERYTHING[name]
    assert msgspec.json.decode(golden_bytes(current(name)), type=cls) == example(cls)


def test_bytes_from_before_a_field_was_added_say_the_same() -> None:
    for name, cls in EVERYTHING.items():
        for path in older(name):
            data = golden_bytes(path)
            assert encode(msgspec.json.decode(data, type=cls)) == data, path.name


@pytest.mark.parametrize("name", sorted(EVERYTHING))
def test_a_golden_file_shows_every_field(name: str) -> None:
    shown = msgspec.json.decode(golden_bytes(current(name)))
    assert set(EVERYTHING[name].__struct_encode_fields__) == shown.keys() - {"t"}


def test_no_golden_file_is_left_over() -> None:
    known = {path for name in EVERYTHING for path in (current(name), *older(name))}
    assert set(FOLDER.iterdir()) == known


def test_every_message_class_travels_or_is_stored() -> None:
    """Whoever adds a class outside the modules the codec knows finds out here."""
    abstract = {base.Message, base.Event, base.Request, *wire_types(), *AnyEvent.__args__}
    ours = {cls for cls in subclasses(Message) if cls.__module__.startswith("messages.")}
    assert {cls.__qualname__ for cls in ours - abstract} <= {
        "LedgerRequest",
        "ExecutorRequest",
        "PlannerRequest",
    }


@pytest.mark.parametrize("name", TAGGED)
def test_a_reader_ignores_what_a_newer_writer_added(name: str) -> None:
    cls = EVERYTHING[name]
    newer = msgspec.json.decode(golden_bytes(current(name))) | {"from_next_year": {"a": [1]}}
    assert msgspec.json.decode(msgspec.json.encode(newer), type=cls) == example(cls)


@pytest.mark.parametrize("name", sorted(set(EVERYTHING) - set(PUBLIC)))
def test_a_message_without_its_optional_fields_is_read(name: str) -> None:
    cls = EVERYTHING[name]
    required = {
        key: value
        for key, value in msgspec.json.decode(golden_bytes(current(name))).items()
        if key == "t" or not has_default(cls, key)
    }
    data = msgspec.json.encode(required)
    assert msgspec.json.decode(encode(msgspec.json.decode(data, type=cls))) == required


def test_every_tag_is_a_written_name_with_a_version() -> None:
    tags = [tag_of(EVERYTHING[name]) for name in TAGGED]
    assert len(set(tags)) == len(tags)
    for tag in tags:
        name, _, version = tag.partition("/")
        assert name.replace("-", "").isalpha(), tag
        assert name == name.lower(), tag
        assert int(version) >= 1


def test_every_event_has_its_own_public_name() -> None:
    kinds = [event_kind(cls) for cls in AnyEvent.__args__]
    assert len(set(kinds)) == len(kinds)
    assert all(kind.isidentifier() for kind in kinds)


def test_an_entry_carries_any_event() -> None:
    entry = msgspec.structs.replace(
        example(Entry), events=tuple(example(cls) for cls in AnyEvent.__args__)
    )
    assert msgspec.json.decode(encode(entry), type=Entry) == entry


def test_messages_are_frozen_and_keyword_only() -> None:
    ours = {
        cls
        for cls in subclasses(Message) | subclasses(Part)
        if cls.__module__.startswith("messages.")
    }
    assert all(cls.__struct_config__.frozen for cls in ours)
    with pytest.raises(TypeError):
        _ = base.Beat("ten percent")  # pyright: ignore[reportCallIssue]


def test_an_event_alone_is_no_message_of_the_bus() -> None:
    assert not [cls for cls in wire_types() if issubclass(cls, Event)]
    assert decode(encode(base.Beat(progress="half"))) == base.Beat(progress="half")
