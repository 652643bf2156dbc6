from runtime.clock import FakeClock
from runtime.ledger.clock import LedgerClock


def test_it_follows_the_machine() -> None:
    machine = FakeClock(1000.0)
    clock = LedgerClock(machine.now)
    assert clock.now() == 1000.0
    machine.advance(5.0)
    assert clock.now() == 1005.0
    machine.jump(3600.0)
    assert clock.now() == 4605.0


def test_it_never_goes_back_and_never_stands_still() -> None:
    machine = FakeClock(1000.0)
    clock = LedgerClock(machine.now)
    machine.jump(-100.0)
    assert clock.now() == 1000.0
    machine.advance(10.0)
    assert clock.now() == 1005.0


def test_it_catches_up_with_the_machine_after_a_jump_back() -> None:
    machine = FakeClock(1000.0)
    clock = LedgerClock(machine.now)
    machine.jump(-100.0)
    clock.now()
    machine.advance(190.0)
    assert clock.now() == 1095.0
    machine.advance(20.0)
    assert clock.now() == 1110.0
    machine.advance(1.0)
    assert clock.now() == 1111.0


def test_it_starts_where_an_earlier_process_had_come() -> None:
    machine = FakeClock(1000.0)
    clock = LedgerClock(machine.now, last=1500.0)
    assert clock.now() == 1500.0
    machine.advance(2.0)
    assert clock.now() == 1501.0
