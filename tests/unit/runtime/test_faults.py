import pytest

from runtime.faults import POINTS, arm, armed, fault


def test_nothing_happens_where_nothing_is_armed() -> None:
    for point in POINTS:
        fault(point)


def test_a_hook_is_called_at_each_point_until_its_block_is_left() -> None:
    seen: list[str] = []
    with armed(seen.append):
        fault("executor.after_effect")
        fault("planner.before_model")
    fault("executor.after_effect")
    assert seen == ["executor.after_effect", "planner.before_model"]


def test_a_hook_may_break_the_code_that_passes() -> None:
    def broken(point: str) -> None:
        raise OSError(point)

    with armed(broken), pytest.raises(OSError, match=r"planner\.after_model"):
        fault("planner.after_model")


def test_what_is_armed_for_good_is_called_beside_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.faults._hooks", [])
    first: list[str] = []
    second: list[str] = []
    arm(first.append)
    with armed(second.append):
        fault("notifier.before_notify")
    assert first == second == ["notifier.before_notify"]
