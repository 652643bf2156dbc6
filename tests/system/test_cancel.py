"""A cancel in the middle of anything: the run ends CANCELLED, says the truth, leaves nothing."""

from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path

import anyio
import pytest

from messages.errors import Conflict
from tests.cases.place import ENV, PATIENCE_S, Json, Place
from tests.system.daemon import Daemon

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

RUN = "stops-run"
GRACE_S = 1.0
QUICKER_S = 20.0
"""No tool here is done sooner unless it is let go, and no timer rings."""


@pytest.fixture
async def place(data_dir: Path) -> AsyncGenerator[Place]:
    """The daemon, up, with a short grace period."""
    env = {**ENV, "TREADLE_RUNTIME__GRACE_S": str(GRACE_S)}
    daemon = Daemon(data_dir, app="tests.system.apps.stops:app", env=env)
    try:
        await daemon.up()
        yield Place(daemon, "stops")
        log = await daemon.log()
        assert not [words for words in _COMPLAINTS if words in log]
    finally:
        await daemon.close()


_COMPLAINTS = ("never retrieved", "never awaited", "was destroyed", "actor_crashed")


async def _cancel(place: Place, run_id: str = RUN) -> Json:
    async with place.client() as operator:
        return await operator.cancel(run_id, reason="changed my mind")


async def _ended(place: Place) -> str:
    """Cancel, and the reason that the run ends with; exactly one end, by whom and why."""
    with anyio.fail_after(QUICKER_S):
        await _cancel(place)
        result = await place.result(RUN)
    assert result["status"] == "CANCELLED"
    [finished] = await place.events(RUN, "finished")
    assert (await place.show(RUN))["version"] == finished["version"] == result["version"]
    async with place.client() as operator:
        assert (await operator.approvals())["approvals"] == []
    with pytest.raises(Conflict) as again:
        await _cancel(place)
    assert again.value.why == "ENDED"
    if result["reason"] == "by_person":
        assert (finished["person"], finished["why"]) == ("operator", "changed my mind")
    return result["reason"]


async def _unresolved(place: Place) -> list[str]:
    async with place.client() as operator:
        return [row["state"] for row in (await operator.effects(unresolved=True))["effects"]]


async def _states(place: Place) -> list[str]:
    async with place.client() as operator:
        return [row["state"] for row in (await operator.effects(run_id=RUN))["effects"]]


async def _outcomes(place: Place) -> dict[str, str]:
    return {line["tool"]: line["outcome"] for line in (await place.show(RUN))["tool_history"]}


async def _noted(place: Place, kind: str) -> list[str]:
    return [line["key"] for line in await place.happened() if line["kind"] == kind]


async def _until_idle(place: Place) -> None:
    """No role works at anything, and nothing waits for one."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            async with place.client() as client:
                rows = (await client.actors())["actors"]
            if not any(row["running"] + row["pending"] for row in rows):
                return
            await anyio.sleep(0.05)


async def _until_settled(place: Place, states: list[str]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while await _states(place) != states:  # noqa: ASYNC110 -- the ledger
            await anyio.sleep(0.02)
    assert await _unresolved(place) == []


# ------------------------------------------------------------------ what runs
async def test_a_read_is_cut_at_once(place: Place) -> None:
    await place.hold("look")
    await place.submit(RUN, variant="look")
    await place.until_happened(1)
    assert await _ended(place) == "by_person"
    assert await _noted(place, "end") == ["look"], "its finally has run"
    assert await _outcomes(place) == {"look": "cancelled"}
    await _until_idle(place)


async def test_a_read_in_a_thread_is_left_behind_and_ends_by_itself(place: Place) -> None:
    before = await _threads(place)
    await place.hold("stare")
    await place.submit(RUN, variant="stare")
    await place.until_happened(1)
    assert await _ended(place) == "by_person"
    assert await _outcomes(place) == {"stare": "cancelled"}
    await _until_idle(place)
    assert await _noted(place, "end") == []
    await place.let_go("stare")
    await place.until_happened(2)
    with anyio.fail_after(PATIENCE_S):
        while await _threads(place) - before:  # noqa: ASYNC110 -- another process
            await anyio.sleep(0.05)


@pytest.mark.parametrize("tool", ["post", "stamp"])
async def test_a_write_that_settles_in_its_grace_is_known(place: Place, tool: str) -> None:
    await place.hold(tool)
    await place.submit(RUN, variant=tool)
    await place.until_happened(1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_let_go_once_told, place, tool)
        assert await _ended(place) == "by_person"
    assert await _outcomes(place) == {tool: "ok"}
    assert (await _states(place), await _unresolved(place)) == (["done"], [])
    assert len(await _noted(place, "effect")) == 1
    await _until_idle(place)


async def _let_go_once_told(place: Place, tool: str) -> None:
    """The cancel is in the log before anything ends."""
    with anyio.fail_after(PATIENCE_S):
        while '"verb":"cancel"' not in await place.daemon.log():  # noqa: ASYNC110 -- another process
            await anyio.sleep(0.01)
    await place.let_go(tool)


@pytest.mark.parametrize("tool", ["post", "stamp"])
async def test_a_write_that_outlives_the_grace_is_unknown_and_settled_later(
    place: Place, tool: str
) -> None:
    await place.hold(tool)
    await place.submit(RUN, variant=tool)
    await place.until_happened(1)
    assert await _ended(place) == "effect_unsettled"
    assert await _noted(place, "effect") == []
    assert await _outcomes(place) == {tool: "unknown"}
    assert await _unresolved(place) == ["unknown"]
    version = (await place.show(RUN))["version"]
    await place.let_go(tool)
    await _until_settled(place, ["done"])
    assert len(await _noted(place, "effect")) == 1
    assert (await place.show(RUN))["version"] == version, "terminal is final"
    await _until_idle(place)


async def test_several_calls_end_each_in_its_own_way(place: Place) -> None:
    for name in ("look", "post", "stamp"):
        await place.hold(name)
    await place.submit(RUN, variant="two")
    await place.until_happened(3)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_let_go_once_told, place, "post")
        assert await _ended(place) == "effect_unsettled"
    assert await _outcomes(place) == {
        "look": "cancelled",
        "post": "ok",
        "pay": "cancelled",
        "stamp": "unknown",
    }
    assert await _unresolved(place) == ["unknown"]
    await place.let_go("stamp")
    await _until_settled(place, ["done", "done"])
    assert len(await _noted(place, "effect")) == 2
    await _until_idle(place)


async def test_a_kill_between_the_cancel_and_the_end_changes_nothing(place: Place) -> None:
    await place.hold("post")
    await place.submit(RUN, variant="post")
    await place.until_happened(1)
    await _cancel(place)
    await place.restart("kill")
    result = await place.result(RUN)
    assert (result["status"], result["reason"]) == ("CANCELLED", "effect_unsettled")
    assert await _noted(place, "effect") == []
    assert await _unresolved(place) == ["unknown"], "its process is dead: a person has to look"
    assert len(await _noted(place, "begin")) == 1
    await place.let_go("post")
    await _until_idle(place)


# ------------------------------------------------------------------ what waits
@pytest.mark.parametrize(
    ("variant", "status"),
    [("pay", "AWAITING_APPROVAL"), ("fail", "AWAITING_HUMAN"), ("wait", "WAITING")],
)
async def test_what_waits_ends_at_once(place: Place, variant: str, status: str) -> None:
    await place.submit(RUN, variant=variant)
    await place.until(RUN, status)
    asked = await place.events(RUN, "approval_requested", "human_asked")
    assert await _ended(place) == "by_person"
    assert await _noted(place, "effect") == []
    await _decide_too_late(place, asked)
    await _until_idle(place)


async def _decide_too_late(place: Place, asked: list[Json]) -> None:
    async with place.client("approver") as person:
        for event in asked:
            if event["kind"] == "human_asked":
                late = partial(person.answer, RUN, "go on", question_id=event["question_id"])
            else:
                late = partial(person.approve, event["approval_id"], action=event["action_hash"])
            with pytest.raises(Conflict):
                await late()
    assert await _noted(place, "effect") == []


async def test_what_is_paused_ends_at_once(place: Place) -> None:
    await place.hold("look")
    await place.submit(RUN, variant="look")
    await place.until_happened(1)
    async with place.client() as operator:
        await operator.pause(RUN)
    await place.let_go("look")
    await place.until(RUN, "PAUSED")
    assert await _ended(place) == "by_person"
    assert len(await place.requests()) == 1, "nothing was asked after the pause"
    await _until_idle(place)


async def test_what_is_queued_under_a_hold_ends_and_the_hold_stays(place: Place) -> None:
    assert await place.daemon.stop() == 0
    await place.daemon.up("--paused")
    await place.submit(RUN, variant="look")
    await place.submit("held-run", variant="plain", goal="Held.")
    await place.until(RUN, "QUEUED")
    await place.until("held-run", "QUEUED")
    assert await _ended(place) == "by_person"
    assert (await place.show(RUN))["step_count"] == 0
    assert (await place.show("held-run"))["status"] == "QUEUED"
    assert await place.requests() == []
    async with place.client() as operator:
        await operator.resume(everything=True)
    assert (await place.result("held-run"))["status"] == "SUCCEEDED"


# ------------------------------------------------------------------ twice, and at the end
async def test_two_cancels_are_one(place: Place) -> None:
    await place.hold("post")
    await place.submit(RUN, variant="post")
    await place.until_happened(1)
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(_cancel, place)
    await _cancel(place)
    await place.let_go("post")
    result = await place.result(RUN)
    assert result["status"] == "CANCELLED"
    assert len(await place.events(RUN, "finished")) == 1
    await _until_idle(place)


async def test_a_cancel_that_races_the_end(place: Place) -> None:
    """Whichever is first: one end, a truthful answer, and nothing of it is done twice."""
    accepted: dict[str, bool] = {}
    runs = [f"race-{number}" for number in range(30)]
    async with place.client() as operator:

        async def one(number: int, run_id: str) -> None:
            await operator.submit(
                "stops", run_id, run_id=run_id, inputs={"variant": ("plain", "post")[number % 2]}
            )
            await anyio.sleep(0.004 * number)
            try:
                await operator.cancel(run_id)
            except Conflict as error:
                assert error.why == "ENDED"  # noqa: PT017 -- of thirty, any may come too late
                accepted[run_id] = False
            else:
                accepted[run_id] = True

        async with anyio.create_task_group() as tasks:
            for number, run_id in enumerate(runs):
                tasks.start_soon(one, number, run_id)
    for run_id in runs:
        result = await place.result(run_id)
        ends = {"CANCELLED", "SUCCEEDED"} if accepted[run_id] else {"SUCCEEDED"}
        assert result["status"] in ends
        assert len(await place.events(run_id, "finished")) == 1
    effects = await _noted(place, "effect")
    assert len(effects) == len(set(effects))
    assert await _unresolved(place) == []
    await _until_idle(place)


# ------------------------------------------------------------------ what is left in the process
async def _threads(place: Place) -> set[str]:
    """Threads of the daemon now."""
    tasks = anyio.Path(f"/proc/{place.daemon.process.pid}/task")
    return {entry.name async for entry in tasks.iterdir()}


async def _children(place: Place) -> list[str]:
    """Child processes of the daemon, by name."""
    pid = place.daemon.process.pid
    text = await anyio.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    comms = [anyio.Path(f"/proc/{child}/comm") for child in text.split()]
    return sorted([(await comm.read_text()).strip() for comm in comms])


async def test_forty_cancelled_runs_leave_no_process_no_thread_and_no_connection(
    place: Place,
) -> None:
    await place.hold("look")
    await _play_and_cancel(place, "warm", 10)
    children, threads = await _children(place), await _threads(place)
    descriptors = await _descriptors(place)
    assert children == ["nats-server"]
    await _play_and_cancel(place, "run", 40)
    assert await _children(place) == children
    assert len(await _threads(place)) <= len(threads) + 1
    assert await _descriptors(place) <= descriptors + 1


async def _play_and_cancel(place: Place, name: str, count: int) -> None:
    begun = len(await place.happened())
    for number in range(count):
        await place.submit(f"{name}-{number}", variant="look", goal=name)
    await _until_begun(place, begun + count)
    for number in range(count):
        await _cancel(place, f"{name}-{number}")
    for number in range(count):
        assert (await place.result(f"{name}-{number}"))["status"] == "CANCELLED"
    await _until_idle(place)


async def _until_begun(place: Place, count: int) -> None:
    with anyio.fail_after(PATIENCE_S):
        while len(await place.happened()) < count:  # noqa: ASYNC110 -- another process's file
            await anyio.sleep(0.02)


async def _descriptors(place: Place) -> int:
    fds = anyio.Path(f"/proc/{place.daemon.process.pid}/fd")
    return len([entry async for entry in fds.iterdir()])
