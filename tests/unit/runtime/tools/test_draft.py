"""What ``done`` may look at: recorded results of calls that ended ok, as typed values."""

from typing import Any

import pytest
from msgspec import Struct

from messages.parts import Evidence, Identity, Limits
from messages.state import LoopState, ToolRecord
from runtime.tools.declare import Ctx, read
from runtime.tools.draft import Draft, draft_of


class Order(Struct):
    id: str
    tags: set[str] = set()


@read
async def lookup(ctx: Ctx[None], order_id: str) -> Order:
    """Look up."""
    return Order(order_id)


@read
async def check(ctx: Ctx[None]) -> None:
    """Check."""


def evidence(number: int, tool: str, payload: Any, ref: str | None = None) -> Evidence:
    return Evidence(
        id=f"ev-{number}",
        tool=tool,
        request_id="req",
        fetched_at=0.0,
        source="s",
        payload=payload,
        ref=ref,
    )


SEEN = (
    evidence(1, "lookup", {"id": "1"}),
    evidence(2, "check", None),
    evidence(3, "lookup", {"id": "2", "tags": ["a"]}),
)


def test_results_are_typed() -> None:
    draft = Draft("out", SEEN)
    assert draft.results(lookup) == [Order("1"), Order("2", {"a"})]
    assert draft.latest(lookup) == Order("2", {"a"})
    assert draft.results("lookup") == [{"id": "1"}, {"id": "2", "tags": ["a"]}]
    assert draft.latest("lookup") == {"id": "2", "tags": ["a"]}
    assert draft.output == "out"


def test_what_was_not_called() -> None:
    draft = Draft(None, SEEN[:2])
    assert draft.results("refund") == []
    assert draft.latest("refund") is None
    assert [draft.executed(each) for each in ("refund", "check", check, lookup)] == [
        False,
        True,
        True,
        True,
    ]


def test_a_result_of_another_type_is_an_error() -> None:
    with pytest.raises(ValueError, match="recorded result of read tool 'lookup'"):
        Draft(None, (evidence(1, "lookup", [1]),)).latest(lookup)


def state(*seen: Evidence, outcomes: dict[str, Any]) -> LoopState:
    return LoopState(
        tenant="default",
        run_id="run-1",
        trace_id="t",
        agent="a",
        agent_code="c",
        identity=Identity(tenant="default", principal="ann"),
        goal="g",
        limits=Limits(),
        created_at=0.0,
        updated_at=0.0,
        evidence=seen,
        tool_history=tuple(
            ToolRecord(step=1, tool="lookup", args_hash="h", outcome=outcome, evidence_id=number)
            for number, outcome in outcomes.items()
        ),
    )


def test_only_calls_that_ended_ok_count() -> None:
    folded = state(*SEEN, outcomes={"ev-1": "error", "ev-3": "ok"})
    assert draft_of(folded, None).results(lookup) == [Order("2", {"a"})]


def test_large_payloads_come_from_the_artifacts() -> None:
    folded = state(evidence(1, "lookup", None, ref="abc"), outcomes={"ev-1": "ok"})
    draft = draft_of(folded, None, {"abc": {"id": "9"}}.__getitem__)
    assert draft.latest(lookup) == Order("9")
    with pytest.raises(LookupError, match="ev-1 is in the artifacts"):
        draft_of(folded, None)
