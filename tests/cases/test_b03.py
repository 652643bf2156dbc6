"""Case B03: shortening the history never separates a call from its result."""

from pathlib import Path

import pytest

from tests.cases.apps.b03 import BESIDE, KEEP, ROOM
from tests.cases.apps.script import case_of
from tests.cases.place import Json, Place, said, served

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

CASE = case_of("b03")
TURNS = [said(turn) for turn in CASE["model_turns"]]
TASK = "Find k1 to k8 and say so."
ROUND = {"toolu_05", "toolu_06", "toolu_07"}


async def test_whatever_is_kept_calls_and_results_stay_together(data_dir: Path) -> None:
    async with served(data_dir, "b03", *TURNS * len(KEEP)) as (place, fake):
        for keep in KEEP:
            run, before = f"b03-run-{keep}", len(fake.requests)
            await Place(place.daemon, f"b03-{keep}").submit(run, goal=f"{TASK} ({keep})")
            result = await place.result(run)
            assert (result["status"], result["output"]) == ("SUCCEEDED", "finished")
            requests = fake.requests[before:]
            assert len({str(request["messages"][0]) for request in requests}) > 1, (
                "it was shortened"
            )
            for request in requests:
                _check(request)
            await _check_record(place, run)
        assert fake.broken == [], "pairs, ids and order of each request, summaries included"
        # no tool is executed twice because its result was dropped from the context
        keys = [line["key"] for line in await place.happened()]
        assert keys == [f"k{n}" for n in range(1, 9)] * len(KEEP)


def _check(request: Json) -> None:
    first = request["messages"][0]
    assert first["role"] == "user"
    assert TASK in first["content"][0]["text"], "the task is still there"
    size = len(str(request["messages"]).encode()) + request["max_tokens"]
    assert size <= ROOM + BESIDE
    together = {
        block["id"]
        for message in request["messages"]
        for block in message["content"]
        if block["type"] == "tool_use"
    } & ROUND
    assert together in (set(), ROUND), "kept whole or dropped whole"


async def _check_record(place: Place, run: str) -> None:
    """The full results stay in the record."""
    shown = await place.show(run)
    assert [item["payload"].split()[-1] for item in shown["evidence"]] == [
        f"k{n}" for n in range(1, 9)
    ]
    assert all(len(item["payload"].split()) == 400 for item in shown["evidence"])
