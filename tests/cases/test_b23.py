"""Case B23: tool arguments that are not JSON."""

from pathlib import Path
from typing import Any

import pytest

from tests.cases.apps.script import case_of
from tests.cases.place import said, served
from tests.fakes.provider import Say, use

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

RUN = "b23-run"
_, SECOND, LAST = (
    said(turn) if "content" in turn else None for turn in case_of("b23")["model_turns"]
)
VARIANTS = {
    "a": '{"text":"line1\nline2"}',
    "b": '{"text":"\\ud83d"}',
    "c": '{"text":} ',
    "d": "garbage { " * 20_000,
}
USAGE = {"input_tokens": 100, "output_tokens": 20}


def broken(written: str, id: str = "toolu_01") -> Say:  # noqa: A002 -- the provider's word
    block: dict[str, Any] = {**use("note_add", id), "input": written}
    return Say(blocks=[block], usage=USAGE)


@pytest.mark.parametrize("variant", VARIANTS)
async def test_the_model_is_told_where_and_the_note_is_added_once(
    data_dir: Path, variant: str
) -> None:
    written = VARIANTS[variant]
    assert SECOND is not None
    assert LAST is not None
    async with served(data_dir, "b23", broken(written), SECOND, LAST) as (place, fake):
        await place.submit(RUN)
        # the worker does not crash and the run does not end
        result = await place.result(RUN)
        assert (result["status"], result["output"]) == ("SUCCEEDED", "ok")
        # the next request is valid, and tells that the arguments could not be read, and where
        assert fake.broken == []
        *_, call, told = fake.requests[1]["messages"]
        assert isinstance(call["content"][0]["input"], dict)
        [answer] = told["content"]
        assert (answer["tool_use_id"], answer["is_error"]) == ("toolu_01", True)
        assert "the arguments of note_add could not be read" in answer["content"]
        assert "surrogate" in answer["content"] or "(char " in answer["content"]
        assert len(answer["content"]) < 700
        assert len(str(call)) < 1_500
        # it is called once, with the arguments of turn 2; the tokens of the broken turn count
        assert [line["text"] for line in await place.happened()] == ["line1 line2"]
        usage = (await place.show(RUN))["usage"]
        assert (usage["input_tokens"], usage["output_tokens"]) == (300, 60)


async def test_three_bad_turns_in_a_row_end_the_run(data_dir: Path) -> None:
    turns = [broken(written, f"toolu_{name}") for name, written in VARIANTS.items()]
    async with served(data_dir, "b23", *turns) as (place, fake):
        await place.submit(RUN)
        result = await place.result(RUN)
        assert (result["status"], result["reason"]) == ("FAILED", "bad_output")
        assert len(fake.requests) == 3
        assert await place.happened() == []
