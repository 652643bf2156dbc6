"""When a model call that failed is tried again: the schedule and what it depends on.

Pure. The planner owns it, as the only retry layer of model calls; the orchestrator pays for each
attempt before it is made. An attempt costs time and tokens of its run, and no step.

Source: REQUIREMENTS.md A20 (base 0.5 s, four attempts, full jitter); research/sdk-facts.md 1.5.
"""

from typing import Final

from messages.errors import ModelError
from runtime.breaker import Ended

ATTEMPTS: Final = 4
"""Of one step, the first one included."""
BASE_S: Final = 0.5
LONGEST_ASKED_S: Final = 7 * 86_400.0
"""The run is parked for as long as the provider asks, which costs nothing; who wants to be left
alone for longer than this is not available."""
_MAY_PASS: Final = frozenset(
    {
        "overloaded",
        "rate_limited",
        "provider_error",
        "timeout",
        "connection",
        "incomplete",
        "garbled",
    }
)
"""Failures that may be over the next time. A spend limit, a key that is wrong and a request that
the provider does not take are not among them, nor what failed before anybody was asked."""


_OF_OURS: Final = frozenset({"bad_request", "unknown_model", "model_unavailable"})
"""Failures that say nothing of the provider: another request may well be answered."""


def heard(failure: ModelError) -> Ended:
    """What a failed attempt tells the breaker of its provider."""
    return "unheard" if failure.reason in _OF_OURS else "failed"


def pause_s(failure: ModelError, failed: int, chance: float) -> float | None:
    """Seconds until the next attempt of the step; None: there is none.

    Args:
        failure: of the newest attempt.
        failed: attempts of this step that have failed, that one included.
        chance: from 0 up to 1; the whole pause is left to it, so that runs that failed together
            do not come back together.
    """
    if failed >= ATTEMPTS or failure.reason not in _MAY_PASS:
        return None
    asked = failure.retry_after_s or 0.0
    if asked > LONGEST_ASKED_S:
        return None
    own = chance * BASE_S * 2.0 ** (failed - 1)
    return asked + own
