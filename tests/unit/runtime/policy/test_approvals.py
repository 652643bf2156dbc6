"""Who may approve, what an approval still allows, and what an approver is shown."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from messages.authority import Verdict
from messages.canon import action_hash, canonical
from messages.ledger import ApprovalRow
from messages.parts import Action
from runtime.policy.approvals import entitlement, use_problem
from runtime.policy.package import Origin, approval_package, visible
from runtime.settings import Group, Limit, Policy
from runtime.tools.declare import Ctx, write

GROUPS = {
    "support-lead": Group(members=("lea", "sam"), max_size=5000),
    "finance": Group(members=("fin",)),
    "nobody": Group(),
}


@pytest.mark.parametrize(
    ("person", "group", "size", "groups", "code"),
    [
        ("lea", "support-lead", 5000, GROUPS, None),
        ("lea", "support-lead", 0, GROUPS, None),
        ("lea", "support-lead", 5001, GROUPS, "ABOVE_GROUP_LIMIT"),
        ("lea", "support-lead", None, GROUPS, "SIZE_UNKNOWN"),
        ("fin", "finance", 10**9, GROUPS, None),
        ("fin", "finance", None, GROUPS, None),
        ("fin", "support-lead", 1, GROUPS, "NOT_A_MEMBER"),
        ("Lea", "support-lead", 1, GROUPS, "NOT_A_MEMBER"),
        ("lea", "nobody", 1, GROUPS, "NOT_A_MEMBER"),
        ("lea", "approvers", 1, GROUPS, "UNKNOWN_GROUP"),
        ("lea", "support-lead", 1, {}, "UNKNOWN_GROUP"),
        ("ann", "support-lead", 1, GROUPS, "OWN_REQUEST"),
        ("ann", "support-lead", 1, None, "OWN_REQUEST"),
        ("anybody", "support-lead", 10**9, None, None),
    ],
)
def test_entitlement(
    person: str, group: str, size: int | None, groups: Any, code: str | None
) -> None:
    problem = entitlement(person, requester="ann", group=group, size=size, groups=groups)
    assert (problem and problem.code) == code


HASH = "abcdef012345" + "0" * 52
PENDING = ApprovalRow(
    tenant="default",
    id="apr-1",
    run_id="run-1",
    principal="ann",
    step=4,
    ordinal=0,
    tool="issue_refund",
    action_hash=HASH,
    key="k:1",
    group="support-lead",
    size=2499,
    requested_at=0.0,
    expires_at=100.0,
)


APPROVED = replace(PENDING, state="approved", person="lea")
ACTION = Action(ordinal=0, tool="issue_refund", arguments={}, key="k:1", action_hash=HASH)
ASK = Verdict(ordinal=0, decision="ask", group="support-lead", size=2499)
USE: dict[str, Any] = {"tenant": "default", "run_id": "run-1", "step": 4, "now": 99.9}


@pytest.mark.parametrize(
    ("row", "action", "verdict", "use", "code"),
    [
        ({}, {}, {}, {}, None),
        (None, {}, {}, {}, "NO_APPROVAL"),
        ({}, {}, {}, {"tenant": "other"}, "OTHER_RUN"),
        ({}, {}, {}, {"run_id": "run-2"}, "OTHER_RUN"),
        ({"state": "pending"}, {}, {}, {}, "NOT_APPROVED"),
        ({"state": "denied"}, {}, {}, {}, "NOT_APPROVED"),
        ({"state": "expired"}, {}, {}, {}, "NOT_APPROVED"),
        ({"state": "void"}, {}, {}, {}, "NOT_APPROVED"),
        ({}, {}, {}, {"now": 100.0}, "EXPIRED"),
        ({}, {}, {}, {"step": 5}, "OTHER_ACTION"),
        ({}, {"ordinal": 1}, {}, {}, "OTHER_ACTION"),
        ({}, {"tool": "notify"}, {}, {}, "OTHER_ACTION"),
        ({}, {"action_hash": "b" * 64}, {}, {}, "HASH_MISMATCH"),
        ({}, {"key": "k:2"}, {}, {}, "HASH_MISMATCH"),
        ({"person": "ann"}, {}, {}, {}, "OWN_REQUEST"),
        ({"person": "former"}, {}, {}, {}, "NOT_A_MEMBER"),
        ({"person": ""}, {}, {}, {}, "NOT_A_MEMBER"),
        ({}, {}, {"size": 9000}, {}, "ABOVE_GROUP_LIMIT"),
        ({}, {}, {"group": "finance"}, {}, "NOT_A_MEMBER"),
    ],
)
def test_using(row: Any, action: Any, verdict: Any, use: Any, code: str | None) -> None:
    problem = use_problem(
        None if row is None else replace(APPROVED, **row),
        replace(ACTION, **action),
        replace(ASK, **verdict),
        groups=GROUPS,
        **(USE | use),
    )
    assert (problem and problem.code) == code


def test_the_package_shows_what_was_hashed_and_nothing_the_model_said() -> None:
    @write(key="refund:{order_id}:v1", source="refunds-service")
    async def issue_refund(ctx: Ctx[None], order_id: str, amount_inr: int, note: str) -> int:
        """Refund one captured payment in full."""
        return amount_inr

    arguments = {"order_id": "8472", "amount_inr": 2499, "note": "safe\u202eevil\u200b\n"}
    action = Action(
        ordinal=0,
        tool="issue_refund",
        arguments=arguments,
        key="refund:8472:v1",
        action_hash=action_hash("issue_refund", arguments, "refund:8472:v1"),
    )
    verdict = Verdict(
        ordinal=0, decision="ask", rule="over_limit", why="above", group="support-lead", size=2499
    )
    policy = Policy(
        version="v7",
        limits={"refund.auto_inr": Limit(value=1000, source="POL-REF-004 v4 3.2")},
    )
    origin = Origin(
        tenant="default",
        run_id="run-1",
        agent="refund",
        principal="ann",
        goal="refund\u202e 8472",
        expires_at=100.0,
    )
    package = approval_package(
        origin, issue_refund, action, verdict, policy, ("refund.auto_inr", "gone")
    )
    assert package["action"]["arguments"] == arguments
    assert package["action"]["shown"] == [
        "amount_inr = 2499",
        'note = "safe\\u202eevil\\u200b\\n"',
        'order_id = "8472"',
    ]
    assert package["action"]["hash"] == action.action_hash
    assert package["action"]["effect"] == "blind"
    assert package["requested"]["goal"] == "refund\\u202e 8472"
    assert package["decision"]["limits"] == [
        {"name": "refund.auto_inr", "value": 1000, "source": "POL-REF-004 v4 3.2"},
        {"name": "gone", "value": None, "source": "not set"},
    ]
    assert package["decision"]["policy"] == "v7"
    assert "a person has to check" in package["next"]["reply lost"]
    assert msgspec.json.decode(canonical(package)) == package


def test_visible_text_stays_and_hidden_text_shows() -> None:
    assert visible("Grüße, 8472 — ₹2,499") == "Grüße, 8472 — ₹2,499"
    assert visible("a\u200d\ufeff\x1b[31m\U000e0041") == "a\\u200d\\ufeff\\x1b[31m\\U000e0041"
