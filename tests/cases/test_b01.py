"""Case B01: the process is killed while a tool runs; the conversation stays usable.

The status query of the case is the tool's ``lookup``: ``not_done`` is the finding "absent",
``done`` is "happened".
"""

import pytest

from tests.cases.place import Json, Place, results

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

RUN = "b01-run"
KEY = "note:alpha:v1"


async def _killed_at(place: Place, hold: str, lines: int) -> None:
    """Kill -9 while the tool waits at ``hold``, having noted so many lines; then start again."""
    await place.hold(hold)
    await place.submit(RUN)
    await place.until_happened(lines)
    await place.daemon.kill()
    await place.let_go(hold)
    await place.daemon.up()


async def _kinds(place: Place) -> list[str]:
    happened = await place.happened()
    assert {line["key"] for line in happened} == {KEY}
    return [line["kind"] for line in happened]


async def _reconciled(place: Place) -> list[tuple[str, str]]:
    return [(e["finding"], e["how"]) for e in await place.events(RUN, "reconciled")]


async def test_killed_before_the_effect_it_is_looked_up_and_done_once(place: Place) -> None:
    await _killed_at(place, "before", 1)
    told = await _check_end(place)
    # variant a: status query says not_done, the tool is executed, effect counter = 1; before the
    # run succeeds it is asked once more, whether what was executed is there
    assert await _kinds(place) == ["start", "asked", "start", "effect", "asked"]
    asked = [line["is_done"] for line in await place.happened() if line["kind"] == "asked"]
    assert asked == [False, True]
    assert await _reconciled(place) == [("absent", "lookup")]
    assert len(await place.events(RUN, "intended")) == 2
    assert told["content"]["data"] == {"ok": True}


async def test_killed_after_the_effect_it_is_not_done_again(place: Place) -> None:
    await _killed_at(place, "after", 2)
    told = await _check_end(place)
    # variant b: status query says done, the tool is NOT executed again, effect counter = 1, the
    # tool_result tells the model that it succeeded
    assert await _kinds(place) == ["start", "effect", "asked"]
    assert await _reconciled(place) == [("happened", "lookup")]
    assert len(await place.events(RUN, "intended")) == 1
    assert told["content"]["data"] == {"ok": True}
    assert not told.get("is_error")


async def _check_end(place: Place) -> Json:
    """What both variants end with; the one result that the model was told."""
    # the run is taken up again without any human action
    # the run completes
    result = await place.result(RUN)
    assert (result["status"], result["output"]) == ("SUCCEEDED", "noted")
    assert await place.events(RUN, "approval_requested", "human_asked") == []
    assert (await _kinds(place)).count("effect") == 1

    # in the next model request the assistant turn with toolu_01 is followed directly by ONE user
    # message holding exactly one tool_result for toolu_01
    requests = await place.requests()
    # exactly 2 successful model requests
    assert [request["turn"] for request in requests] == [0, 1]
    assert (await place.show(RUN))["usage"]["model_calls"] == 2
    asked, turn, answer = requests[1]["messages"]
    assert (asked["role"], turn["role"], answer["role"]) == ("user", "assistant", "user")
    assert [block["id"] for block in turn["content"]] == ["toolu_01"]
    [told] = results(requests[1])
    assert (len(answer["content"]), told["tool_use_id"]) == (1, "toolu_01")
    await _check_restart(place)
    return told


async def _check_restart(place: Place) -> None:
    """Restarting once more after completion changes nothing."""
    before = [await place.show(RUN), await place.happened(), await place.requests()]
    await place.restart("kill")
    after = [await place.show(RUN), await place.happened(), await place.requests()]
    assert after == before
