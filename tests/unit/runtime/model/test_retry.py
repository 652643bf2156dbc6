"""The schedule of attempts: what is tried again, how often, and after how long."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messages.errors import ModelError
from runtime.model.port import FailureReason
from runtime.model.retry import ATTEMPTS, LONGEST_ASKED_S, pause_s

FOR_GOOD = {"model_unavailable", "spend_limit", "authentication", "unknown_model", "bad_request"}
PASSING = sorted(set(get_args(FailureReason)) - FOR_GOOD)


@pytest.mark.parametrize("reason", sorted(FOR_GOOD))
def test_what_cannot_pass_is_not_tried_again(reason: str) -> None:
    assert pause_s(ModelError(reason, "no", retry_after_s=1.0), 1, 0.5) is None


@pytest.mark.parametrize("reason", PASSING)
def test_four_attempts_and_no_more(reason: str) -> None:
    failure = ModelError(reason, "later")
    pauses = [pause_s(failure, failed, 1.0) for failed in range(1, ATTEMPTS + 1)]
    assert pauses == [0.5, 1.0, 2.0, None]


@given(st.integers(1, ATTEMPTS - 1), st.floats(0, 1, exclude_max=True), st.floats(0.001, 3600))
def test_the_whole_pause_is_left_to_chance_and_what_is_asked_for_is_a_minimum(
    failed: int, chance: float, asked: float
) -> None:
    own = pause_s(ModelError("overloaded", "later"), failed, chance)
    told = pause_s(ModelError("rate_limited", "later", retry_after_s=asked), failed, chance)
    assert own is not None
    assert told is not None
    assert 0.0 <= own <= 0.5 * 2 ** (failed - 1)
    assert told >= asked


def test_a_provider_that_wants_to_be_left_alone_for_hours_is_not_available() -> None:
    failure = ModelError("rate_limited", "much later", retry_after_s=LONGEST_ASKED_S + 1)
    assert pause_s(failure, 1, 0.5) is None
