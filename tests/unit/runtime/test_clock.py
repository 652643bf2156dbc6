import re

import anyio
import pytest
from anyio.lowlevel import checkpoint

from runtime.clock import FakeClock, FixedIds, MachineClock, MachineIds, machine_chance

IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{1,64}")


def test_machine_ids_are_identifiers_and_differ() -> None:
    ids = [MachineIds().new_id("run") for _ in range(1000)]
    assert all(IDENTIFIER.fullmatch(name) and name.startswith("run-") for name in ids)
    assert len(set(ids)) == 1000


def test_approval_ids_keep_to_letters_and_digits() -> None:
    assert re.fullmatch(r"apr-[A-Za-z0-9]{1,32}", MachineIds().new_id("apr"))


def test_secrets_differ_and_are_long() -> None:
    first, second = MachineIds().new_secret(), MachineIds().new_secret()
    assert first != second
    assert len(first) >= 40


def test_machine_clock_goes_forward() -> None:
    clock = MachineClock()
    assert clock.now() > 1_700_000_000
    assert clock.monotonic() <= clock.monotonic()


def test_machine_chance_is_a_fraction() -> None:
    assert all(0 <= machine_chance() < 1 for _ in range(100))


def test_fixed_ids_are_given_in_order_and_run_out() -> None:
    ids = FixedIds({"apr": ["apr-5521"], "req": ["req-8472-01", "req-8472-02"]})
    assert ids.new_id("apr") == "apr-5521"
    assert [ids.new_id("req"), ids.new_id("req")] == ["req-8472-01", "req-8472-02"]
    with pytest.raises(LookupError, match="apr"):
        ids.new_id("apr")


def test_fixed_ids_count_where_nothing_was_supplied() -> None:
    ids = FixedIds()
    assert [ids.new_id("run"), ids.new_id("run"), ids.new_id("apr")] == ["run-1", "run-2", "apr-1"]
    assert ids.new_secret() == "secret-1"


def test_fake_clock_jumps_without_monotonic() -> None:
    clock = FakeClock(now=100.0)
    clock.advance(5)
    clock.jump(-50)
    assert (clock.now(), clock.monotonic()) == (55.0, 5.0)


async def test_fake_clock_wakes_only_who_is_due() -> None:
    clock, woken = FakeClock(), list[str]()

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sleep, "short", 1)
        tasks.start_soon(sleep, "long", 10)
        while clock.sleepers < 2:
            await checkpoint()
        clock.advance(1)
        while clock.sleepers == 2:
            await checkpoint()
        assert woken == ["short"]
        clock.advance(9)
    assert woken == ["short", "long"]
    assert clock.sleepers == 0


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = FakeClock()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clock.sleep, 1)
        while not clock.sleepers:
            await checkpoint()
        tasks.cancel_scope.cancel()
    assert clock.sleepers == 0
