"""Case B06: a model failure after a successful tool call does not repeat the tool.

The provider is a local HTTP server behind the real SDK. Where the process is restarted between the
two failures, the first one asks for a second's peace (``retry-after``), so that there is a between.
"""

from pathlib import Path

import pytest

from tests.cases.apps.script import case_of
from tests.cases.place import Json, Place, said, served
from tests.fakes.provider import FakeProvider, Refuse

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

RUN = "b06-run"
CASE = case_of("b06")
CALL, _, _, END = CASE["model_turns"]
ASKED_S = 1


def _fault(*, is_patient: bool = False) -> Refuse:
    headers = {"retry-after": str(ASKED_S)} if is_patient else {}
    return Refuse(status=500, type="api_error", headers=headers)


@pytest.mark.parametrize("how", ["", "kill", "stop"])
async def test_two_failures_after_a_tool_repeat_only_the_request(data_dir: Path, how: str) -> None:
    first = _fault(is_patient=bool(how))
    async with served(data_dir, "b06", said(CALL), first, _fault(), said(END)) as (place, fake):
        await place.submit(RUN)
        if how:
            # same outcome when the worker is restarted between the two failures
            waiting = await place.until(RUN, "WAITING")
            assert (waiting["reason"], len(fake.requests)) == ("retry_after", 2)
            await place.restart(how)
        result = await place.result(RUN)
        # the run completes; steps counted: 2 (failed attempts are attempts, not steps)
        assert (result["status"], result["output"]) == ("SUCCEEDED", "charged once")
        shown = await place.show(RUN)
        assert (shown["step_count"], shown["usage"]["model_calls"]) == (2, 4)
        await _check_effect(place, shown)
        _check_requests(fake)
        await _check_trace(place)


async def _check_effect(place: Place, shown: Json) -> None:
    # ledger_add is called once, total 25
    assert [line["amount"] for line in await place.happened()] == [25]
    assert [line["outcome"] for line in shown["tool_history"]] == ["ok"]
    assert len(await place.events(RUN, "intended")) == 1


def _check_requests(fake: FakeProvider) -> None:
    # the two repeated model requests carry the same messages as the failed one (with the recorded
    # tool_result)
    assert fake.broken == []
    _, failed, *repeated = fake.requests
    assert len(repeated) == 2
    for request in repeated:
        assert {**request, "max_tokens": 0} == {**failed, "max_tokens": 0}
    [told] = failed["messages"][-1]["content"]
    assert (told["type"], told["tool_use_id"]) == ("tool_result", "toolu_01")
    assert '"total":25' in told["content"]
    assert all(headers["x-stainless-retry-count"] == "0" for headers in fake.headers)


async def _check_trace(place: Place) -> None:
    # both failures are in the trace
    async with place.client() as operator:
        first, second = (await operator.trace(RUN))["steps"]
    assert (first["step"], second["step"]) == (1, 2)
    assert [note["kind"] for note in first["notes"]] == ["verified"]
    assert (first["model"]["attempts"], second["model"]["attempts"]) == (1, 3)
    notes = [(note["kind"], note["request_id"]) for note in second["notes"]]
    assert notes == [("attempt_failed", "req_02"), ("attempt_failed", "req_03")]
    assert all("500 api_error" in note["message"] for note in second["notes"])
    events = await place.events(RUN, "attempt_failed", "step_lost")
    assert [(event["kind"], event["step"]) for event in events] == [("attempt_failed", 2)] * 2
    assert all(event["tokens"] > 0 for event in events), "what may have been charged is paid for"


async def test_a_provider_that_stays_away_ends_the_run_and_not_the_record(data_dir: Path) -> None:
    """Four attempts in all; the tool is not repeated, and every failure is told."""
    async with served(data_dir, "b06", said(CALL), *[_fault()] * 4) as (place, fake):
        await place.submit(RUN)
        result = await place.result(RUN)
        assert (result["status"], result["reason"]) == ("FAILED", "model_unavailable")
        assert len(fake.requests) == 5
        shown = await place.show(RUN)
        assert (shown["step_count"], shown["usage"]["model_calls"]) == (2, 5)
        await _check_effect(place, shown)
        async with place.client() as operator:
            _, last = (await operator.trace(RUN))["steps"]
        assert [note["kind"] for note in last["notes"]] == ["attempt_failed"] * 3 + ["step_lost"]


async def test_a_cancel_in_the_pause_ends_it(data_dir: Path) -> None:
    async with served(data_dir, "b06", said(CALL), _fault(is_patient=True)) as (place, fake):
        await place.submit(RUN)
        await place.until(RUN, "WAITING")
        async with place.client() as operator:
            await operator.cancel(RUN)
        result = await place.result(RUN)
        assert (result["status"], result["reason"]) == ("CANCELLED", "by_person")
        assert len(fake.requests) == 2
