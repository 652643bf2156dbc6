"""Case B19: the last allowed step, no off-by-one and no lost work."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

from tests.cases.place import PATIENCE_S, Json, Place

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

RUN = "b19-run"


async def _looked_up(place: Place) -> list[str]:
    return [line["key"] for line in await place.happened()]


def _found(shown: Json) -> list[str]:
    """Values of the evidence, in order."""
    return [item["payload"]["value"] for item in shown["evidence"]]


# ------------------------------------------------------------------ a and c
@pytest.mark.parametrize(("variant", "steps"), [("a", 3), ("c", 1)])
async def test_a_finish_in_the_last_step_is_a_success(
    place: Place, variant: str, steps: int
) -> None:
    await place.submit(RUN, variant=variant, limits={"max_steps": steps})
    result = await place.result(RUN)
    shown = await place.show(RUN)
    # a and c: completed, no limit error, steps used = 3 / 1
    assert (result["status"], result["output"]) == ("SUCCEEDED", "answer from k1 and k2")
    assert (shown["step_count"], shown["limits"]["max_steps"]) == (steps, steps)
    assert shown["usage"]["model_calls"] == steps
    assert await _looked_up(place) == ["k1", "k2"][: steps - 1]
    assert not [r for r in await place.requests() if r["is_final"]]


# ------------------------------------------------------------------ b and d
async def _restart_cleanly(place: Place) -> None:
    """SIGTERM while the second lookup is under way: what is in flight is finished first."""
    await place.hold("k2")
    await place.submit(RUN, variant="b")
    await place.until_happened(2)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(place.daemon.stop)
        await _until_draining(place)
        await place.let_go("k2")
    assert place.daemon.process.returncode == 0
    assert await _looked_up(place) == ["k1", "k2"]
    await place.daemon.up()


async def _until_draining(place: Place) -> None:
    with anyio.fail_after(PATIENCE_S):
        while '"draining"' not in await place.daemon.log():  # noqa: ASYNC110 -- another process
            await anyio.sleep(0.01)


async def _kill_while_it_waits(place: Place) -> None:
    """kill -9 after step 2, while nobody drives the run."""
    await place.hold("k2")
    await place.submit(RUN, variant="b")
    await place.until_happened(2)
    async with place.client() as operator:
        await operator.pause(RUN)
    await place.let_go("k2")
    paused = await place.until(RUN, "PAUSED")
    assert (paused["step_count"], await _looked_up(place)) == (2, ["k1", "k2"])
    await place.restart("kill")
    async with place.client() as operator:
        await operator.resume(RUN)


async def _no_restart(place: Place) -> None:
    await place.submit(RUN, variant="b")


@pytest.mark.parametrize("start", [_no_restart, _restart_cleanly, _kill_while_it_waits])
async def test_a_call_in_the_last_step_is_done_and_the_run_ends_at_its_limit(
    place: Place, start: Callable[[Place], Awaitable[None]]
) -> None:
    await start(place)
    result = await place.result(RUN)
    shown = await place.show(RUN)
    # b: lookup(k3) is executed and recorded (or clearly recorded as not executed), then the run
    # ends 'step limit' - never 'completed' -
    # d: same numbers as b (steps before the restart count once)
    assert (result["status"], result["reason"]) == ("BUDGET_EXHAUSTED", "max_steps")
    assert await _looked_up(place) == ["k1", "k2", "k3"]
    assert shown["step_count"] == 3
    assert [(line["step"], line["outcome"]) for line in shown["tool_history"]] == [
        (1, "ok"),
        (2, "ok"),
        (3, "ok"),
    ]
    # with the results of k1, k2 (k3) in the outcome and a valid transcript;
    assert _found(shown) == ["value of k1", "value of k2", "value of k3"]
    assert result["output"] == "answer from k1 and k2"
    requests = await place.requests()  # each of them is checked against the provider's rules
    assert result["summary"] == "3 steps; 3 reads; no side effects"
    # one optional wrap-up request without tools is allowed and is counted and labelled
    assert [r["is_final"] for r in requests] == [False, False, False, True]
    said = str(requests[-1]["messages"])
    assert all(f"value of {key}" in said for key in ("k1", "k2", "k3"))
    assert shown["usage"]["model_calls"] == 4
    assert shown["usage"]["tokens"] == 4 * 120
    await _check_labels(place)


async def _check_labels(place: Place) -> None:
    reserved = await place.events(RUN, "step_reserved")
    assert [event["is_final"] for event in reserved] == [False, False, False, True]
    async with place.client() as operator:
        steps = (await operator.trace(RUN))["steps"]
    assert [(step["step"], step["is_final"]) for step in steps] == [
        (1, False),
        (2, False),
        (3, False),
        (None, True),
    ]
    assert [step["model"]["proposes"] for step in steps] == ["calls", "calls", "calls", "final"]
    assert [len(step["calls"]) for step in steps] == [1, 1, 1, 0]
    assert [step["tokens"] for step in steps] == [120] * 4


async def test_a_step_that_dies_with_its_process_counts_once_and_is_not_decided(
    place: Place,
) -> None:
    """Killed while step 3 looks k3 up: the step is lost, recorded as such, and never a fourth."""
    await place.hold("k3")
    await place.submit(RUN, variant="b")
    await place.until_happened(3)
    await place.daemon.kill()
    await place.let_go("k3")
    await place.daemon.up()
    result = await place.result(RUN)
    shown = await place.show(RUN)
    # b: lookup(k3) … (or clearly recorded as not executed), then the run ends 'step limit'
    # d: same numbers as b (steps before the restart count once)
    assert (result["status"], result["reason"]) == ("BUDGET_EXHAUSTED", "max_steps")
    assert shown["step_count"] == 3
    [lost] = await place.events(RUN, "step_lost")
    assert (lost["step"], lost["why"]) == (3, "its owner was lost")
    assert [(line["step"], line["outcome"]) for line in shown["tool_history"]] == [
        (1, "ok"),
        (2, "ok"),
    ]
    assert _found(shown) == ["value of k1", "value of k2"]
    assert [r["is_final"] for r in await place.requests()] == [False, False, False, True]


# ------------------------------------------------------------------ again
async def test_a_new_run_starts_at_nothing(place: Place) -> None:
    await place.submit(RUN, variant="b")
    await place.result(RUN)
    await place.submit("b19-again", variant="a", goal="Do it again.")
    result = await place.result("b19-again")
    shown = await place.show("b19-again")
    # a new run of the same kind starts at 0
    assert (result["status"], shown["step_count"], shown["usage"]["model_calls"]) == (
        "SUCCEEDED",
        3,
        3,
    )
    assert [r["turn"] for r in await place.requests("Do it again.")] == [0, 1, 2]
