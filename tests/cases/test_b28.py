"""Case B28: the output limit is reached in the middle of a tool call."""

from pathlib import Path

import pytest

from tests.cases.apps.script import case_of
from tests.cases.place import Json, said, served
from tests.fakes.provider import Say, text, use

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

RUN = "b28-run"
CASE = case_of("b28")
CUT, WHOLE, END = CASE["model_turns"]


def cut(turn: Json) -> Say:
    """The turn as it streams: its arguments end where the limit was."""
    words, call = turn["content"]
    broken = {**call, "input": turn["raw_partial_json"]}
    return Say(blocks=[words, broken], stop_reason=turn["stop_reason"], usage=turn["usage"])


async def test_the_cut_call_is_not_executed_and_the_next_may_be_longer(data_dir: Path) -> None:
    async with served(data_dir, "b28", cut(CUT), said(WHOLE), said(END)) as (place, fake):
        await place.submit(RUN)
        result = await place.result(RUN)
        assert (result["status"], result["output"]) == ("SUCCEEDED", "written")
        # called once, with body hello; not with the arguments that satisfied the schema
        assert [line["body"] for line in await place.happened()] == ["hello"]
        # more room, and a word why; up to the ceiling of the case
        assert [r["max_tokens"] for r in fake.requests] == [1024, 2048, 1024]
        assert "OUTPUT_LIMIT" in fake.requests[1]["messages"][-1]["content"][0]["content"]
        assert fake.broken == []
        usage = (await place.show(RUN))["usage"]
        assert usage["output_tokens"] == 1024 + 20 + 20


async def test_at_most_two_recoveries_then_the_run_ends(data_dir: Path) -> None:
    async with served(data_dir, "b28", *[cut(CUT)] * 4) as (place, fake):
        await place.submit(RUN)
        result = await place.result(RUN)
        assert (result["status"], result["reason"]) == ("FAILED", "output_limit")
        ceiling = CASE["setup"]["model"]["max_tokens_ceiling"]
        assert [r["max_tokens"] for r in fake.requests] == [1024, 2048, ceiling]
        assert await place.happened() == []


async def test_no_call_of_a_cut_turn_is_executed_and_its_text_is_no_answer(data_dir: Path) -> None:
    whole = use("file_write", "toolu_01", path="a.txt", body="first")
    several = Say(
        blocks=[whole, {**use("file_write", "toolu_02"), "input": '{"path":'}],
        stop_reason="max_tokens",
    )
    words = Say(blocks=[text("I have written")], stop_reason="max_tokens")
    async with served(data_dir, "b28", several, words, said(END)) as (place, fake):
        await place.submit(RUN)
        result = await place.result(RUN)
        assert (result["status"], result["output"]) == ("SUCCEEDED", "written")
        assert await place.happened() == []
        assert fake.broken == []
