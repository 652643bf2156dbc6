"""Owners that come back late, and owners that are told to stop: one history, no step lost twice."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import anyio
import msgspec
import pytest

from messages import events as e
from messages.decision import Decide
from messages.errors import Unreachable
from messages.execution import Execute
from messages.ledger import Append, Done, Renew, Stale
from messages.status import Reason, Status
from messages.subjects import DEAD_STREAM
from runtime.intake import DeadLetter
from runtime.model.port import ModelRequest
from runtime.model.scripted import Turn
from runtime.settings import Runtime, Settings
from tests.flow.desk import Desk, agent, look, pay
from tests.flow.stage import RUN, TENANT, Stage, yes
from treadle.testing import call, finish


def stage(*turns: Turn, desk: Desk | None = None) -> tuple[Stage, Desk]:
    desk = desk or Desk()
    return Stage(agent(), script=list(turns), deps=desk), desk


async def test_an_owner_that_was_away_too_long_stops_and_the_other_one_goes_on() -> None:
    """A28: the loser's entry is refused by its version, and nothing of it is in the history."""
    on, desk = stage(call(pay, key="a"), call(look, key="b"), finish("ok"))
    thinking, go_on = anyio.Event(), anyio.Event()

    async def think(request: ModelRequest) -> None:
        if request.turn == 1 and not thinking.is_set():
            thinking.set()
            await go_on.wait()

    on.model.gate = think
    await on.create()
    async with on.life():
        await thinking.wait()
        away = on.process

        def forget(op: Any) -> Any:
            is_renewal = isinstance(op, Renew) and op.process == away
            return Done(now=0.0) if is_renewal else None

        on.ledger.answers = forget
        on.late_s += 60
        async with on.life() as other:
            state = await other.rest(yes)
            assert state is not None
            assert state.status is Status.SUCCEEDED
            go_on.set()
            with anyio.fail_after(30):
                while not any(op.process == away for op in on.ledger.refused):
                    await on.ledger.changed.wait()
    entries = await on.entries()
    assert [entry.version for entry in entries] == list(range(len(entries)))
    assert all(b.prev_hash == a.hash for a, b in pairwise(entries))
    assert desk.effects == {"pay:a:v1": 1}
    lost = [event for event in await on.events() if isinstance(event, e.StepLost)]
    assert [event.why for event in lost] == ["its owner was lost"]


async def test_a_drain_that_cuts_a_write_leaves_it_to_be_settled() -> None:
    on, desk = stage(call(pay, key="a"), finish("ok"), desk=Desk(faults={"pay": ["hang"]}))
    await on.create()
    async with on.life() as life:
        await desk.started.wait()
        life.supervisor.stop()
        desk.go_on.set()
        await on.owned(is_owned=False)
    state = await on.play(yes)
    assert (state.status, state.step_count, desk.effects) == (
        Status.SUCCEEDED,
        2,
        {"pay:a:v1": 1},
    )


async def test_a_run_is_driven_once_in_a_process_however_often_it_is_hinted_at() -> None:
    on, _ = stage(call(look, key="a"), finish("ok"))
    thinking, go_on = anyio.Event(), anyio.Event()

    async def think(_request: ModelRequest) -> None:
        thinking.set()
        await go_on.wait()

    on.model.gate = think
    await on.create()
    async with on.life() as life:
        await thinking.wait()
        for _ in range(20):
            await life.nudge_wake()
        go_on.set()
        state = await life.rest(yes)
    assert state is not None
    assert (state.status, state.step_count) == (Status.SUCCEEDED, 2)
    assert len(on.model.requests) == 2


async def test_a_reservation_that_a_drain_left_unused_is_used_by_the_next_owner() -> None:
    on, _ = stage(call(look, key="a"), finish("ok"))
    await on.create()
    async with on.life() as life:

        def stop(op: Any) -> None:
            if isinstance(op, Append) and isinstance(op.events[-1], e.StepReserved):
                life.supervisor.stop()

        on.ledger.answers = stop
        await released(on)
    on.ledger.answers = lambda _op: None
    assert (await on.state()).reservation is not None
    state = await on.play(yes)
    assert (state.status, state.step_count) == (Status.SUCCEEDED, 2)
    assert not [event for event in await on.events() if isinstance(event, e.StepLost)]


@pytest.mark.parametrize(
    ("said", "status"),
    [(("pause", "resume"), Status.SUCCEEDED), (("pause", "resume", "pause"), Status.PAUSED)],
)
async def test_a_drain_forgets_a_pause_with_its_resume_and_no_later_one(
    said: tuple[Any, ...], status: Status
) -> None:
    on, _ = stage(call(look, key="a"), finish("ok"))
    thinking, go_on = anyio.Event(), anyio.Event()

    async def think(_request: ModelRequest) -> None:
        thinking.set()
        await go_on.wait()

    on.model.gate = think
    await on.create()
    for kind in said[:2]:
        await on.signal(kind)
    async with on.life() as life:
        await thinking.wait()
        life.supervisor.stop()
        for kind in said[2:]:
            await on.signal(kind)
        go_on.set()
        await released(on)
    async with on.life() as life:
        state = await life.rest(yes)
    assert state is not None
    assert state.status is status


async def test_a_drain_whose_last_entry_does_not_hold_lets_go_all_the_same() -> None:
    on, _ = stage(call(look, key="a"), finish("ok"))
    thinking, go_on = anyio.Event(), anyio.Event()

    async def think(request: ModelRequest) -> None:
        if request.turn == 1:
            thinking.set()
            await go_on.wait()

    on.model.gate = think
    await on.create()
    stale: list[Append] = []

    def not_so(op: Any) -> Stale | None:
        if isinstance(op, Append) and go_on.is_set() and not stale:
            stale.append(op)
            return Stale(why="something")
        return None

    async with on.life() as life:
        await thinking.wait()
        life.supervisor.stop()
        on.ledger.answers = not_so
        go_on.set()
        await released(on)
    row = on.ledger.inner.tables.runs[(TENANT, RUN)]
    assert (len(stale), row.deaths) == (1, 0)
    assert (await on.play(yes)).status is Status.SUCCEEDED


async def released(on: Stage) -> None:
    """Until nobody owns the run."""
    await on.owned(is_owned=True)
    await on.owned(is_owned=False)


async def test_runs_that_may_not_lose_another_owner_are_driven_one_at_a_time() -> None:
    """One of them killed its owner, so together they would all be set aside with it."""
    on, _ = stage(call(look, key="a"), finish("ok"))
    on.settings = Settings(runtime=Runtime(lease_s=5, due_s=0.03, grace_s=0.3, poison_deaths=2))
    runs = [f"run-{number}" for number in range(1, 4)]
    thinking: list[str] = []
    go_on = anyio.Event()

    async def think(request: ModelRequest) -> None:
        if request.turn == 0:
            thinking.append(request.goal)
            await go_on.wait()

    on.model.gate = think
    for run_id in runs:
        await on.create(run_id)
    async with on.life():
        for run_id in runs:
            await on.owned(run_id, is_owned=True)
        await until(on, lambda: len(thinking) == len(runs))
    thinking.clear()
    async with on.life() as life:
        await until(on, lambda: len(thinking) == 1)
        await on.ledger.changed.wait()  # it looks at what is due again and takes no other
        rows = [on.ledger.inner.tables.runs[(TENANT, run_id)] for run_id in runs]
        assert [row.deaths for row in rows] == [1, 0, 0]
        go_on.set()
        for run_id in runs:
            state = await life.rest(yes, run_id=run_id)
            assert state is not None
            assert state.status is Status.SUCCEEDED


async def test_a_run_that_is_set_aside_leaves_a_dead_letter() -> None:
    on, _ = stage(call(look, key="a"), finish("ok"))
    on.ledger.die = lambda _append: "before" if on.deaths < 3 else ""
    await on.create()
    while on.deaths < 3:
        async with on.life():
            await on.ledger.dead.wait()
        on.deaths += 1
    async with on.life() as life:
        with anyio.fail_after(5):
            while (letter := await life.bus.stored(DEAD_STREAM, "treadle.dead.>", after=0)) is None:
                await on.ledger.changed.wait()
    assert letter.subject == f"treadle.dead.{TENANT}.runs.{RUN}"
    said = msgspec.json.decode(letter.data, type=DeadLetter)
    assert (said.code, said.message) == ("POISON", "3 owners died while driving it")
    assert msgspec.json.decode(said.payload)["run_id"] == RUN
    assert (await on.state()).reason == Reason.POISON


@pytest.mark.parametrize(("kind", "times"), [(Decide, 5), (Execute, 4)])
async def test_a_broker_that_is_away_costs_no_step_and_fails_no_call(kind: Any, times: int) -> None:
    """Planner and executor are asked over and over, and nothing of it was ever sent."""
    on, _ = stage(call(look, key="a"), finish("ok"))
    asked: list[str] = []
    await on.create()
    async with on.life() as life:
        ask = life.bus.ask

        async def cut_off(request: Any, **more: Any) -> Any:
            if isinstance(request, kind) and len(asked) < times:
                asked.append(request.run_id)
                raise Unreachable("no NATS connection")
            return await ask(request, **more)

        life.bus.ask = cut_off
        state = await life.rest(yes)
    assert len(asked) == times
    assert state is not None
    assert (state.status, state.step_count) == (Status.SUCCEEDED, 2)
    assert [line.outcome for line in state.tool_history] == ["ok"]
    assert not [event for event in await on.events() if isinstance(event, e.StepLost)]


async def until(on: Stage, is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(5):
        while not is_so():
            await on.ledger.changed.wait()
