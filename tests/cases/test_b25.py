"""Case B25: a tool name that nobody knows."""

import pytest

from tests.cases.place import Place, results

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

RUN = "b25-run"


async def test_an_unknown_name_is_told_and_nothing_of_it_is_done(place: Place) -> None:
    await place.submit(RUN)
    result = await place.result(RUN)
    # the run completes in the scripted case
    assert (result["status"], result["output"]) == ("SUCCEEDED", "ok")

    # toolu_01 executed; 02 and 03 get error results that say 'no such tool', nothing was executed,
    # and name the available tools (lookup first for 02)
    assert [(line["kind"], line["key"]) for line in await place.happened()] == [
        ("lookup", "k1"),
        ("lookup", "k2"),
    ]
    requests = await place.requests()  # the next request is accepted
    done, *unknown = results(requests[1])
    assert [block["tool_use_id"] for block in [done, *unknown]] == [
        "toolu_01",
        "toolu_02",
        "toolu_03",
    ]
    assert done["content"]["data"] == {"key": "k1", "value": "value of k1"}
    for block in unknown:
        said = str(block["content"])
        assert block["is_error"]
        assert block["content"]["error"] == "UNKNOWN_TOOL"
        assert "no such tool" in said
        assert "not executed" in said
        assert "lookup" in said
        assert "note_add" in said
    hint = unknown[0]["content"]["hint"]
    assert hint.index("lookup") < hint.index("note_add")
    assert "did you mean lookup?" in hint


async def test_an_illegal_name_is_not_sent_back_and_stays_in_the_record(place: Place) -> None:
    await place.submit(RUN)
    await place.result(RUN)
    requests = await place.requests()
    *_, told = results(requests[1])
    # the illegal name in 03 is not sent as it is (legal stand-in), the original stays in the trace
    uses = [b for b in requests[1]["messages"][1]["content"] if b["type"] == "tool_use"]
    assert [b["id"] for b in uses] == ["toolu_01", "toolu_02", "toolu_03"]
    assert [b["name"] for b in uses][:2] == ["lookup", "look_up"]
    assert uses[2]["name"] not in {"delete everything!", "lookup", "note_add"}
    assert "delete everything!" in str(told["content"]), "it is told what it asked for"
    async with place.client() as operator:
        first = (await operator.trace(RUN))["steps"][0]
    assert [call["tool"] for call in first["calls"]] == ["lookup", "look_up", "delete everything!"]
    assert [call["outcome"] for call in first["calls"]] == ["ok", "rejected", "rejected"]
    [decided, *_] = await place.events(RUN, "decided")
    assert decided["tools"] == ["lookup", "look_up", "delete everything!"]


async def test_an_unknown_name_leads_to_no_approval_and_no_intent(place: Place) -> None:
    await place.submit(RUN)
    await place.result(RUN)
    # no approval, no idempotency intent is created for 02/03
    assert await place.events(RUN, "approval_requested", "intended") == []
    async with place.client() as operator:
        assert (await operator.approvals())["approvals"] == []
        assert (await operator.effects(run_id=RUN))["effects"] == []
    shown = await place.show(RUN)
    assert (shown["outstanding"], shown["step_count"]) == ([], 3)


async def test_the_same_unknown_call_three_times_is_no_progress(place: Place) -> None:
    await place.submit(RUN, variant="same")
    result = await place.result(RUN)
    shown = await place.show(RUN)
    # the same unknown call 3 times in a row ends as 'no progress'
    assert (result["status"], result["reason"]) == ("NO_PROGRESS", "repeated_action")
    assert shown["step_count"] == 3
    assert await place.happened() == []
    assert await place.events(RUN, "approval_requested", "intended") == []
