"""Deny beats ask beats allow, and whatever goes wrong denies."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from messages.canon import action_hash
from messages.errors import TreadleError
from messages.parts import Action, Identity
from runtime.loop.keys import fill
from runtime.policy.rules import Judged, decide
from runtime.settings import Limit, Policy
from runtime.tools.declare import Ctx, Request, Ruling, allow, ask, deny, read, write

POLICY = Policy(
    version="v7",
    limits={
        "refund.auto_inr": Limit(value=1000, source="POL-REF-004 v4 3.2"),
        "refund.currency": Limit(value="INR", source="POL-REF-004 v4 3.1"),
    },
)
ANN = Identity(tenant="default", principal="ann", scopes=("refunds:write",))


def tool_with(rule: Callable[..., Any] | None, *, kind: str = "replay", scope: str = "") -> Any:
    async def act(ctx: Ctx[None], amount: int) -> int:
        """Act."""
        return amount

    if kind == "read":
        tool: Any = read(scope=scope)(act)
    else:
        replay_for = timedelta(days=1) if kind == "replay" else None
        tool = write(key="k:{amount}", scope=scope, replay_for=replay_for)(act)
    if rule is not None:

        @tool.rule
        def the_rule(req: Request, amount: int) -> Ruling:
            return rule(req, amount)

    return tool


def judge(tool: Any, amount: Any = 5, identity: Identity = ANN) -> Judged:
    return decide(tool, action_on(tool, amount), identity, POLICY, now=5.0)


def action_on(tool: Any, amount: Any = 5) -> Action:
    arguments = {"amount": amount}
    key = None if tool.kind == "read" else f"k:{amount}"
    return Action(
        ordinal=2,
        tool=tool.name,
        arguments=arguments,
        key=key,
        action_hash=action_hash(tool.name, arguments, key),
    )


def by_limit(req: Request, amount: int) -> Ruling:
    if amount > req.limit("refund.auto_inr"):
        return ask("support-lead", "above the limit", size=amount, ttl=timedelta(minutes=30))
    return allow()


def reading(name: str) -> Callable[..., Any]:
    def rule(req: Request, amount: int) -> Any:
        return req.limit(name)

    return rule


def raising(error: Exception) -> Callable[..., Any]:
    def rule(req: Request, amount: int) -> Any:
        raise error

    return rule


TABLE: list[tuple[str, Any, str, str, str | None]] = [
    # what, tool, decision, rule, group or code
    ("a read without a rule", tool_with(None, kind="read"), "allow", "default", None),
    ("a write without a rule", tool_with(None), "ask", "write-without-rule", "approvers"),
    (
        "a blind write without a rule",
        tool_with(None, kind="blind"),
        "ask",
        "blind-write",
        "approvers",
    ),
    ("a rule allows", tool_with(lambda *_: allow()), "allow", "the_rule", None),
    ("a rule asks", tool_with(lambda *_: ask("lead", "w")), "ask", "the_rule", "lead"),
    ("a rule denies", tool_with(lambda *_: deny("w")), "deny", "the_rule", "POLICY_DENIED"),
    (
        "a rule denies a read",
        tool_with(lambda *_: deny("w"), kind="read"),
        "deny",
        "the_rule",
        "POLICY_DENIED",
    ),
    (
        "a rule allows a blind write",
        tool_with(lambda *_: allow(), kind="blind"),
        "ask",
        "blind-write",
        "approvers",
    ),
    (
        "a rule asks for a blind write",
        tool_with(lambda *_: ask("lead", "w"), kind="blind"),
        "ask",
        "the_rule",
        "lead",
    ),
    (
        "a rule denies a blind write",
        tool_with(lambda *_: deny("w"), kind="blind"),
        "deny",
        "the_rule",
        "POLICY_DENIED",
    ),
    (
        "a scope that the run holds",
        tool_with(lambda *_: allow(), scope="refunds:write"),
        "allow",
        "the_rule",
        None,
    ),
    (
        "a scope that it does not",
        tool_with(lambda *_: allow(), scope="refunds:all"),
        "deny",
        "scope",
        "SCOPE_MISSING",
    ),
    (
        "a scope that starts the same",
        tool_with(lambda *_: allow(), scope="refunds"),
        "deny",
        "scope",
        "SCOPE_MISSING",
    ),
    (
        "a read without its scope",
        tool_with(None, kind="read", scope="x"),
        "deny",
        "scope",
        "SCOPE_MISSING",
    ),
    ("a bug", tool_with(raising(KeyError("x"))), "deny", "the_rule", "RULE_FAILED"),
    ("another bug", tool_with(raising(ZeroDivisionError())), "deny", "the_rule", "RULE_FAILED"),
    ("an error of ours", tool_with(raising(TreadleError("x"))), "deny", "the_rule", "RULE_FAILED"),
    ("returns None", tool_with(lambda *_: None), "deny", "the_rule", "RULE_FAILED"),
    ("returns True", tool_with(lambda *_: True), "deny", "the_rule", "RULE_FAILED"),
    ("returns the function", tool_with(lambda *_: allow), "deny", "the_rule", "RULE_FAILED"),
    ("asks wrongly", tool_with(lambda *_: ask("", "w")), "deny", "the_rule", "RULE_FAILED"),
    (
        "reads an unknown limit",
        tool_with(reading("refund.auto")),
        "deny",
        "the_rule",
        "RULE_FAILED",
    ),
    (
        "reads text as a limit",
        tool_with(reading("refund.currency")),
        "deny",
        "the_rule",
        "RULE_FAILED",
    ),
]


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case[0])
def test_precedence(case: Any) -> None:
    _, tool, decision, rule, detail = case
    verdict = judge(tool).verdict
    assert (verdict.ordinal, verdict.decision, verdict.rule) == (2, decision, rule)
    found = verdict.problem.code if verdict.problem else verdict.group
    assert found == detail
    assert verdict.why or decision == "allow"


def asked(why: str) -> Ruling:
    return ask("g", why)


@pytest.mark.parametrize("said", [deny, asked])
def test_the_words_of_a_rule_are_cleaned_like_those_of_a_tool(said: Any) -> None:
    verdict = judge(tool_with(lambda *_: said("no \ud83d\0" + "x" * 9999))).verdict
    assert verdict.why.startswith("no \ufffd\ufffdxxx")
    assert len(verdict.why) == 500
    assert msgspec.json.decode(msgspec.json.encode(verdict.why)) == verdict.why
    assert verdict.problem is None or verdict.problem.message == verdict.why


def test_a_size_that_no_ledger_can_keep_denies() -> None:
    verdict = judge(tool_with(lambda *_: ask("g", "w", size=2**63))).verdict
    assert (verdict.decision, verdict.problem and verdict.problem.code) == ("deny", "RULE_FAILED")
    assert judge(tool_with(lambda *_: ask("g", "w", size=2**63 - 1))).verdict.size == 2**63 - 1


def test_a_limit_that_was_read_is_named() -> None:
    tool = tool_with(by_limit)
    small, large = judge(tool, 1000), judge(tool, 1001)
    assert small.verdict.decision == "allow"
    assert large.verdict.decision == "ask"
    assert (large.verdict.size, large.verdict.ttl_s) == (1001, 1800.0)
    assert small.limits == large.limits == ("refund.auto_inr",)


def test_arguments_that_do_not_decode_deny() -> None:
    verdict = judge(tool_with(by_limit), "1001").verdict
    assert verdict.problem is not None
    assert verdict.problem.code == "BAD_ACTION"
    assert "`$.amount`" in verdict.why


@pytest.mark.parametrize(
    "changes",
    [
        {"tool": "other"},
        {"key": None},
        {"key": "k:5:again"},
        {"key": "k:6"},
        {"action_hash": "0" * 64},
        {"arguments": {"amount": 5, "more": 1}},
        {"arguments": {"amount": 6}},
        {"arguments": {}},
    ],
)
@pytest.mark.parametrize("is_hashed_again", [True, False])
def test_an_action_that_the_validator_would_not_make_denies(
    changes: dict[str, Any], is_hashed_again: bool
) -> None:
    tool = tool_with(lambda *_: allow())
    action = replace(action_on(tool), **changes)
    if is_hashed_again and "action_hash" not in changes:
        action = replace(action, action_hash=action_hash(action.tool, action.arguments, action.key))
    verdict = decide(tool, action, ANN, POLICY, now=0.0).verdict
    assert verdict.problem is not None
    assert verdict.problem.code == "BAD_ACTION"


def test_defaults_left_out_are_not_canonical() -> None:
    @write(key="k:{n}", replay_for=timedelta(1))
    async def act(ctx: Ctx[None], n: int, ratio: float = 1.0) -> int:
        """Act."""
        return n

    @act.rule
    def every(req: Request, n: int, ratio: float = 1.0) -> Ruling:
        return allow()

    for arguments, decision in [
        ({"n": 1}, "deny"),
        ({"n": 1, "ratio": 1}, "deny"),
        ({"n": 1, "ratio": 1.0}, "allow"),
    ]:
        action = Action(
            ordinal=0,
            tool="act",
            arguments=arguments,
            key="k:1",
            action_hash=action_hash("act", arguments, "k:1"),
        )
        assert decide(act, action, ANN, POLICY, now=0.0).verdict.decision == decision


def test_an_unknown_limit_is_named_with_its_neighbour() -> None:
    req = Request(policy=POLICY)
    with pytest.raises(TreadleError, match=r"limit 'refund\.auto': is not set") as raised:
        req.limit("refund.auto")
    assert "refund.auto_inr" in raised.value.hint
    assert req.setting("refund.currency") == "INR"
    assert req.read == ["refund.currency"]


def test_a_rule_sees_who_asks_and_when() -> None:
    seen: list[Any] = []

    def rule(req: Request, amount: int) -> Ruling:
        seen.append((req.tenant, req.principal, req.scopes, req.now, amount))
        return allow()

    judge(tool_with(rule))
    assert seen == [("default", "ann", ("refunds:write",), 5.0, 5)]


def test_a_rule_cannot_change_the_action() -> None:
    @write(key="k:{names|sha256}", replay_for=timedelta(1))
    async def tag(ctx: Ctx[None], names: list[str]) -> int:
        """Tag."""
        return len(names)

    @tag.rule
    def over(req: Request, names: list[str]) -> Ruling:
        names.clear()
        return allow()

    arguments = {"names": ["a"]}
    key = fill("k:{names|sha256}", arguments)
    assert isinstance(key, str)
    action = Action(
        ordinal=0,
        tool="tag",
        arguments=arguments,
        key=key,
        action_hash=action_hash("tag", arguments, key),
    )
    assert decide(tag, action, ANN, POLICY, now=0.0).verdict.decision == "allow"
    assert action.arguments == {"names": ["a"]}
