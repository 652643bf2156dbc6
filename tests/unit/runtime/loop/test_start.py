"""Version 0 of a run: its creation and the reservation of step 1, or its immediate end."""

from typing import Any

import pytest
from msgspec.structs import replace

from messages.agent import AgentSpec
from messages.events import Finished, RunCreated, StepReserved
from messages.parts import Limits
from messages.status import Reason, Status
from runtime.loop.start import first_entry
from tests.unit.runtime.loop.tales import SPEC, T0


def entry(spec: AgentSpec = SPEC, **given: Any) -> Any:
    given = {
        "tenant": "t",
        "run_id": "r",
        "principal": "p",
        "scopes": ("a",),
        "goal": "goal",
        "inputs": {},
        "labels": {"k": "v"},
        "limits": spec.limits,
        "trace_id": "trace",
        "now": T0,
        **given,
    }
    return first_entry(spec, **given)


def test_a_run_is_born_with_its_first_step_paid() -> None:
    events, row = entry(reply_to="somewhere", continues="r0")
    created, reserved = events
    assert isinstance(created, RunCreated)
    assert isinstance(reserved, StepReserved)
    assert (created.identity.principal, created.identity.scopes) == ("p", ("a",))
    assert (created.agent, created.agent_code, created.created_at) == ("agent", "c0de", T0)
    assert (created.reply_to, created.continues, created.labels) == ("somewhere", "r0", {"k": "v"})
    assert (reserved.reservation.step, reserved.reservation.take_id) == (1, "")
    assert (row.status, row.step_count) == (Status.RUNNING, 0)


def test_long_inputs_make_the_first_step_dearer() -> None:
    small = entry()[0][1].reservation.most.tokens
    large = entry(inputs={"mail": "x" * 5_000})[0][1].reservation.most.tokens
    assert large - small >= 5_000


@pytest.mark.parametrize(
    ("limits", "status", "reason"),
    [
        (Limits(max_tokens=3_000), Status.BUDGET_EXHAUSTED, Reason.MAX_TOKENS),
        (Limits(max_steps=0), Status.BUDGET_EXHAUSTED, Reason.MAX_STEPS),
        (Limits(max_cost_microusd=10**6), Status.FAILED, Reason.UNPRICED_MODEL),
    ],
)
def test_a_run_that_cannot_begin_ends_at_once(
    limits: Limits, status: Status, reason: Reason
) -> None:
    events, row = entry(replace(SPEC, limits=limits))
    assert isinstance(events[1], Finished)
    assert (events[1].status, events[1].reason) == (status, reason)
    assert (row.status, row.reason) == (status, reason)
