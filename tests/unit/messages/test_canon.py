"""What "the same action" means, down to the byte."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messages import canon
from tests.unit.messages.examples import json_values

REFUND = {"order_id": "8472", "payment_id": "pay_5a2", "amount_inr": 2000}
KEY = "refund:order-8472:pay_5a2:v1"


def shuffled(value: Any) -> Any:
    """The same JSON with every object's keys the other way round."""
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        return {key: shuffled(given[key]) for key in reversed(given)}
    if isinstance(value, list):
        return [shuffled(one) for one in cast("list[Any]", value)]
    return value


def test_the_canonical_form_is_sorted_and_without_spaces() -> None:
    assert canon.canonical({"b": [1, 2.5, None], "a": "é"}) == '{"a":"é","b":[1,2.5,null]}'.encode()


@given(json_values)
def test_the_order_of_keys_never_matters(value: Any) -> None:
    assert canon.digest(shuffled(value)) == canon.digest(value)


def test_the_hash_of_the_documented_refund_never_changes() -> None:
    """Approvals and grants in stored ledgers are bound to it."""
    whole = canon.action_hash("issue_refund", REFUND, KEY)
    assert whole == "65b229387907ee6cba7447152c4c72a8bc89eece40fdfe38a2bb5329a10e1ee6"
    assert canon.shown(whole) == "65b229387907"


@pytest.mark.parametrize(
    ("tool", "arguments", "key"),
    [
        ("issue_refunds", REFUND, KEY),
        ("issue_refund", {**REFUND, "amount_inr": 2001}, KEY),
        ("issue_refund", {**REFUND, "amount_inr": 2000.0}, KEY),
        ("issue_refund", {**REFUND, "amount_inr": "2000"}, KEY),
        ("issue_refund", {**REFUND, "note": None}, KEY),
        ("issue_refund", REFUND, "refund:order-8472:pay_5a2:v2"),
        ("issue_refund", REFUND, None),
    ],
)
def test_whatever_differs_is_another_action(tool: str, arguments: Any, key: str | None) -> None:
    assert canon.action_hash(tool, arguments, key) != canon.action_hash("issue_refund", REFUND, KEY)


def test_a_fingerprint_leaves_the_key_out() -> None:
    assert canon.action_fingerprint("a", REFUND) == canon.action_fingerprint("a", shuffled(REFUND))
    assert canon.action_fingerprint("a", REFUND) != canon.action_fingerprint("b", REFUND)
    assert len(canon.action_fingerprint("a", REFUND)) == 16
    assert canon.arguments_hash(REFUND) == canon.digest(REFUND)


@given(st.binary())
def test_a_digest_is_whole_sha256_in_hex(data: bytes) -> None:
    assert len(canon.sha256_hex(data)) == 64
    assert set(canon.sha256_hex(data)) <= set("0123456789abcdef")
