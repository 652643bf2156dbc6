"""Who may be driven when one of several runs kills its owners."""

from actors.orchestrator.suspects import RunKey, Suspects

A, B, C = ("t", "a"), ("t", "b"), ("t", "c")


class Starting:
    """Starts what it is told, but for those it refuses."""

    def __init__(self, *refused: RunKey) -> None:
        self.refused = refused
        self.started: list[RunKey] = []

    def __call__(self, key: RunKey) -> bool:
        if key in self.refused:
            return False
        self.started.append(key)
        return True


def test_a_run_is_one_while_it_may_not_lose_another_owner() -> None:
    assert [Suspects(3).is_one(deaths) for deaths in (0, 1, 2, 3)] == [False, False, True, True]
    assert [Suspects(1).is_one(deaths) for deaths in (0, 1)] == [False, True]


def test_one_has_the_turn_until_it_is_cleared() -> None:
    suspects, start = Suspects(3), Starting()
    suspects.line_up([A, B])
    suspects.start(start)
    suspects.line_up([B, C])
    suspects.start(start)
    suspects.clear(B)
    suspects.start(start)
    assert (start.started, len(suspects)) == ([A], 2)
    suspects.clear(A)
    suspects.start(start)
    assert (start.started, len(suspects)) == ([A, B], 1)


def test_what_does_not_start_has_no_turn() -> None:
    suspects, start = Suspects(3), Starting(A)
    suspects.line_up([A, B])
    suspects.start(start)
    assert start.started == [B]
