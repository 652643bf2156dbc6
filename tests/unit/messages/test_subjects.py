"""Subjects: built, parsed and refused by one table each."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messages import subjects
from messages.checks import Validate
from messages.errors import BadIdentifier
from messages.execution import Execute, Reconcile
from messages.ledger import DecideApproval, Take
from tests.unit.messages.examples import example

IDENTIFIERS = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)
BAD = ["", "a.b", "*", ">", "a b", "ä", "a\n", "a\x00", "a/b", "x" * 65, "$SYS", "a:b", "\u200ba"]


@pytest.mark.parametrize(
    ("built", "subject"),
    [
        (subjects.task("default", "submitter", "refund"), "treadle.tasks.default.submitter.refund"),
        (subjects.tasks_of_agent("refund"), "treadle.tasks.*.*.refund"),
        (subjects.api("default", "operator", "show"), "treadle.api.default.operator.show"),
        (subjects.replies("default", "submitter"), "treadle.replies.default.submitter."),
        (subjects.event("acme", "x1", "step_lost"), "treadle.events.acme.x1.step_lost"),
        (subjects.result("default", "x1"), "treadle.results.default.x1"),
        (subjects.approval("acme", "apr-7", "requested"), "treadle.approvals.acme.apr-7.requested"),
        (subjects.question("default", "x1", "asked"), "treadle.questions.default.x1.asked"),
        (subjects.wake("default", "x1"), "treadle.wakes.default.x1"),
        (subjects.signal("default", "x1"), "treadle.signals.default.x1"),
        (subjects.control("executor"), "treadle.ctl.executor"),
        (subjects.served("validator"), "treadle.rpc.validator.*"),
        (subjects.served("executor", "issue_refund"), "treadle.rpc.executor.issue_refund.*"),
        (subjects.dead("default", "tasks", "refund"), "treadle.dead.default.tasks.refund"),
    ],
)  # fmt: skip
def test_a_subject_reads_as_the_contract_says(built: str, subject: str) -> None:
    assert built == subject


@pytest.mark.parametrize(
    ("request_type", "subject"),
    [
        (Validate, "treadle.rpc.validator.validate"),
        (Take, "treadle.rpc.checkpointer.take"),
        (DecideApproval, "treadle.rpc.checkpointer.decide-approval"),
    ],
)
def test_a_request_goes_to_its_role(request_type: Any, subject: str) -> None:
    assert subjects.rpc(example(request_type)) == subject


@pytest.mark.parametrize("request_type", [Execute, Reconcile])
def test_a_request_to_an_executor_goes_to_one_that_has_the_tool(request_type: Any) -> None:
    with pytest.raises(BadIdentifier):  # the example's tool is called "tool-é"
        _ = subjects.rpc(example(request_type))
    request: Any = example(request_type)
    action = type(request.action)(ordinal=0, tool="notify", arguments={}, action_hash="h")
    subject = subjects.rpc(type(request)(**{**_fields(request), "action": action}))
    assert subject == f"treadle.rpc.executor.notify.{request.verb}"


def _fields(request: Any) -> dict[str, Any]:
    return {name: getattr(request, name) for name in request.__struct_fields__}


@given(tenant=IDENTIFIERS, principal=IDENTIFIERS, name=IDENTIFIERS)
def test_what_was_built_is_parsed_again(tenant: str, principal: str, name: str) -> None:
    assert subjects.parse_task(subjects.task(tenant, principal, name)) == (tenant, principal, name)
    assert subjects.parse_api(subjects.api(tenant, principal, name)) == (tenant, principal, name)
    assert subjects.parse_run(subjects.wake(tenant, name)) == (tenant, name)
    assert subjects.parse_run(subjects.signal(tenant, name)) == (tenant, name)


@pytest.mark.parametrize("token", BAD)
def test_a_token_that_is_no_identifier_is_refused(token: str) -> None:
    for build in (subjects.task, subjects.api):
        for place in range(2):
            tokens = ["default", "submitter", "refund"]
            tokens[place] = token
            with pytest.raises(BadIdentifier):
                _ = build(*tokens)
    with pytest.raises(BadIdentifier):
        _ = subjects.task("default", "submitter", token)
    with pytest.raises(BadIdentifier):
        _ = subjects.tasks_of_agent(token)
    with pytest.raises(BadIdentifier):
        _ = subjects.result("default", token)


@pytest.mark.parametrize(
    "subject",
    ["", "treadle", "treadle.tasks", "treadle.tasks.default.submitter", "treadle.tasks.a.b.c.d",
     "treadle.task.default.submitter.refund", "other.tasks.default.submitter.refund",
     "treadle.tasks..submitter.refund", "treadle.tasks.default.*.refund",
     "treadle.api.default.submitter.show", "treadle.tasks.default.submitter.>"],
)  # fmt: skip
def test_what_is_no_task_subject_is_refused(subject: str) -> None:
    with pytest.raises(BadIdentifier):
        _ = subjects.parse_task(subject)


@pytest.mark.parametrize(
    "subject",
    ["treadle.wakes.default", "treadle.wakes.default.a.b", "x.y.z.a", "treadle.wakes.*.a"],
)
def test_what_is_no_run_subject_is_refused(subject: str) -> None:
    with pytest.raises(BadIdentifier):
        _ = subjects.parse_run(subject)


@pytest.mark.parametrize(
    ("subject", "may"),
    [
        ("treadle.replies.default.submitter.mine", True),
        ("treadle.replies.default.submitter.mine.7", True),
        ("treadle.replies.default.submitter.", False),
        ("treadle.replies.default.submitter", False),
        ("treadle.replies.default.other.mine", False),
        ("treadle.replies.other.submitter.mine", False),
        ("treadle.replies.default.submitter.*", False),
        ("treadle.replies.default.submitter.>", False),
        ("treadle.replies.default.submitter.a..b", False),
        ("treadle.replies.default.submitter2.mine", False),
        ("treadle.tasks.default.submitter.refund", False),
        ("_INBOX.x", False),
        ("", False),
    ],
)
def test_a_reply_goes_only_where_the_submitter_may_read(subject: str, may: bool) -> None:
    assert subjects.may_reply_to(subject, "default", "submitter") is may


@pytest.mark.parametrize("value", ["apr-1", "apr-dccf1afbf6143531fc7c", "apr-" + "Z" * 32])
def test_an_approval_id_is_itself(value: str) -> None:
    assert subjects.approval_identifier(value) == value


@pytest.mark.parametrize(
    "value",
    ["", "apr-", "apr_1", "xapr-1", "apr-1\n", "apr-" + "a" * 33, "apr-a-b", "apr-*"],
)
def test_what_is_no_approval_id_is_refused(value: str) -> None:
    with pytest.raises(BadIdentifier):
        _ = subjects.approval_identifier(value)


@given(st.text(max_size=70))
def test_an_identifier_is_a_token_of_its_own(value: str) -> None:
    try:
        assert subjects.identifier("run", value) == value
    except BadIdentifier:
        return
    assert 1 <= len(value) <= 64
    assert value.isascii()
    assert not set(value) & set(".*> \t\r\n\x00")


def test_a_refusal_does_not_repeat_a_huge_value() -> None:
    with pytest.raises(BadIdentifier) as caught:
        _ = subjects.identifier("run", "x" * 100_000)
    assert len(caught.value.message) < 200
