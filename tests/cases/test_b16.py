"""Case B16: the same call again and again, with small talk or a cosmetic counter."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cases.apps.script import case_of
from tests.cases.place import Json, Place, results, said, served
from tests.fakes.provider import FakeProvider, Say

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

RUN = "b16-run"
CASE = case_of("b16")
STALL_LIMIT = CASE["setup"]["progress"]["stall_limit"]


def _as_given(turn: Json, number: int) -> Say:
    del number
    return said(turn)


def _in_another_form(turn: Json, number: int) -> Say:
    """The arguments as text, their keys now in this order, now in that."""
    forms = ('{"key":"k1","label":"x"}', '{ "label": "x",\n "key": "k1" }')
    return said(_with_input(turn, forms[number % 2]))


def _with_a_counter(turn: Json, number: int) -> Say:
    return said(_with_input(turn, {"key": "k1", "label": f"noop{number + 1}"}))


def _with_input(turn: Json, given: object) -> Json:
    words, call = turn["content"]
    return {**turn, "content": [words, {**call, "input": given}]}


def _turns(variant: Callable[[Json, int], Say]) -> list[Say]:
    return [variant(turn, number) for number, turn in enumerate(CASE["model_turns"])]


@pytest.mark.parametrize("variant", [_as_given, _in_another_form], ids=["a", "b"])
async def test_a_repeat_is_warned_of_then_refused_then_the_end(
    data_dir: Path, variant: Callable[[Json, int], Say]
) -> None:
    async with served(data_dir, "b16", *_turns(variant)) as (place, fake):
        await place.submit(RUN)
        result = await place.result(RUN)
        assert (result["status"], result["reason"]) == ("NO_PROGRESS", "repeated_action")
        assert len(await place.happened()) == 4, "at most five, and the fourth was not one"
        assert result["summary"].startswith("5 steps")
        [third], [fourth] = results(fake.requests[3]), results(fake.requests[4])
        assert "3 times" in third["content"]["warning"]
        assert third["content"]["data"] == []
        assert fourth["content"]["error"] == "REPEATED_CALL"
        assert fourth["is_error"] is True
        warned = [e for e in await place.events(RUN, "progress_flagged") if e["level"] == "warn"]
        assert len(warned) == 1
        await _check(place, fake)


async def test_new_labels_with_the_same_results_stall(data_dir: Path) -> None:
    async with served(data_dir, "b16", *_turns(_with_a_counter)) as (place, fake):
        await place.submit(RUN)
        result = await place.result(RUN)
        assert (result["status"], result["reason"]) == ("NO_PROGRESS", "no_state_change")
        assert len(await place.happened()) <= STALL_LIMIT + 1
        await _check(place, fake)


async def _check(place: Place, fake: FakeProvider) -> None:
    """Every call has its result, in the record too, and every request was sound."""
    assert fake.broken == []
    shown = await place.show(RUN)
    assert len(shown["tool_history"]) == shown["step_count"]
    assert [item["payload"] for item in shown["evidence"]] == [[]] * len(shown["evidence"])
