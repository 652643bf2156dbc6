"""Statuses and reasons, as everything above reads them."""

from messages.status import SUSPENDED, TERMINAL, Reason, Status


def test_a_status_is_open_or_suspended_or_terminal() -> None:
    assert not SUSPENDED & TERMINAL
    assert set(Status) - SUSPENDED - TERMINAL == {Status.QUEUED, Status.RUNNING}
    for status in Status:
        assert status.is_terminal == (status in TERMINAL)
        assert status.is_suspended == (status in SUSPENDED)


def test_names_are_their_values() -> None:
    assert all(status.value == status.name for status in Status)
    assert all(reason.value == reason.name.lower() for reason in Reason)


def test_a_budget_reason_is_no_success() -> None:
    budgets = {reason for reason in Reason if reason.is_budget}
    successes = {reason for reason in Reason if reason.is_success}
    assert budgets == {r for r in Reason if r.value.startswith("max_")}
    assert successes == {Reason.VERIFIED, Reason.UNVERIFIED}
