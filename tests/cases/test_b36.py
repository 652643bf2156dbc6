"""Case B36: two workers write the same run.

A worker here is an orchestrator in a process of its own. There is no 'next step' message: whoever
hears a wake asks the ledger for the run, and the ledger gives it to one. Histories are not
shortened yet, so for variant c a second writer sends the entry that a shortening would write,
sound in everything but its take.
"""

import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import anyio
import msgspec
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from messages.base import Message
from messages.codec import decode, encode
from messages.events import Consulted
from messages.ledger import Append, Committed, Conflicted, Load, Loaded, RunEnded, Take
from messages.parts import Amount, Usage
from tests.cases.place import PATIENCE_S, Json, results
from tests.cases.team import Team, team
from tests.system.daemon import listen

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

DOOR = "gateway,checkpointer,authoriser,notifier,executor,planner,validator,monitor"
RPC = "treadle.rpc.checkpointer"
RUNS = 50


@pytest.fixture
async def pair(data_dir: Path) -> AsyncGenerator[Team]:
    """Two orchestrators beside a process that serves everything else."""
    async with team(data_dir, "b36", roles=DOOR) as pair:
        await pair.join("w1", "orchestrator")
        await pair.join("w2", "orchestrator")
        yield pair


# ------------------------------------------------------------------ the three variants
async def test_a_run_offered_to_both_at_once_is_driven_by_one(pair: Team) -> None:
    takers: dict[str, set[str]] = {}
    async with pair.daemon.observer() as observer:

        async def wake(message: Msg) -> None:
            """Whatever happens to a run, both are told again and again to take it."""
            run_id = message.subject.split(".")[3]
            for _ in range(6):
                await observer.publish(f"treadle.wakes.default.{run_id}")

        async def note(message: Msg) -> None:
            take = msgspec.json.decode(message.data, type=Take)
            takers.setdefault(take.run_id, set()).add(take.process)

        await listen(observer, f"{RPC}.take", note)
        await listen(observer, "treadle.events.default.>", wake)
        await _submit_all(pair)
        await _check_all(pair)
    contested = [run for run, processes in takers.items() if len(processes) == 2]
    assert len(contested) > RUNS // 2, "both wanted to take most of the runs"


async def test_a_task_published_twice_is_one_run(pair: Team) -> None:
    # b: one run, the second publish is answered with the same run id
    answers: dict[str, list[Json]] = {}
    async with pair.client() as client, anyio.create_task_group() as tasks:

        async def one(run_id: str) -> None:
            answer = await client.submit("b36", run_id, run_id=run_id, inputs={"variant": "a"})
            answers.setdefault(run_id, []).append(answer)

        for run_id in _run_ids():
            tasks.start_soon(one, run_id)
            tasks.start_soon(one, run_id)
    for run_id, said in answers.items():
        assert [answer["run_id"] for answer in said] == [run_id, run_id]
        assert sorted(answer["existing"] for answer in said) == [False, True]
    await _check_all(pair)
    # and the same over the stream, where both publishes are of the same task
    for _ in range(2):
        await pair.submit("stream-run", goal="stream-run")
    assert (await pair.result("stream-run"))["output"] == "11"
    await _check(pair, "stream-run")


async def test_a_second_writer_of_a_history_gets_a_version_conflict(pair: Team) -> None:
    # the loser gets a version conflict, re-reads and stops or goes on from the new version
    answers: list[Message] = []
    async with pair.daemon.observer() as observer, anyio.create_task_group() as tasks:

        async def shorten(run_id: str) -> None:
            """Read the run as it is now and write its next version, beside its owner."""
            load = Load(tenant="default", run_id=run_id)
            loaded = await _ask(observer, "load", load)
            if isinstance(loaded, Loaded) and not loaded.row.summary.status.is_terminal:
                answers.append(await _ask(observer, "append", _shortening(loaded)))

        async def race(message: Msg) -> None:
            tasks.start_soon(shorten, message.subject.split(".")[3])

        await listen(observer, "treadle.events.default.>", race)
        await _submit_all(pair)
        await _check_all(pair)
    assert not [answer for answer in answers if isinstance(answer, Committed)]
    assert len([answer for answer in answers if isinstance(answer, Conflicted)]) > RUNS
    assert all(isinstance(answer, Conflicted | RunEnded) for answer in answers), answers


async def test_an_owner_that_was_paused_stops_and_the_other_goes_on(pair: Team) -> None:
    run_id = "paused-run"
    for amount in (5, 6):
        await pair.hold(f"add-{amount}")
    takers: list[str] = []
    async with pair.daemon.observer() as observer:

        async def note(message: Msg) -> None:
            takers.append(msgspec.json.decode(message.data, type=Take).process)

        await listen(observer, f"{RPC}.take", note)
        _pause(pair, "w2")
        await pair.submit(run_id, goal=run_id)
        await _until(lambda: _is_intended(pair, run_id))
        _pause(pair, "w1")
        pair.workers["w2"].process.send_signal(signal.SIGCONT)
        # the other goes on, once the first one's lease has run out
        await pair.let_go("add-5")
        await pair.until_happened(1)
        await _until(lambda: _has_two(takers))
        await _until(lambda: _is_at(pair, run_id, step=2))
        # the loser wakes up with an answer to write down and is told that it is too late
        pair.workers["w1"].process.send_signal(signal.SIGCONT)
        await _until(lambda: _says(pair, "w1", "run_lost"))
    assert (await pair.show(run_id))["status"] == "RUNNING"
    await pair.let_go("add-6")
    assert (await pair.result(run_id))["output"] == "11"
    await _check(pair, run_id)


# ------------------------------------------------------------------ what holds for every run
def _run_ids() -> list[str]:
    return [f"run-{number}" for number in range(RUNS)]


async def _submit_all(pair: Team) -> None:
    for run_id in _run_ids():
        await pair.submit(run_id, goal=run_id)


async def _check_all(pair: Team) -> None:
    # repeat 50 times: no lost tool_result
    for run_id in _run_ids():
        result = await pair.result(run_id)
        assert (result["status"], result["output"]) == ("SUCCEEDED", "11"), result
        await _check(pair, run_id)


async def _check(pair: Team, run_id: str) -> None:
    # a, b, c: total 11, two calls
    amounts = [line["amount"] for line in await pair.happened() if line["run"] == run_id]
    assert amounts == [5, 6]
    # the fake model sees 3 requests for the accepted line of history
    requests = await pair.requests(run_id)
    assert [request["turn"] for request in requests] == [0, 1, 2]
    told = [results(request) for request in requests[1:]]
    assert [(block["tool_use_id"], block["content"]["data"]) for [block] in told] == [
        ("toolu_01", {"added": 5}),
        ("toolu_02", {"added": 6}),
    ]
    # versions in the store have no gap and no branch
    events = await pair.events(run_id)
    versions = [event["version"] for event in events]
    assert versions == sorted(versions)
    assert set(versions) == set(range(max(versions) + 1))
    assert [event["step"] for event in events if event["kind"] == "decided"] == [1, 2, 3]
    assert not [event for event in events if event["kind"] == "consulted"]
    shown = await pair.show(run_id)
    assert (shown["version"], shown["step_count"]) == (max(versions), 3)
    assert [line["outcome"] for line in shown["tool_history"]].count("ok") == 2


def _shortening(loaded: Loaded) -> Append:
    row = loaded.row
    used = Usage(input_tokens=10, output_tokens=10)
    note = Consulted(purpose="shorten", usage=used, charged=Amount(tokens=20), model="m")
    return Append(
        tenant=row.tenant,
        run_id=row.run_id,
        version=row.version + 1,
        append_id=f"app-{row.version}",
        prev_hash=row.head_hash,
        process="w2-shortener",
        take_id="take-of-nobody",
        active_s=0.0,
        events=(note,),
        summary=row.summary,
    )


async def _ask(client: Client, verb: str, request: Message) -> Message:
    answer = await client.request(f"{RPC}.{verb}", encode(request), timeout=10)
    return decode(answer.data)


# ------------------------------------------------------------------ one that is paused
def _pause(pair: Team, name: str) -> None:
    pair.workers[name].process.send_signal(signal.SIGSTOP)


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110 -- other processes
            await anyio.sleep(0.02)


async def _is_intended(pair: Team, run_id: str) -> bool:
    async with pair.client() as client:
        rows = (await client.effects(run_id=run_id))["effects"]
    return bool(rows) and rows[0]["state"] == "started"


async def _is_at(pair: Team, run_id: str, *, step: int) -> bool:
    return (await pair.show(run_id))["step_count"] == step


async def _has_two(takers: list[str]) -> bool:
    return len(set(takers)) == 2


async def _says(pair: Team, name: str, line: str) -> bool:
    return f'"{line}"' in await pair.workers[name].log()
