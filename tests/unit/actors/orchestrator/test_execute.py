"""A tool whose executors are all away: it waits as for any other role, and nothing is made up."""

from typing import Any

import pytest
from msgspec.structs import replace

from actors.orchestrator.execute import ask_executor
from actors.orchestrator.hand import Hand
from messages.errors import Busy, NoResponders, Silent
from runtime.asking import GiveUp
from runtime.clock import FakeClock, FixedIds
from runtime.settings import Runtime
from tests.unit.actors.orchestrator.test_pen import Ledger, pen_of
from tests.unit.runtime.loop.tales import GRANT, SPEC, allowed


class Ticking(FakeClock):
    """Sleeping is all that takes time."""

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)


class Bus:
    """Fails in its ways, one after the other, the last for ever."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.asked = 0

    async def ask(self, request: Any, **_: Any) -> Any:
        del request
        self.asked += 1
        raise self.failures.pop(0) if len(self.failures) > 1 else self.failures[0]


def hand_of(tool: str, *failures: Exception) -> tuple[Hand, Bus, Ticking]:
    clock, ledger, bus = Ticking(), Ledger(), Bus(*failures)
    ledger.bus = bus  # pyright: ignore[reportAttributeAccessIssue]
    pen, _ = pen_of(allowed(tool), ledger)
    hand = Hand(
        pen=pen,
        agent=SPEC,
        asking=ledger,
        reporter=None,  # pyright: ignore[reportArgumentType] - nothing is committed here
        clock=clock,
        ids=FixedIds(),
        times=Runtime(),
        process="p1",
    )
    hand.hold(replace(GRANT, id=hand.call(0).grant_id, expires_at=pen.now() + 3600))
    return hand, bus, clock


@pytest.mark.parametrize("failure", [NoResponders("nobody"), Busy("full")])
async def test_a_read_that_nobody_takes_goes_back_to_the_ledger(failure: Exception) -> None:
    """It is no error of the tool: that would count against the run."""
    hand, bus, clock = hand_of("look", failure)
    with pytest.raises(GiveUp):
        await ask_executor(hand, hand.call(0))
    assert clock.monotonic() >= 20
    assert bus.asked > 5


async def test_a_write_that_nobody_takes_is_left_to_be_voided() -> None:
    hand, _, clock = hand_of("mail", NoResponders("nobody"))
    assert await ask_executor(hand, hand.call(0)) is None
    assert clock.monotonic() >= 20


async def test_nobody_waits_longer_than_the_grant_holds() -> None:
    hand, _, clock = hand_of("mail", NoResponders("nobody"))
    hand.hold(replace(GRANT, id=hand.call(0).grant_id, expires_at=hand.pen.now() + 0.5))
    assert await ask_executor(hand, hand.call(0)) is None
    assert clock.monotonic() == 0


async def test_a_process_that_stops_does_not_wait() -> None:
    hand, _, clock = hand_of("mail", NoResponders("nobody"))
    hand.is_draining = True
    assert await ask_executor(hand, hand.call(0)) is None
    assert clock.monotonic() == 0


async def test_a_read_whose_executors_fall_silent_is_an_error_in_the_end() -> None:
    hand, bus, _ = hand_of("look", Silent("dead"))
    outcome = await ask_executor(hand, hand.call(0))
    assert outcome is not None
    assert (outcome.kind, outcome.problem and outcome.problem.code) == ("error", "SILENT")
    assert bus.asked == 5


async def test_a_write_whose_executor_falls_silent_is_never_sent_again() -> None:
    hand, bus, _ = hand_of("mail", Silent("dead"))
    assert await ask_executor(hand, hand.call(0)) is None
    assert bus.asked == 1
