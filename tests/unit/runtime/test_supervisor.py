import signal
from collections.abc import Awaitable, Callable

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from messages.errors import SupervisorGaveUp
from runtime.clock import FakeClock
from runtime.supervisor import (
    LONGEST_PAUSE_S,
    PHASE_S,
    ChildSpec,
    Phase,
    RestartBudget,
    StopReason,
    Supervisor,
    pause_s,
)


class Boom(Exception):
    """A crash."""


def make(
    clock: FakeClock | None = None,
    *,
    grace_s: float = 5.0,
    signals: tuple[signal.Signals, ...] = (),
    leave: Callable[[int], None] = lambda _signum: None,
) -> Supervisor:
    return Supervisor(
        clock=clock or FakeClock(),
        chance=lambda: 1.0,
        grace_s=grace_s,
        signals=signals,
        leave=leave,
    )


async def serve() -> None:
    await anyio.sleep_forever()


def crashing(times: int, then: Callable[[], Awaitable[None]]) -> tuple[ChildSpec, list[int]]:
    starts = list[int]()

    async def run() -> None:
        starts.append(len(starts))
        if len(starts) <= times:
            raise Boom
        await then()

    return ChildSpec(name="crashing", run=run), starts


async def run_while_time_passes(
    supervisor: Supervisor, clock: FakeClock, tick_s: float, *children: ChildSpec
) -> StopReason | None:
    """Every sleep on the clock ends at the next tick."""
    failure: SupervisorGaveUp | None = None
    async with anyio.create_task_group() as tasks:

        async def tick() -> None:
            while True:
                await checkpoint()
                if clock.sleepers:
                    clock.advance(tick_s)

        tasks.start_soon(tick)
        try:
            await supervisor.run(children)
        except SupervisorGaveUp as error:
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return supervisor.reason


async def test_a_crashed_child_is_started_again() -> None:
    clock = FakeClock()
    supervisor = make(clock)

    async def stop() -> None:
        supervisor.stop()

    child, starts = crashing(3, stop)
    other = ChildSpec(name="b", run=serve)
    reason = await run_while_time_passes(supervisor, clock, 1.0, child, other)
    assert reason is StopReason.ASKED
    assert len(starts) == 4


async def test_a_sixth_restart_within_a_minute_ends_the_process() -> None:
    clock = FakeClock()
    child, starts = crashing(100, serve)
    with pytest.raises(SupervisorGaveUp) as gave_up:
        await run_while_time_passes(make(clock), clock, 10.0, child, ChildSpec(name="b", run=serve))
    assert "more than 5 restarts within 60 s" in gave_up.value.message
    assert "crashing: Boom" in gave_up.value.message
    assert isinstance(gave_up.value.__cause__, Boom)
    assert len(starts) == 6


async def test_slow_crashes_go_on_for_ever() -> None:
    clock = FakeClock()
    supervisor = make(clock)

    async def stop() -> None:
        supervisor.stop()

    child, starts = crashing(20, stop)
    await run_while_time_passes(supervisor, clock, 13.0, child)
    assert len(starts) == 21


async def test_phases_come_in_order_and_wait_for_every_child() -> None:
    told = list[tuple[str, Phase]]()
    released = anyio.Event()
    supervisor = make()

    async def slow(phase: Phase) -> None:
        if phase is Phase.FINISH:
            await released.wait()
        told.append(("slow", phase))

    async def quick(phase: Phase) -> None:
        told.append(("quick", phase))
        if phase is Phase.FINISH:
            await checkpoint()
            released.set()

    supervisor.stop()
    reason = await supervisor.run(
        [
            ChildSpec(name="slow", run=serve, drain=slow),
            ChildSpec(name="quick", run=serve, drain=quick),
        ]
    )
    assert reason is StopReason.ASKED
    assert [phase for _, phase in told] == [phase for phase in Phase for _ in range(2)]


async def test_the_grace_period_ends_and_release_still_comes() -> None:
    told = list[Phase]()

    async def drain(phase: Phase) -> None:
        if phase is Phase.FINISH:
            await anyio.sleep_forever()
        told.append(phase)

    supervisor = make(grace_s=0.01)
    supervisor.stop()
    with anyio.fail_after(PHASE_S / 2):
        await supervisor.run([ChildSpec(name="stuck", run=serve, drain=drain)])
    assert told == [Phase.STOP_TAKING, Phase.RELEASE, Phase.CLOSE]


async def test_a_failing_drain_does_not_keep_others_from_theirs() -> None:
    told = list[Phase]()

    async def fail(_phase: Phase) -> None:
        raise Boom

    async def note(phase: Phase) -> None:
        await checkpoint()
        told.append(phase)

    supervisor = make()
    supervisor.stop()
    await supervisor.run(
        [ChildSpec(name="a", run=serve, drain=fail), ChildSpec(name="b", run=serve, drain=note)]
    )
    assert told == list(Phase)


async def test_children_run_until_the_drain_is_over() -> None:
    order = list[str]()

    async def run() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            order.append("cancelled")

    async def drain(phase: Phase) -> None:
        await checkpoint()
        order.append(phase.name)

    supervisor = make()
    supervisor.stop()
    await supervisor.run([ChildSpec(name="a", run=run, drain=drain)])
    assert order == [*(phase.name for phase in Phase), "cancelled"]


async def test_it_ends_when_every_child_has() -> None:
    async def done() -> None:
        await checkpoint()

    assert await make().run([ChildSpec(name="a", run=done)]) is StopReason.ENDED


async def test_the_first_signal_drains_and_the_second_leaves() -> None:
    left = list[int]()
    told = list[Phase]()
    seen = anyio.Event()

    def leave(signum: int) -> None:
        left.append(signum)
        seen.set()

    async def run() -> None:
        signal.raise_signal(signal.SIGTERM)
        await anyio.sleep_forever()

    async def drain(phase: Phase) -> None:
        told.append(phase)
        if phase is Phase.FINISH:
            signal.raise_signal(signal.SIGTERM)
            await seen.wait()

    supervisor = make(signals=(signal.SIGTERM,), leave=leave)
    reason = await supervisor.run([ChildSpec(name="a", run=run, drain=drain)])
    assert reason is StopReason.SIGNAL
    assert left == [signal.SIGTERM]
    assert told == list(Phase)


@given(st.integers(1, 5), st.floats(0, 0.999))
def test_a_pause_is_within_its_bounds(crashes: int, chance: float) -> None:
    whole = min(LONGEST_PAUSE_S, 0.1 * 2 ** (crashes - 1))
    assert whole / 2 <= pause_s(crashes, chance) <= whole


def test_a_pause_stays_finite() -> None:
    assert pause_s(1000, 0.5) <= LONGEST_PAUSE_S


@given(st.lists(st.floats(0, 1000), max_size=40).map(sorted))
def test_no_window_holds_more_than_the_budget(times: list[float]) -> None:
    budget = RestartBudget()
    for index, at in enumerate(times):
        within = [other for other in times[: index + 1] if other > at - 60]
        assert budget.spend(at) == (len(within) <= 5)
