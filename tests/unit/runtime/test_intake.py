"""What may become a run: each way a task can be wrong, and what a right one gets."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from messages.errors import BadTask, TreadleError
from messages.parts import Limits
from messages.subjects import TaskAddress
from messages.task import Refusal, Task, TaskLimits
from runtime.intake import (
    Admitted,
    admit,
    code_of,
    continued_run_id,
    dead_letter,
    derived_run_id,
    effective_limits,
    lenient,
    parse_task,
    tenant_of,
    trace_of,
)
from runtime.intake.ceilings import lowered
from runtime.intake.letters import MAX_LETTER_BYTES
from runtime.intake.values import MAX_GOAL_BYTES, MAX_LABELS
from runtime.settings import Budgets, Principal, Settings, Tenant
from tests.journals import SPEC

ADDRESS = TaskAddress("default", "submitter", "refund")
AGENTS = {"refund": SPEC}
TENANTS = Settings(
    tenants={
        "acme": Tenant(
            scopes=("orders:read", "refunds:write"),
            principals={"shop": Principal(scopes=("orders:read",)), "desk": Principal()},
            budgets=Budgets(max_steps=4),
        )
    }
)


def take(
    payload: dict[str, Any], address: TaskAddress = ADDRESS, settings: Settings | None = None
) -> Admitted:
    task = parse_task(msgspec.json.encode(payload))
    return admit(task, address, AGENTS, settings or Settings())


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("no goal", {}, "BAD_TASK", "goal"),
    ("empty goal", {"goal": "  "}, "BAD_TASK", "empty"),
    ("goal too long", {"goal": "é" * (MAX_GOAL_BYTES // 2 + 1)}, "BAD_TASK", "limit"),
    ("goal is a number", {"goal": 1}, "BAD_TASK", "str"),
    ("NUL in goal", {"goal": "a\x00b"}, "BAD_TASK", "NUL"),
    ("unknown field", {"goal": "g", "scopes": ["all"]}, "BAD_TASK", "scopes"),
    ("inputs a list", {"goal": "g", "inputs": [1]}, "BAD_TASK", "inputs"),
    ("inputs too large", {"goal": "g", "inputs": {"a": "x" * 300_000}}, "BAD_TASK", "bytes"),
    ("inputs too deep", {"goal": "g", "inputs": {"a": nested(40)}}, "BAD_TASK", "deeper"),
    ("NUL inside", {"goal": "g", "inputs": {"a": ["b\x00"]}}, "BAD_TASK", "NUL"),
    ("huge integer", {"goal": "g", "inputs": {"a": 2**63}}, "BAD_TASK", "64 bits"),
    ("run id", {"goal": "g", "run_id": "a.b"}, "BAD_IDENTIFIER", "run"),
    ("empty run id", {"goal": "g", "run_id": ""}, "BAD_IDENTIFIER", "run"),
    ("run id newline", {"goal": "g", "run_id": "a\n"}, "BAD_IDENTIFIER", "run"),
    ("too many labels", {"goal": "g", "labels": {str(n): "" for n in range(MAX_LABELS + 1)}},
     "BAD_TASK", "labels"),
    ("label value a number", {"goal": "g", "labels": {"a": 1}}, "BAD_TASK", "str"),
    ("label too long", {"goal": "g", "labels": {"a": "x" * 257}}, "BAD_TASK", "label"),
    ("steps above", {"goal": "g", "limits": {"max_steps": 9}}, "NOT_ALLOWED", "ceiling"),
    ("tokens above", {"goal": "g", "limits": {"max_tokens": 40_001}}, "NOT_ALLOWED", "40000"),
    ("seconds above", {"goal": "g", "limits": {"max_seconds": 121}}, "NOT_ALLOWED", "120"),
    ("no steps", {"goal": "g", "limits": {"max_steps": 0}}, "BAD_TASK", "more than 0"),
    ("negative", {"goal": "g", "limits": {"max_seconds": -1}}, "BAD_TASK", "more than 0"),
    ("usd a float", {"goal": "g", "limits": {"max_usd": 0.5}}, "BAD_TASK", "str"),
    ("usd no amount", {"goal": "g", "limits": {"max_usd": "-1"}}, "BAD_TASK", "max_usd"),
    ("usd zero", {"goal": "g", "limits": {"max_usd": "0"}}, "BAD_TASK", "max_usd"),
    ("unknown limit", {"goal": "g", "limits": {"steps": 3}}, "BAD_TASK", "steps"),
    ("foreign reply_to", {"goal": "g", "reply_to": "treadle.replies.default.other.x"},
     "NOT_ALLOWED", "reply_to"),
    ("reply_to a wildcard", {"goal": "g", "reply_to": "treadle.replies.default.submitter.>"},
     "NOT_ALLOWED", "reply_to"),
    ("reply_to an inbox", {"goal": "g", "reply_to": "_INBOX.x"}, "NOT_ALLOWED", "reply_to"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("payload", "code", "word"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_each_wrong_task_has_its_code(payload: dict[str, Any], code: str, word: str) -> None:
    with pytest.raises(TreadleError) as caught:
        take(payload)
    assert code_of(caught.value) == code
    assert word in caught.value.message


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b'{"goal": NaN}', b'{"goal":"\xff"}', b'{"goal":"\\ud800"}',
     b"[" * 5000 + b"]" * 5000, b'{"goal":"g","inputs":{"a":1e999}}'],
)  # fmt: skip
def test_bytes_that_are_no_task(data: bytes) -> None:
    with pytest.raises(BadTask):
        parse_task(data)


def test_an_unknown_agent() -> None:
    with pytest.raises(TreadleError) as caught:
        take({"goal": "g"}, TaskAddress("default", "submitter", "nobody"))
    assert code_of(caught.value) == "NOT_FOUND"
    assert "refund" in caught.value.hint


@pytest.mark.parametrize(("tenant", "principal"), [("other", "shop"), ("acme", "stranger")])
def test_a_tenant_or_principal_that_is_not_configured(tenant: str, principal: str) -> None:
    with pytest.raises(TreadleError) as caught:
        take({"goal": "g"}, TaskAddress(tenant, principal, "refund"), TENANTS)
    assert code_of(caught.value) == "NOT_ALLOWED"


def test_scopes_come_from_configuration() -> None:
    assert take({"goal": "g"}).scopes == ("orders:read", "refunds:write")
    shop = take({"goal": "g"}, TaskAddress("acme", "shop", "refund"), TENANTS)
    desk = take({"goal": "g"}, TaskAddress("acme", "desk", "refund"), TENANTS)
    assert shop.scopes == ("orders:read",)
    assert desk.scopes == ("orders:read", "refunds:write")


def test_a_task_lowers_limits_below_the_ceiling_of_agent_and_tenant() -> None:
    assert take({"goal": "g"}).limits == SPEC.limits
    asked = {"goal": "g", "limits": {"max_steps": 2, "max_usd": "0.25"}}
    admitted = take(asked)
    assert admitted.limits == replace(SPEC.limits, max_steps=2, max_cost_microusd=250_000)
    tenant = take({"goal": "g"}, TaskAddress("acme", "desk", "refund"), TENANTS)
    assert tenant.limits.max_steps == 4


def test_the_money_ceiling_of_an_agent_holds() -> None:
    ceiling = Limits(max_cost_microusd=500_000)
    assert effective_limits(ceiling, TaskLimits(max_usd="0.50")).max_cost_microusd == 500_000
    with pytest.raises(TreadleError, match="ceiling"):
        effective_limits(ceiling, TaskLimits(max_usd="0.500001"))


limits = st.builds(
    Limits,
    max_steps=st.integers(1, 50),
    max_tokens=st.integers(1, 10**6),
    max_cost_microusd=st.none() | st.integers(1, 10**9),
    max_seconds=st.floats(1, 1e4),
)
asked_limits = st.builds(
    TaskLimits,
    max_steps=st.none() | st.integers(-1, 60),
    max_tokens=st.none() | st.integers(-1, 10**6),
    max_usd=st.none() | st.sampled_from(["0", "0.01", "1", "999"]),
    max_seconds=st.none() | st.floats(-1, 1e4),
)


@given(ceiling=limits, asked=asked_limits)
def test_no_task_ever_gets_more_than_the_ceiling(ceiling: Limits, asked: TaskLimits) -> None:
    try:
        got = effective_limits(ceiling, asked)
    except TreadleError:
        return
    assert 0 < got.max_steps <= ceiling.max_steps
    assert 0 < got.max_tokens <= ceiling.max_tokens
    assert 0 < got.max_seconds <= ceiling.max_seconds
    if ceiling.max_cost_microusd is not None:
        assert got.max_cost_microusd is not None
        assert 0 < got.max_cost_microusd <= ceiling.max_cost_microusd


@given(ceiling=limits)
def test_configured_budgets_only_lower(ceiling: Limits) -> None:
    got = lowered(ceiling, Budgets(max_steps=10, max_usd="1.00"))
    assert got.max_steps == min(ceiling.max_steps, 10)
    assert got.max_tokens == ceiling.max_tokens
    assert got.max_cost_microusd == min(ceiling.max_cost_microusd or 10**6, 10**6)


# ------------------------------------------------------------------ names and letters
def test_a_derived_run_id_is_stable_and_differs_by_stream_place_and_payload() -> None:
    ids = {
        derived_run_id("2026-01-01", 7, b"{}"),
        derived_run_id("2026-01-02", 7, b"{}"),
        derived_run_id("2026-01-01", 8, b"{}"),
        derived_run_id("2026-01-01", 7, b"{ }"),
    }
    assert len(ids) == 4
    assert derived_run_id("2026-01-01", 7, b"{}") in ids
    assert continued_run_id("run-1", "q-1") != continued_run_id("run-1", "q-2")


@pytest.mark.parametrize(
    ("value", "trace"),
    [
        ("00-" + "ab" * 16 + "-" + "cd" * 8 + "-01", "ab" * 16),
        ("00-" + "0" * 32 + "-" + "cd" * 8 + "-01", None),
        ("00-AB" + "ab" * 15 + "-" + "cd" * 8 + "-01", None),
        ("nonsense", None),
    ],
)
def test_traceparent(value: str, trace: str | None) -> None:
    found = trace_of({"Traceparent": value})
    assert (found.trace_id if found else None) == trace


def test_a_refused_task_is_answered_only_inside_its_own_place() -> None:
    data = b'{"goal":1,"run_id":"r-1","reply_to":"treadle.replies.default.submitter.a"}'
    assert lenient(data, ADDRESS) == ("r-1", "treadle.replies.default.submitter.a")
    assert lenient(data, TaskAddress("default", "other", "refund")) == ("r-1", None)
    assert lenient(data, None) == ("r-1", None)
    assert lenient(b"no json", ADDRESS) == (None, None)


@pytest.mark.parametrize(
    ("data", "encoding"),
    [(b'{"goal":1}', "text"), (b"\xff\x00", "base64"), (b"\x01" * 99, "base64")],
)
def test_a_letter_keeps_the_payload(data: bytes, encoding: str) -> None:
    letter = dead_letter(
        Refusal(code="BAD_TASK", message="m"),
        subject="treadle.tasks.default.submitter.refund",
        data=data,
        deliveries=1,
        sequence=4,
        at=0.0,
    )
    assert (letter.encoding, letter.is_cut, letter.payload_bytes) == (encoding, False, len(data))


def test_a_large_letter_is_cut_and_says_so() -> None:
    data = b"\x01" * (MAX_LETTER_BYTES * 3)
    letter = dead_letter(
        Refusal(code="BAD_TASK", message="m"),
        subject="s",
        data=data,
        deliveries=1,
        sequence=4,
        at=0.0,
    )
    assert letter.is_cut
    assert letter.payload_bytes == len(data)
    assert len(msgspec.json.encode(letter)) < 400_000


def test_the_tenant_of_a_letter() -> None:
    assert tenant_of("treadle.tasks.acme.shop.refund") == "acme"
    assert tenant_of("treadle.tasks.a b.shop.refund") == "_"
    assert tenant_of("x") == "_"


def test_limits_may_be_left_out_one_by_one() -> None:
    task = Task(goal="g", limits=TaskLimits(max_seconds=30))
    admitted = admit(task, ADDRESS, AGENTS, Settings())
    assert admitted.limits == replace(SPEC.limits, max_seconds=30)
