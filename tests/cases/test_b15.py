"""Case B15: one of several running tools is cancelled or fails; nothing leaks or is misreported.

The write is held by the test where the case lets it sleep: it is let go once the run has ended, so
no clock decides which of the two comes first.
"""

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest

from tests.cases.place import ENV, PATIENCE_S, Json, results
from tests.cases.team import Team, team

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

RUN = "b15-run"
KEY = "late:x:v1"
GRACE_S = 2.0
CALLS = ["wait_async", "write_late", "boom"]


@pytest.fixture
async def place(data_dir: Path) -> AsyncGenerator[Team]:
    """The case's daemon, with its grace period."""
    env = {**ENV, "TREADLE_RUNTIME__GRACE_S": str(GRACE_S)}
    async with team(data_dir, "b15", env=env) as place:
        yield place
        assert "never retrieved" not in await place.daemon.log()


async def _noted(place: Team, kind: str) -> list[str]:
    return [line["key"] for line in await place.happened() if line["kind"] == kind]


async def test_one_that_fails_does_not_disturb_the_others(place: Team) -> None:
    for name in ("wait", "late"):
        await place.hold(name)
    await place.submit(RUN)
    with anyio.fail_after(PATIENCE_S):
        while await _noted(place, "finally") != ["boom"]:  # noqa: ASYNC110 -- another process
            await anyio.sleep(0.01)
    for name in ("late", "wait"):
        await place.let_go(name)
    result = await place.result(RUN)
    # a: boom becomes an error tool_result; the other two run to their end; the run goes on to the
    # final turn
    assert (result["status"], result["output"]) == ("SUCCEEDED", "seen")
    waited, written, failed = results((await place.requests())[1])
    assert [waited["content"]["data"], written["content"]["data"]] == ["waited", {"text": "x"}]
    assert "is_error" not in waited | written
    assert (failed["is_error"], failed["content"]["error"]) == (True, "TOOL_FAILED")
    assert "boom" in failed["content"]["message"]
    assert await _noted(place, "effect") == [KEY]
    shown = await place.show(RUN)
    assert [line["outcome"] for line in shown["tool_history"]] == ["ok", "ok", "error"]


async def test_a_cancel_leaves_nothing_behind_and_says_what_is_not_known(place: Team) -> None:
    for name in ("wait", "late", "boom"):
        await place.hold(name)
    await place.submit(RUN)
    await place.until_happened(3)
    async with place.client() as operator:
        await operator.cancel(RUN, reason="changed my mind")
    # b: within 1 s + grace the run is cancelled; wait_async's finally block has run
    result = await place.result(RUN)
    assert (result["status"], result["reason"]) == ("CANCELLED", "effect_unsettled")
    assert sorted(await _noted(place, "finally")) == ["boom", "wait"]
    assert await _noted(place, "effect") == [], "the write is still under way"
    before = await _effect(place)
    await _check_unknown(place, before)

    # after 6 s the file exists and reconciliation says done
    await place.let_go("late")
    with anyio.fail_after(PATIENCE_S):
        while (await _effect(place))["state"] != "done":  # noqa: ASYNC110 -- the ledger
            await anyio.sleep(0.02)
    assert await _noted(place, "effect") == [KEY]
    done = await _effect(place)
    assert (done["is_flagged"], done["record"]["evidence"]["payload"]) == (False, {"text": "x"})
    async with place.client() as operator:
        assert (await operator.effects(unresolved=True))["effects"] == []
        assert (await operator.show(RUN))["version"] == result["version"], "terminal is final"
    # no asyncio task of this run is left
    await _until_idle(place)
    await _check_follow_up(place)


async def _effect(place: Team) -> Json:
    async with place.client() as operator:
        [effect] = (await operator.effects(key=KEY))["effects"]
    return effect


async def _check_unknown(place: Team, effect: Json) -> None:
    # b: its state is 'interrupted, outcome unknown' until it is settled; the record never says
    # rejected or not executed
    assert (effect["state"], effect["is_flagged"], effect["claims"]) == ("unknown", True, 1)
    assert [line["outcome"] for line in effect["record"]["observed"]] == ["unknown"]
    shown = await place.show(RUN)
    assert [item["status"] for item in shown["outstanding"]] == ["unknown"]
    # b: the stored conversation is valid (3 results)
    outcomes = [*zip(CALLS, ("cancelled", "unknown", "cancelled"), strict=True)]
    history = [(line["tool"], line["outcome"]) for line in shown["tool_history"]]
    assert sorted(history) == sorted(outcomes)
    async with place.client() as operator:
        [step] = (await operator.trace(RUN))["steps"]
    assert [(call["tool"], call["outcome"]) for call in step["calls"]] == outcomes
    assert "late:x:v1" in shown["summary"]


async def _until_idle(place: Team) -> None:
    """Nobody works at anything, and nothing waits."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            async with place.client() as client:
                rows = (await client.actors())["actors"]
            if not any(row["running"] + row["pending"] for row in rows):
                return
            await anyio.sleep(0.05)


async def _check_follow_up(place: Team) -> None:
    """A follow-up run can use it: what is done is told, and not done again."""
    await place.submit("b15-again", variant="again", goal="Again.")
    assert (await place.result("b15-again"))["status"] == "SUCCEEDED"
    [told] = results((await place.requests("Again."))[1])
    assert told["content"]["data"] == {"text": "x"}
    assert await _noted(place, "effect") == [KEY]
