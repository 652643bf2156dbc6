"""Case B41: a slow handler and redelivery: one message, several deliveries, one effect.

An execute message is plain NATS and has no ack_wait. What extends a deadline here is the heartbeat:
an asker that hears none for ``silence_s`` gives the worker up, so the tool takes 3.5 times that, as
in the case. An ack is the executor's answer, and ``max_deliver`` is one: nobody sends a write
again, what became of it is read off the ledger. Deliveries are counted on the bus itself and in
what ``actors`` says was served.
"""

import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from nats.aio.msg import Msg

from tests.cases.place import PATIENCE_S, Json
from tests.cases.team import BRISK, Team, team
from tests.system.daemon import listen

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

RUN = "b41-run"
DOOR = "gateway,checkpointer,authoriser,notifier,orchestrator,planner,validator,monitor"
EXECUTE = "treadle.rpc.executor.slow_add.execute"
SETTLE = "treadle.rpc.checkpointer.settle"
SLOW_S = 3.5 * float(BRISK["TREADLE_RUNTIME__SILENCE_S"])


@asynccontextmanager
async def _pair(data_dir: Path, seconds: float = 0.0) -> AsyncGenerator[Team]:
    """Two executors beside a process that serves everything else."""
    env = {**BRISK, "SLOW_ADD_S": str(seconds)}
    async with team(data_dir, "b41", roles=DOOR, env=env) as pair:
        await pair.join("w1", "executor")
        await pair.join("w2", "executor")
        yield pair


async def _counts(pair: Team) -> tuple[int, int]:
    """Starts and total, as the downstream has them."""
    happened = await pair.happened()
    starts = [line["key"] for line in happened if line["kind"] == "start"]
    effects = [line["key"] for line in happened if line["kind"] == "effect"]
    assert len(effects) == len(set(effects)), "an effect came twice"
    return len(starts), sum(line["n"] for line in happened if line["kind"] == "effect")


async def _served(pair: Team) -> int:
    """Execute messages that the executors have dealt with."""
    async with pair.client() as operator:
        rows = (await operator.actors())["actors"]
    return sum(row["served"] for row in rows if row["role"] == "executor")


async def _reconciled(pair: Team) -> list[tuple[str, str]]:
    return [(e["finding"], e["how"]) for e in await pair.events(RUN, "reconciled")]


async def test_a_slow_tool_is_not_given_up_while_it_works(data_dir: Path) -> None:
    async with _pair(data_dir, SLOW_S) as pair, pair.daemon.observer() as observer:
        deliveries: list[Msg] = []

        async def note(message: Msg) -> None:
            deliveries.append(message)

        await listen(observer, EXECUTE, note)
        await pair.submit(RUN)
        result = await pair.result(RUN)
        await observer.flush()
        # a: starts 1, total 1: the worker extends the ack deadline while it works
        assert (result["status"], result["output"]) == ("SUCCEEDED", "ok")
        assert await _counts(pair) == (1, 1)
        assert await _reconciled(pair) == []
        # no redelivery storm (deliveries <= 2 per message in a)
        assert len(deliveries) == 1
        assert await _served(pair) == 2, "the call, and the look at it before success"


async def test_a_worker_killed_after_the_record_and_before_its_answer(data_dir: Path) -> None:
    async with _pair(data_dir) as pair, pair.daemon.observer() as observer:
        sent: list[Msg] = []
        settling = anyio.Event()

        async def note(message: Msg) -> None:
            sent.append(message)

        async def settle(_message: Msg) -> None:
            settling.set()

        await listen(observer, EXECUTE, note)
        await listen(observer, SETTLE, settle)
        await pair.hold("add")
        await pair.submit(RUN)
        [start] = await pair.until_happened(1)
        # the ledger stands still while the worker tells it the result, so that no answer can come
        pair.daemon.process.send_signal(signal.SIGSTOP)
        await pair.let_go("add")
        with anyio.fail_after(PATIENCE_S):
            await settling.wait()
        [hit] = [w for w in pair.workers.values() if w.process.pid == start["pid"]]
        await hit.kill()
        pair.daemon.process.send_signal(signal.SIGCONT)
        result = await pair.result(RUN)
        # b: redelivery finds the recorded result, acks, executes nothing
        assert (result["status"], result["output"]) == ("SUCCEEDED", "ok")
        assert await _counts(pair) == (1, 1)
        assert await _reconciled(pair) == [("happened", "settled")]
        before = await _served(pair)
        again = await observer.request(EXECUTE, sent[0].data, timeout=10)
        assert b'"ok"' not in again.data
        assert await _counts(pair) == (1, 1)
        # deliveries beyond the first are visible in metrics
        assert await _served(pair) == before + 1
        assert len(sent) == 2, "one of Treadle's, one of this test"


async def test_ten_tasks_at_once_are_shared_by_two_workers(data_dir: Path) -> None:
    """With 2 workers the time is about half: proven by both working at once, not by a clock."""
    tasks = 10
    async with _pair(data_dir) as pair:
        await pair.hold("add")
        for number in range(tasks):
            await pair.submit(f"run-{number}")
        starts = await pair.until_happened(tasks)
        # all ten are under way before any of them ends
        assert [line["kind"] for line in starts] == ["start"] * tasks
        tasks += await _until_both_work(pair, tasks)
        await pair.let_go("add")
        ended: list[Json] = [await pair.result(f"run-{number}") for number in range(tasks)]
        assert {result["status"] for result in ended} == {"SUCCEEDED"}
        # c: total 10, starts 10
        assert await _counts(pair) == (tasks, tasks)
        assert await _served(pair) == 2 * tasks, "each call, and the look at it before success"


async def _until_both_work(pair: Team, tasks: int) -> int:
    """More tasks, should chance have given all of them to one worker; how many it took."""
    more = 0
    while len({line["pid"] for line in await pair.until_happened(tasks + more)}) < 2:
        assert more < 30
        await pair.submit(f"run-{tasks + more}")
        more += 1
    return more
