"""The table of statuses: what is legal, what raises, and that the end is the end."""

import itertools

import pytest

from messages.errors import IllegalTransition
from messages.status import SUSPENDED, TERMINAL, Reason, Status
from runtime.loop.transitions import DOCUMENT_STATES, LEGAL, REASONS, change

REASON = {status: next(iter(reasons)) for status, reasons in REASONS.items()}


@pytest.mark.parametrize(("old", "new"), list(itertools.product(Status, Status)))
def test_every_pair_is_legal_or_raises(old: Status, new: Status) -> None:
    reason = REASON.get(new, "")
    if new in LEGAL[old]:
        assert change("r", old, new, reason) is new
        return
    with pytest.raises(IllegalTransition):
        change("r", old, new, reason)


def test_the_end_is_the_end() -> None:
    assert all(LEGAL[status] == frozenset() for status in TERMINAL)


def test_a_suspended_run_runs_again_before_it_ends() -> None:
    for status in SUSPENDED:
        assert Status.RUNNING in LEGAL[status]
        assert not LEGAL[status] & TERMINAL
        assert status in LEGAL[status], "a wait may be confirmed by an entry that names a signal"


def test_only_a_pause_replaces_another_wait() -> None:
    for old, new in itertools.permutations(SUSPENDED, 2):
        assert (new in LEGAL[old]) is (new is Status.PAUSED)


@pytest.mark.parametrize(("status", "reason"), list(itertools.product(sorted(TERMINAL), Reason)))
def test_a_terminal_status_has_its_own_reasons(status: Status, reason: Reason) -> None:
    if reason in REASONS[status]:
        assert change("r", Status.RUNNING, status, reason) is status
        return
    with pytest.raises(IllegalTransition):
        change("r", Status.RUNNING, status, reason)


def test_each_reason_of_an_end_belongs_to_one_status() -> None:
    owned = list(itertools.chain.from_iterable(REASONS.values()))
    assert len(owned) == len(set(owned))
    assert set(REASONS) == TERMINAL
    budgets = {reason for reason in Reason if reason.is_budget}
    assert budgets == REASONS[Status.BUDGET_EXHAUSTED]
    assert {reason for reason in Reason if reason.is_success} == REASONS[Status.SUCCEEDED]


def test_nothing_becomes_queued() -> None:
    assert all(Status.QUEUED not in after for after in LEGAL.values())
    assert set(LEGAL) == set(Status)


def test_the_documents_states_map_onto_real_ones() -> None:
    mapped = set(itertools.chain.from_iterable(DOCUMENT_STATES.values()))
    assert mapped <= set(Status)
