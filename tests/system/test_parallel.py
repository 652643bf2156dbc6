"""Many calls in one turn, over several executor processes: each ends with exactly one result."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest

from actors.orchestrator.execute import MAX_PARALLEL
from tests.cases.place import ENV, PATIENCE_S, Json, Place, results
from tests.system.apps.parallel import CUT, MANY, MIXED
from tests.system.daemon import Daemon

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

RUN = "parallel-run"
APP = "tests.system.apps.parallel:app"
BRISK = {**ENV, "TREADLE_RUNTIME__SILENCE_S": "1.0", "TREADLE_RUNTIME__HEARTBEAT_S": "0.2"}
READS = "look,slow,broken,quits"
HANDS = {"reader-1": READS, "reader-2": READS, "writer": "post,pay"}
"""Executors in processes of their own: two for the reads, one that alone may write."""


class Fleet(Place):
    """Everything but the executors in one process; each of those joins it."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(Daemon(data_dir, app=APP, env=BRISK, name="hub"), "parallel")
        self.hands = {name: Daemon(data_dir, app=APP, env=BRISK, name=name) for name in HANDS}

    async def up(self, name: str) -> None:
        join = ("--join", str(self.data_dir / "join.json"))
        await self.hands[name].up("--roles", "executor", "--tools", HANDS[name], *join)

    async def began(self, tool: str) -> list[Json]:
        lines = await self.happened()
        return [line for line in lines if line["kind"] == "begin" and line["tool"] == tool]

    async def ended(self, tool: str) -> list[str]:
        lines = await self.happened()
        return [line["key"] for line in lines if line["kind"] == "end" and line["tool"] == tool]

    async def effects(self) -> list[str]:
        return [line["key"] for line in await self.happened() if line["kind"] == "effect"]

    async def until_begun(self, tool: str, count: int) -> list[Json]:
        with anyio.fail_after(PATIENCE_S):
            while len(await self.began(tool)) < count:  # noqa: ASYNC110 -- another process's file
                await anyio.sleep(0.01)
        return await self.began(tool)

    async def until_idle(self) -> None:
        """Wait until no executor works at anything."""
        with anyio.fail_after(PATIENCE_S):
            while True:
                async with self.client() as client:
                    rows = (await client.actors())["actors"]
                hands = [row for row in rows if row["role"] == "executor"]
                if len(hands) == len(HANDS) and not any(
                    row["running"] + row["pending"] for row in hands
                ):
                    return
                await anyio.sleep(0.05)


@pytest.fixture
async def fleet(data_dir: Path) -> AsyncGenerator[Fleet]:
    fleet = Fleet(data_dir)
    others = "gateway,checkpointer,authoriser,notifier,orchestrator,planner,validator,monitor"
    async with AsyncExitStack() as stack:
        for daemon in (fleet.daemon, *fleet.hands.values()):
            stack.push_async_callback(daemon.close)
        await fleet.daemon.up("--roles", others)
        for name in HANDS:
            await fleet.up(name)
        yield fleet


async def _decide(fleet: Fleet, to: str, word: str) -> None:
    """One decision about one payment, with the approver's own credentials."""
    async with fleet.client("approver") as person:
        ids = [a["id"] for a in (await person.approvals())["approvals"]]
        shown = (await person.approvals(ids))["approvals"]
        [row] = [a for a in shown if a["package"]["action"]["arguments"] == {"to": to}]
        verb = person.approve if word == "approve" else person.deny
        await verb(row["id"], action=row["action_hash"], reason="said in a test")


async def _told(fleet: Fleet) -> list[Json]:
    """The results of the first turn, as the model was sent them: one for each call, in order."""
    _, second = await fleet.requests()
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "user"]
    asked = [b["id"] for b in second["messages"][1]["content"] if b["type"] == "tool_use"]
    told = results(second)
    assert [block["tool_use_id"] for block in told] == asked
    assert len(second["messages"][2]["content"]) == len(asked)
    return told


async def test_every_call_has_one_result_in_the_order_of_the_request(fleet: Fleet) -> None:
    await fleet.submit(RUN, variant="mixed")
    shown = await fleet.until(RUN, "AWAITING_APPROVAL")
    # the allowed calls have run before anybody decides, nothing else has
    assert sorted(await fleet.ended("look")) == ["a", "g"]
    assert await fleet.effects() == ["post:f:v1"]
    assert len(shown["approvals"]) == 3
    seen = await fleet.events(RUN, "observed")
    assert [event["ordinal"] for event in seen] == [0, 4, 5, 6, 7, 10]
    for to, word in (("acct-3", "approve"), ("acct-1", "deny"), ("acct-2", "approve")):
        await _decide(fleet, to, word)
    assert (await fleet.result(RUN))["status"] == "SUCCEEDED"
    assert sorted(await fleet.effects()) == ["pay:acct-2:v1", "pay:acct-3:v1", "post:f:v1"]
    told = await _told(fleet)
    words = [
        *("value of a", "PERSON_DENIED", "UNKNOWN_TOOL", "BAD_ARGUMENTS", "TOOL_FAILED"),
        *("TOOL_DEADLINE", "it cancelled itself", "posted f", "POL-1 forbids it", "paid acct-2"),
        *("value of g", "paid acct-3"),
    ]
    assert len(words) == len(MIXED["content"])
    missing = [w for w, block in zip(words, told, strict=True) if w not in str(block["content"])]
    assert not missing
    good = {0, 7, 9, 10, 11}
    assert [place for place, block in enumerate(told) if not block.get("is_error")] == sorted(good)
    ids = [item["id"] for item in (await fleet.show(RUN))["evidence"]]
    assert ids == [f"ev-{number + 1}" for number in range(len(good))]
    await fleet.until_idle()


async def test_a_wide_turn_is_bounded_and_spread_over_processes(fleet: Fleet) -> None:
    await fleet.hold("look")
    await fleet.submit(RUN, variant="wide")
    begun = await fleet.until_begun("look", MAX_PARALLEL)
    assert len({line["pid"] for line in begun}) == 2
    await anyio.sleep(0.3)  # nothing more may come, however long one waits
    assert len(await fleet.began("look")) == MAX_PARALLEL
    await fleet.let_go("look")
    assert (await fleet.result(RUN))["status"] == "SUCCEEDED"
    told = await _told(fleet)
    assert [block["content"]["data"] for block in told] == [f"value of k{n}" for n in range(MANY)]
    assert sorted(await fleet.ended("look")) == sorted(f"k{n}" for n in range(MANY))
    await fleet.until_idle()


async def test_a_cancel_while_calls_run_leaves_nothing_running(fleet: Fleet) -> None:
    await fleet.hold("look")
    await fleet.hold("post")
    await fleet.submit(RUN, variant="cut")
    await fleet.until_begun("look", MAX_PARALLEL - 1)
    await fleet.until_begun("post", 1)
    async with fleet.client() as operator:
        await operator.cancel(RUN, reason="changed my mind")
    # the reads are cut, all that had begun; the write has time to settle
    with anyio.fail_after(5):
        while len(await fleet.ended("look")) < MAX_PARALLEL - 1:  # noqa: ASYNC110 -- its own file
            await anyio.sleep(0.01)
    assert await fleet.ended("post") == []
    await fleet.let_go("post")
    result = await fleet.result(RUN)
    assert (result["status"], result["reason"]) == ("CANCELLED", "by_person")
    assert len(await fleet.began("look")) == MAX_PARALLEL - 1, "nothing begins after a cancel"
    assert await fleet.effects() == ["post:x:v1"]
    shown = await fleet.show(RUN)
    outcomes = [line["outcome"] for line in shown["tool_history"]]
    assert (outcomes.count("ok"), outcomes.count("cancelled")) == (1, len(CUT["content"]) - 1)
    async with fleet.client() as operator:
        assert (await operator.approvals())["approvals"] == []
        assert (await operator.effects(unresolved=True))["effects"] == []
        [row] = (await operator.effects(run_id=RUN))["effects"]
    assert (row["key"], row["state"]) == ("post:x:v1", "done")
    await fleet.until_idle()


async def test_an_executor_that_dies_among_the_calls_changes_no_result(fleet: Fleet) -> None:
    await fleet.hold("look")
    await fleet.hold("post")
    await fleet.submit(RUN, variant="killed")
    begun = await fleet.until_begun("look", 2)
    await fleet.until_begun("post", 1)
    hit = "reader-1" if begun[0]["pid"] == fleet.hands["reader-1"].process.pid else "reader-2"
    for name in (hit, "writer"):
        await fleet.hands[name].kill()
    await fleet.let_go("look")
    await fleet.let_go("post")
    for name in (hit, "writer"):
        await fleet.up(name)
    assert (await fleet.result(RUN))["status"] == "SUCCEEDED"
    told = await _told(fleet)
    said = ["value of a", "posted x", "value of b", "TOOL_FAILED"]
    assert not [w for w, block in zip(said, told, strict=True) if w not in str(block["content"])]
    assert await fleet.effects() == ["post:x:v1"]
    await fleet.until_idle()
