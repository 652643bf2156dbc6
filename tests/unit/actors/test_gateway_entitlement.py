"""Who may decide: the approver's credential, groups and sizes, never the requester."""

import pytest
from msgspec.structs import replace

from actors.gateway.entitlement import check_answerer, check_approver
from messages.errors import NotAllowed
from messages.subjects import ApiAddress
from runtime.settings import Group, Person, Settings
from tests.journals import approval

NOBODY = Settings()
PEOPLE = Settings(
    people={
        "asha": Person(),
        "ben": Person(),
        "requester": Person(),
        "zoe": Person(tenant="acme"),
    },
    groups={
        "support-lead": Group(members=("asha", "requester", "zoe"), max_size=5000),
        "small": Group(members=("ben",), max_size=100),
    },
)


def sender(name: str, tenant: str = "default") -> ApiAddress:
    return ApiAddress(tenant, name, "approve")


@pytest.mark.parametrize("name", ["approver", "operator"])
def test_without_people_the_approver_and_the_operator_decide(name: str) -> None:
    check_approver(NOBODY, sender(name), approval("pending"))
    check_answerer(NOBODY, sender(name), "support-lead")


@pytest.mark.parametrize("name", ["submitter", "somebody"])
def test_without_people_nobody_else_decides(name: str) -> None:
    with pytest.raises(NotAllowed):
        check_approver(NOBODY, sender(name), replace(approval("pending"), principal="operator"))
    with pytest.raises(NotAllowed):
        check_answerer(NOBODY, sender(name), "support-lead")


def test_a_member_decides_up_to_the_size_of_the_group() -> None:
    check_approver(PEOPLE, sender("asha"), approval("pending"))
    with pytest.raises(NotAllowed, match="5000"):
        check_approver(PEOPLE, sender("asha"), replace(approval("pending"), size=5001))


@pytest.mark.parametrize(
    ("name", "tenant", "word"),
    [
        ("ben", "default", "group"),
        ("approver", "default", "people"),
        ("zoe", "default", "people"),
        ("asha", "acme", "people"),
    ],
)
def test_who_is_not_entitled(name: str, tenant: str, word: str) -> None:
    with pytest.raises(NotAllowed, match=word):
        check_approver(PEOPLE, sender(name, tenant), approval("pending"))


def test_whoever_asked_for_the_run_does_not_approve_it() -> None:
    mine = replace(approval("pending"), principal="requester")
    with pytest.raises(NotAllowed, match="asked for this run"):
        check_approver(PEOPLE, sender("requester"), mine)
    with pytest.raises(NotAllowed, match="asked for this run"):
        check_approver(NOBODY, sender("operator"), replace(mine, principal="operator"))


def test_a_question_to_nobody_in_particular_is_answered_by_anybody_who_can_ask() -> None:
    check_answerer(PEOPLE, sender("requester"), None)
    check_answerer(NOBODY, sender("submitter"), None)


def test_a_question_to_a_group_is_answered_by_its_members() -> None:
    check_answerer(PEOPLE, sender("ben"), "small")
    with pytest.raises(NotAllowed):
        check_answerer(PEOPLE, sender("asha"), "small")
