"""Case B08: two identical calls in different steps are two calls; one delivered twice is one.

An execute message is plain NATS, so nothing but a copy delivers it again: the test publishes one.
Whoever hears the copy is refused the claim. While the first is still at work that refusal reaches
the asker first and says "unknown", which is then settled by what the first one recorded.
"""

from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest
from nats.aio.msg import Msg

from tests.cases.place import PATIENCE_S, results
from tests.cases.team import Team, team
from tests.system.daemon import listen

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

RUN = "b08-run"
EXECUTE = "treadle.rpc.executor.counter_add.execute"
LATER_S = 0.2
COPIES = 8
"""Of the copies, so that chance brings one to the other executor; the first may know its own."""


@pytest.fixture
async def pair(data_dir: Path) -> AsyncGenerator[Team]:
    """Two processes whose executors share the work."""
    async with team(data_dir, "b08") as pair:
        await pair.join("second", "executor")
        yield pair


@pytest.mark.parametrize("hold", ["add", "later"], ids=["while it runs", "after it has run"])
async def test_one_call_delivered_twice_is_one(pair: Team, hold: str) -> None:
    sent: list[Msg] = []
    is_sent = anyio.Event()

    async def hear(message: Msg) -> None:
        sent.append(message)
        is_sent.set()

    async with pair.daemon.observer() as observer:
        await listen(observer, EXECUTE, hear)
        await pair.hold(hold)
        await pair.submit(RUN)
        with anyio.fail_after(PATIENCE_S):
            await is_sent.wait()
            while hold == "later" and not await _is_recorded(pair):  # noqa: ASYNC110 -- the journal
                await anyio.sleep(0.02)
        await anyio.sleep(LATER_S)  # as the case says
        for _ in range(COPIES):
            await observer.publish(EXECUTE, sent[0].data, sent[0].reply)
        await observer.flush()
        await pair.let_go(hold)
        result = await pair.result(RUN)
        await observer.flush()
    # the progress monitor does not stop this run
    assert (result["status"], result["output"]) == ("SUCCEEDED", "counter is 2")
    flagged = await pair.events(RUN, "progress_flagged")
    assert [event for event in flagged if event["level"] == "stop"] == []
    assert len(sent) == COPIES + 2, "the copies were heard on the bus like the two real ones"
    assert len({message.data for message in sent}) == 2
    await _check(pair)


async def _is_recorded(pair: Team) -> bool:
    return any(event["step"] == 2 for event in await pair.events(RUN, "observed"))


async def _check(pair: Team) -> None:
    # results seen by the model: 0, ok, 1, ok; final counter 2
    requests = await pair.requests()
    told = [results(request) for request in requests[1:]]
    assert [block["content"]["data"] for [block] in told] == [0, {"ok": True}, 1, {"ok": True}]
    # effects of counter_add: exactly 2 (the double delivery of toolu_02 adds nothing)
    happened = await pair.happened()
    effects = [line for line in happened if line["kind"] == "effect"]
    starts = [line["key"] for line in happened if line["kind"] == "start"]
    assert sum(line["n"] for line in effects) == len(effects) == len(starts) == 2
    # the idempotency keys of toolu_02 and toolu_04 differ although name and arguments are equal
    shown = await pair.show(RUN)
    added = [line for line in shown["tool_history"] if line["tool"] == "counter_add"]
    keys = list(dict.fromkeys(line["idempotency_key"] for line in added))
    assert len({line["args_hash"] for line in added}) == 1
    assert len(keys) == 2
    assert keys == starts
    async with pair.client() as operator:
        rows = (await operator.effects(run_id=RUN))["effects"]
    assert sorted((row["key"], row["state"], row["claims"]) for row in rows) == sorted(
        (key, "done", 1) for key in keys
    )
