"""Case B04: empty and whitespace-only text never reaches the API again."""

from pathlib import Path

import pytest

from tests.cases.apps.script import case_of
from tests.cases.place import results, said, served

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

RUN = "b04-run"
FIRST, SECOND, EMPTY = case_of("b04")["model_turns"]


async def test_nothing_empty_is_sent_and_an_empty_answer_is_no_success(data_dir: Path) -> None:
    replies = [said(turn) for turn in (FIRST, SECOND, EMPTY, EMPTY)]
    async with served(data_dir, "b04", *replies) as (place, fake):
        await place.submit(RUN)
        result = await place.result(RUN)
        # the last turn is not reported as a normal success: one nudge, then a clear reason
        assert (result["status"], result["reason"]) == ("FAILED", "no_action")
        assert len(fake.requests) == 4
        # no blank text, no empty assistant content: the fake refuses them
        assert fake.broken == []
        # tool_use 01 and 02 are kept and answered, the empty results in a form the API takes
        _, first, second, nudged = fake.requests
        for request, use, data in ((first, "toolu_01", ""), (second, "toolu_02", None)):
            assert [b["id"] for b in request["messages"][-2]["content"]] == [use]
            [told] = results(request)
            assert told["tool_use_id"] == use
            assert told["content"]["data"] == data
        assert "EMPTY_TURN" in nudged["messages"][-1]["content"][-1]["text"]
        # no identical request is sent more than twice
        assert all(fake.requests.count(request) <= 2 for request in fake.requests)
