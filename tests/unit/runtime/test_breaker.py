"""A breaker opens after failures in a row; one probe at a time finds out whether it may close."""

from hypothesis import given
from hypothesis import strategies as st

from runtime.breaker import FIRST_PAUSE_S, LONGEST_PAUSE_S, SOON_S, TRIPS_AT, Breaker, Ended, Pass


def broken(now: float = 0.0) -> Breaker:
    """One that has just opened."""
    breaker = Breaker()
    for _ in range(TRIPS_AT):
        breaker.ended(breaker.admit(now), "failed", now)
    return breaker


def test_it_opens_after_so_many_failures_in_a_row() -> None:
    breaker = Breaker()
    for number in range(TRIPS_AT - 1):
        breaker.ended(breaker.admit(number), "failed", number)
        assert breaker.state(number) == "closed"
    breaker.ended(breaker.admit(9.0), "failed", 9.0)
    assert breaker.state(9.0) == "open"
    assert breaker.admit(9.0) == Pass(wait_s=FIRST_PAUSE_S)
    assert breaker.admit(11.0) == Pass(wait_s=FIRST_PAUSE_S - 2.0)
    assert breaker.trips == 1


def test_a_success_in_between_starts_the_count_again() -> None:
    breaker = Breaker()
    for number in range(3 * TRIPS_AT):
        how: Ended = "ok" if number % TRIPS_AT == 0 else "failed"
        breaker.ended(breaker.admit(number), how, number)
    assert breaker.state(99.0) == "closed"


def test_what_says_nothing_of_the_dependency_does_not_count() -> None:
    breaker = Breaker()
    for number in range(3 * TRIPS_AT):
        breaker.ended(breaker.admit(number), "unheard", number)
    assert breaker.failures == 0


def test_one_of_ten_at_once_is_the_probe_and_closes_it() -> None:
    breaker = broken()
    then = FIRST_PAUSE_S
    admitted = [breaker.admit(then) for _ in range(10)]
    assert admitted == [Pass(is_probe=True), *[Pass(wait_s=SOON_S)] * 9]
    breaker.ended(admitted[0], "ok", then)
    assert breaker.state(then) == "closed"
    assert breaker.admit(then) == Pass()


def test_a_probe_that_was_cut_makes_room_for_another_one() -> None:
    breaker = broken()
    breaker.ended(breaker.admit(FIRST_PAUSE_S), "unheard", FIRST_PAUSE_S)
    assert breaker.admit(FIRST_PAUSE_S).is_probe


def test_each_failed_probe_doubles_the_pause_up_to_the_longest() -> None:
    breaker, now, pauses = broken(), 0.0, list[float]()
    for _ in range(6):
        pauses.append(breaker.admit(now).wait_s)
        now += pauses[-1]
        breaker.ended(breaker.admit(now), "failed", now)
    assert pauses == [5.0, 10.0, 20.0, 40.0, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    assert breaker.trips == 1
    now += LONGEST_PAUSE_S
    breaker.ended(breaker.admit(now), "ok", now)
    for _ in range(TRIPS_AT):
        breaker.ended(breaker.admit(now), "failed", now)
    assert breaker.admit(now).wait_s == FIRST_PAUSE_S, "a new outage is met with a short pause"


def test_a_late_failure_of_a_call_from_before_neither_prolongs_nor_ends_a_probe() -> None:
    breaker = Breaker()
    early = breaker.admit(0.0)
    for _ in range(TRIPS_AT):
        breaker.ended(breaker.admit(0.0), "failed", 0.0)
    probe = breaker.admit(FIRST_PAUSE_S)
    breaker.ended(early, "failed", FIRST_PAUSE_S)
    assert breaker.admit(FIRST_PAUSE_S) == Pass(wait_s=SOON_S)
    breaker.ended(probe, "ok", FIRST_PAUSE_S)
    assert breaker.state(FIRST_PAUSE_S) == "closed"


STEPS = st.lists(
    st.tuples(st.floats(0.0, 30.0), st.sampled_from(("admit", "ok", "failed", "unheard"))),
    max_size=80,
)


@given(STEPS)
def test_whatever_happens_there_is_one_probe_and_nothing_else_while_it_is_not_closed(
    steps: list[tuple[float, str]],
) -> None:
    breaker, now, under_way = Breaker(), 0.0, list[Pass]()
    for later_s, what in steps:
        now += later_s
        before = breaker.state(now)
        if what == "admit":
            admitted = breaker.admit(now)
            assert (before == "open") <= (admitted.wait_s > 0.0)
            assert (before == "closed") <= (admitted == Pass())
            if not admitted.wait_s:
                under_way.append(admitted)
        elif under_way:
            breaker.ended(under_way.pop(0), what, now)  # pyright: ignore[reportArgumentType]
        assert sum(one.is_probe for one in under_way) <= 1
