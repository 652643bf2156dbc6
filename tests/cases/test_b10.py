"""Case B10: three approvals for the same tool, decided out of order."""

from typing import Any

import anyio
import pytest

from messages.errors import Conflict
from tests.cases.apps.script import case_of
from tests.cases.place import PATIENCE_S, Json, Place, results

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

CASE = case_of("b10")
PROPOSED: dict[str, dict[str, Any]] = {
    block["id"]: block["input"] for block in CASE["model_turns"][0]["content"]
}
RUN = "b10-run"


async def _asked(place: Place) -> dict[str, Json]:
    """The three approvals with what an approver is shown, by the call that they are about."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            async with place.client() as person:
                listed = await person.approvals()
                ids = [approval["id"] for approval in listed["approvals"]]
                if len(ids) == len(PROPOSED):
                    shown = (await person.approvals(ids))["approvals"]
                    break
            await anyio.sleep(0.02)
    return {
        use_id: approval
        for use_id, given in PROPOSED.items()
        for approval in shown
        if approval["package"]["action"]["arguments"] == given
    }


async def _decide(place: Place, approval: Json, decision: Json) -> Json:
    """One decision, with the approver's own credentials."""
    async with place.client("approver") as person:
        verb = person.approve if decision["decision"] == "approve" else person.deny
        return await verb(
            approval["id"], action=approval["action_hash"], reason=decision.get("reason", "")
        )


async def _is_dealt_with(place: Place, approval: Json, decision: Json, paid: int) -> None:
    """Wait until the run has taken note, and has paid where it may."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            resolved = await place.events(RUN, "approval_resolved")
            is_noted = approval["id"] in {event["approval_id"] for event in resolved}
            if is_noted and len(await place.happened()) == paid:
                return
            await anyio.sleep(0.02)


RESTARTS = [((), ""), ((1,), "stop"), ((1,), "kill"), ((2,), "kill"), ((1, 2), "kill")]
"""After which of the decisions the process is restarted, and how."""


@pytest.mark.parametrize(("restarts", "how"), RESTARTS)
async def test_decided_out_of_order(place: Place, restarts: tuple[int, ...], how: str) -> None:
    await place.submit(RUN)
    asked = await _asked(place)

    # three approval requests with three different ids, each showing its own arguments
    assert asked.keys() == PROPOSED.keys(), "each call is shown with its own arguments"
    assert len({approval["id"] for approval in asked.values()}) == 3
    for approval in asked.values():
        assert (approval["tool"], approval["run_id"]) == ("pay", RUN)
    assert len({approval["action_hash"] for approval in asked.values()}) == 3
    assert await place.happened() == [], "nothing is paid before anybody has decided"

    paid = 0
    for number, decision in enumerate(CASE["setup"]["approvals"], start=1):
        await _decide(place, asked[decision["call"]], decision)
        paid += decision["decision"] == "approve"
        # same result if the process is restarted between the decisions
        if number in restarts:
            await place.restart(how)
        await _is_dealt_with(place, asked[decision["call"]], decision, paid)
    result = await place.result(RUN)
    assert (result["status"], result["output"]) == ("SUCCEEDED", "two paid, one refused")

    # a second, equal decision for toolu_02 changes nothing
    last = CASE["setup"]["approvals"][-1]
    version = (await place.show(RUN))["version"]
    with pytest.raises(Conflict):
        await _decide(place, asked["toolu_02"], last)
    assert (await place.show(RUN))["version"] == version
    await _check_end(place)


async def _check_end(place: Place) -> None:
    # payments made: (acct-2,20) and (acct-3,30), once each; acct-1 never
    made = [(line["to"], line["amount"]) for line in await place.happened()]
    assert sorted(made) == [("acct-2", 20), ("acct-3", 30)]
    shown = await place.show(RUN)
    assert sorted(o["status"] for o in shown["outstanding"]) == ["verified", "verified"]

    # one user message, three tool_results in order 01,02,03; 01 says denied by a person with the
    # reason and 'not executed'
    first, second = await place.requests()
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "user"]
    assert len(first["messages"]) == 1
    told = results(second)
    assert len(told) == len(second["messages"][-1]["content"]) == 3
    assert [block["tool_use_id"] for block in told] == ["toolu_01", "toolu_02", "toolu_03"]
    denied, *paid = told
    assert denied["is_error"]
    assert denied["content"]["error"] == "PERSON_DENIED"
    assert denied["content"]["message"].startswith("approver said no: not this one")
    assert "not executed" in str(denied["content"])
    assert [block["content"]["data"] for block in paid] == [
        PROPOSED["toolu_02"],
        PROPOSED["toolu_03"],
    ]
    assert not any(block.get("is_error") for block in paid)


async def test_an_equal_decision_while_the_run_still_waits(place: Place) -> None:
    await place.submit(RUN)
    asked = await _asked(place)
    second = {"call": "toolu_02", "decision": "approve"}
    await _decide(place, asked["toolu_02"], second)
    await _is_dealt_with(place, asked["toolu_02"], second, 1)
    # a second, equal decision for toolu_02 changes nothing
    with pytest.raises(Conflict):
        await _decide(place, asked["toolu_02"], second)
    third, first, _ = CASE["setup"]["approvals"]
    await _decide(place, asked["toolu_03"], third)
    await _decide(place, asked["toolu_01"], first)
    assert (await place.result(RUN))["status"] == "SUCCEEDED"
    await _check_end(place)
