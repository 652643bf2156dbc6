"""The refund example without processes: what its script says, its rule, its completion check."""

import json
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

from messages.parts import Evidence
from runtime.model.scripted import Turn, View
from treadle import Ctx, Draft, Request, allow, ask
from treadle.examples.refunds.app import Outcome, app, refund, settled
from treadle.examples.refunds.records import Refund
from treadle.examples.refunds.script import script
from treadle.examples.refunds.tools import always, over_limit, still_owed

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from treadle import Unmet
    from treadle.examples.refunds.shop import Shop

ORDER: dict[str, Any] = {
    "order_id": "X-1",
    "customer_id": "cust-1",
    "total_inr": 700,
    # The later capture comes first, so that a script that trusts the order of a list is caught.
    "payments": [
        {
            "payment_id": "late",
            "amount_inr": 700,
            "status": "captured",
            "at": "2026-10-20T09:00:39Z",
        },
        {
            "payment_id": "early",
            "amount_inr": 700,
            "status": "captured",
            "at": "2026-10-20T09:00:00Z",
        },
    ],
}
REFUND = Refund(
    refund_id="rf_1", status="pending", order_id="X-1", payment_id="late", amount_inr=700
)
MADE: dict[str, Any] = {"order_id": "X-1", "refunds": [msgspec.to_builtins(REFUND)]}
FOUND: dict[str, Any] = {"passages": []}
NONE: dict[str, Any] = {"order_id": "X-1", "refunds": []}


def view(
    *results: tuple[str, object],
    inputs: dict[str, Any] | None = None,
    goal: str = "",
    is_final: bool = False,
) -> View:
    """A conversation in which these tools answered, in this order; None is an error result."""
    messages: list[dict[str, Any]] = []
    for number, (tool, payload) in enumerate(results):
        use: dict[str, Any] = {"type": "tool_use", "id": f"t{number}", "name": tool, "input": {}}
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": f"t{number}"}
        result |= {"content": json.dumps({"data": payload}), "is_error": payload is None}
        messages.append({"role": "assistant", "content": [use]})
        messages.append({"role": "user", "content": [result]})
    return View(goal, inputs or {"order_id": "X-1"}, len(results), is_final, tuple(messages))


def said(turn: Turn) -> tuple[str, dict[str, Any]]:
    """The one call of a turn."""
    (block,) = turn.blocks
    return block["name"], block["input"]


# ---------------------------------------------------------------------------------- the script


def test_it_investigates_then_proposes_the_later_capture() -> None:
    seen: list[tuple[str, object]] = []
    for tool, result in (
        ("lookup_order", ORDER),
        ("get_refund_status", NONE),
        ("search_policy", FOUND),
    ):
        assert said(script(view(*seen)))[0] == tool
        seen.append((tool, result))
    assert said(script(view(*seen))) == (
        "issue_refund",
        {"order_id": "X-1", "payment_id": "late", "amount_inr": 700},
    )
    seen += [("issue_refund", MADE["refunds"][0])]
    look, tell = script(view(*seen)).blocks
    assert (look["name"], look["input"]) == ("get_refund_status", {"order_id": "X-1"})
    assert tell["name"] == "notify_customer"
    assert "rf_1" in tell["input"]["text"]
    seen += [("get_refund_status", MADE), ("notify_customer", {"notification_id": "msg_1"})]
    name, arguments = said(script(view(*seen)))
    assert name == "finish"
    assert refund.decode_output(arguments["output"]) is not None
    assert arguments["output"]["refund_id"] == "rf_1"


def test_its_first_steps_use_the_documented_tokens() -> None:
    results: list[tuple[str, object]] = [
        ("lookup_order", ORDER),
        ("get_refund_status", NONE),
        ("search_policy", FOUND),
    ]
    total, totals = 0, list[int]()
    for step in range(3):
        usage = script(view(*results[:step])).usage
        assert isinstance(usage, tuple)
        total += sum(usage)
        totals.append(total)
    assert totals == [1260, 2965, 5335]
    assert script(view(*results[:2])).usage == (2300, 70)


@pytest.mark.parametrize(
    ("inputs", "goal", "order_id"),
    [
        ({"order_id": "A-1"}, "Order 9 was charged twice", "A-1"),
        ({"order_id": 77}, "", "77"),
        ({"other": 1}, "Order small-3 was charged twice", "small-3"),
        ({"other": 1}, "My order was charged twice", "8472"),
    ],
)
def test_the_order_comes_from_the_inputs_then_the_goal(
    inputs: dict[str, Any], goal: str, order_id: str
) -> None:
    assert said(script(view(inputs=inputs, goal=goal))) == ("lookup_order", {"order_id": order_id})


def test_it_asks_about_an_order_that_it_cannot_read() -> None:
    name, arguments = said(script(view(("lookup_order", None))))
    assert name == "ask_user"
    assert "X-1" in arguments["question"]


def test_it_promises_nothing_when_there_is_no_refund() -> None:
    refused = (
        ("lookup_order", ORDER),
        ("get_refund_status", NONE),
        ("search_policy", FOUND),
        ("issue_refund", None),
        ("get_refund_status", NONE),
    )
    assert said(script(view(*refused)))[0] == "give_up"
    (block,) = script(view(*refused, is_final=True)).blocks
    assert block["text"] == ("Order X-1: refunds on record: none. The customer was not told yet.")


# ------------------------------------------------------------------------- rule and completion


@dataclass(frozen=True)
class Limit:
    value: int
    source: str


@dataclass(frozen=True)
class Policy:
    limits: dict[str, Limit]
    version: str = "1"


def request() -> Request:
    """What a rule gets under the policy.toml that ships beside the app."""
    written = tomllib.loads(files("treadle.examples.refunds").joinpath("policy.toml").read_text())
    return Request(Policy({name: Limit(**limit) for name, limit in written["limits"].items()}))


def test_the_limit_of_the_policy_decides_who_is_asked() -> None:
    req = request()
    assert over_limit(req, "8472", "pay_5a2", 1000) == allow()
    assert over_limit(req, "8472", "pay_5a2", 1001) == ask(
        "support-lead", "above the automatic limit", size=1001
    )
    assert req.read == ["refund.auto_inr"]
    assert always(req, "8472", "t", "x") == allow()
    assert req.policy.limits["refund.auto_inr"].source == "POL-REF-004 v4 3.2"


def draft(
    *results: tuple[str, object], refund_id: str = "rf_1", amount: int = 700
) -> Draft[Outcome]:
    """Recorded results and a claim."""
    evidence = tuple(
        Evidence(id=f"ev-{n}", tool=tool, request_id=f"r{n}", fetched_at=0, source="", payload=data)
        for n, (tool, data) in enumerate(results)
    )
    output = Outcome(order_id="X-1", refund_id=refund_id, amount_inr=amount, explanation="x")
    return Draft(output, evidence)


TOLD = (
    "notify_customer",
    {
        "notification_id": "msg_1",
        "status": "sent",
        "order_id": "X-1",
        "template": "refund-created",
        "text": "x",
    },
)


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (draft(TOLD), "no refund evidence"),
        (draft(("get_refund_status", NONE), TOLD), "no refund evidence"),
        (draft(("get_refund_status", MADE), ("get_refund_status", NONE), TOLD), "no refund ev"),
        (draft(("get_refund_status", MADE)), "customer has not been notified"),
        (draft(("get_refund_status", MADE), TOLD, refund_id="rf_2"), "no recorded refund"),
        (draft(("get_refund_status", MADE), TOLD, amount=2000), "recorded refund is over 700"),
        (
            draft(
                (
                    "get_refund_status",
                    {"order_id": "X-1", "refunds": [MADE["refunds"][0] | {"status": "failed"}]},
                ),
                TOLD,
            ),
            "refund status is failed",
        ),
    ],
)
def test_a_claim_without_its_record_is_no_success(case: Draft[Outcome], why: str) -> None:
    unmet = settled(case)
    assert unmet is not None
    assert why in unmet.why


def test_a_recorded_refund_and_a_told_customer_are_success() -> None:
    assert settled(draft(("get_refund_status", MADE), TOLD)) is None


# -------------------------------------------------------------------------------------- the app


def test_the_app_declares_what_the_documented_trace_needs() -> None:
    spec = app.specs["refund"]
    assert {tool.name: (tool.effect, tool.scope, tool.source, tool.key) for tool in spec.tools} == {
        "lookup_order": ("read", "orders:read", "payments-service", None),
        "get_refund_status": ("read", "refunds:read", "refunds-service", None),
        "search_policy": ("read", "policy:read", "policy-store", None),
        "issue_refund": (
            "replay",
            "refunds:write",
            "refunds-service",
            "refund:order-{order_id}:{payment_id}:v1",
        ),
        "notify_customer": (
            "replay",
            "notifications:write",
            "notifications-service",
            "notify:order-{order_id}:{template}:v1",
        ),
    }
    assert (spec.limits.max_steps, spec.limits.max_tokens, spec.limits.max_seconds) == (
        8,
        40_000,
        120,
    )
    assert spec.limits.max_cost_microusd == 500_000
    assert app.script is script


class _Shop:
    """Answers by identifier, as the service does."""

    def __init__(self, found: Refund | None) -> None:
        self.found = found

    async def refund_of(self, order_id: str, payment_id: str) -> Refund | None:
        assert (order_id, payment_id) == ("X-1", "late")
        return self.found


@pytest.mark.parametrize("found", [None, REFUND])
async def test_a_payment_is_refunded_only_while_it_has_no_refund(found: Refund | None) -> None:
    ctx = Ctx(cast("Shop", cast("object", _Shop(found))))
    asked = still_owed(ctx, "X-1", "late", 700)
    unmet = await cast("Awaitable[Unmet | None]", asked)
    assert (unmet is None) == (found is None)
    assert unmet is None or "rf_1, pending" in unmet.why
