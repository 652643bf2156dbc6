"""What operators ask the gateway: traces, dead letters, calls by hand, a checkup."""

import base64
from typing import Any

import anyio
import msgspec
import pytest

from actors.gateway import Gateway
from messages import subjects
from messages.ledger import Due, DueRuns
from runtime.bus.presence import Presence
from runtime.calls import AGENT, MODEL
from runtime.clock import MachineClock, MachineIds
from runtime.intake import DeadLetter
from runtime.settings import Person, Principal, Settings, Tenant
from tests import journals
from tests.flow.gateway_world import World, world
from tests.journals import RUN, SPEC

BAD = b'{"goal": ""}'
GOOD = b'{"goal": "settle it", "run_id": "r-again"}'


async def dead_letter(here: World, payload: bytes = BAD) -> int:
    """The id of the letter that a bad task became."""
    before = len(here.hub.shelf.dead)
    await here.publish_task(payload)
    await here.settled()
    with anyio.fail_after(5):
        while len(here.hub.shelf.dead) == before:
            await here.hub.shelf.change()
    return max(here.hub.shelf.kept)


async def put_letter(here: World, task: bytes, **changes: Any) -> int:
    """A letter of a task that would be fine by now."""
    letter = DeadLetter(
        subject=subjects.task("default", "submitter", "refund"),
        code="NOT_FOUND",
        message="no agent",
        payload=task.decode(),
        encoding="text",
        payload_bytes=len(task),
        is_cut=False,
        deliveries=1,
        sequence=1,
        at="2026-10-28T11:17:43.000Z",
    )
    data = msgspec.json.encode(msgspec.structs.replace(letter, **changes))
    where = subjects.dead("default", "tasks", MachineIds().new_id("x"))
    await here.bus.publish_durable(where, data, message_id=MachineIds().new_id("msg"))
    return max(here.hub.shelf.kept)


# ------------------------------------------------------------------ trace
async def test_trace_of_a_run() -> None:
    async with world() as here:
        await here.api("submitter", "submit", agent="refund", goal="g", run_id=RUN)
        await here.grow(RUN, journals.journal()[1].events)
        run = await here.api("operator", "trace", run_id=RUN)
        assert [call["tool"] for call in run["steps"][0]["calls"]] == ["lookup_order"]
        assert await here.code("operator", "trace", run_id="nobody") == "NOT_FOUND"


# ------------------------------------------------------------------ dead letters
async def test_letters_are_listed_and_shown() -> None:
    async with world() as here:
        letter_id = await dead_letter(here)
        [row] = (await here.api("operator", "letters"))["letters"]
        assert (row["id"], row["code"], row["kind"]) == (letter_id, "BAD_TASK", "tasks")
        assert "payload" not in row
        [shown] = (await here.api("operator", "letters", id=letter_id))["letters"]
        assert shown["payload"] == BAD.decode()
        assert await here.code("operator", "letters", id=letter_id + 1) == "NOT_FOUND"
        assert await here.code("operator", "letters", id=-1) == "NOT_FOUND"


async def test_a_retried_letter_becomes_a_run_and_is_gone() -> None:
    async with world() as here:
        letter_id = await put_letter(here, GOOD)
        assert await here.code("operator", "letter_retry", id=letter_id) == "ok"
        await here.settled()
        run = await here.api("operator", "show", run_id="r-again")
        assert run["principal"] == "submitter"
        assert (await here.api("operator", "letters"))["letters"] == []
        assert await here.code("operator", "letter_retry", id=letter_id) == "NOT_FOUND"


async def test_bytes_that_were_no_text_are_sent_as_they_were() -> None:
    async with world() as here:
        raw = base64.b64encode(GOOD).decode()
        letter_id = await put_letter(here, GOOD, payload=raw, encoding="base64")
        assert await here.code("operator", "letter_retry", id=letter_id) == "ok"
        await here.settled()
        assert await here.code("operator", "show", run_id="r-again") == "ok"


async def test_a_task_that_is_bad_still_is_a_new_letter() -> None:
    async with world() as here:
        letter_id = await dead_letter(here)
        await here.api("operator", "letter_retry", id=letter_id)
        await here.settled()
        with anyio.fail_after(5):
            while len(here.hub.shelf.dead) < 2:
                await here.hub.shelf.change()
        [row] = (await here.api("operator", "letters"))["letters"]
        assert row["id"] > letter_id


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"is_cut": True}, "CUT"),
        ({"subject": "treadle.runs.default.r-1"}, "NO_TASK"),
        ({"subject": "treadle.tasks.default.submitter.gone"}, "NOT_FOUND"),
    ],
)
async def test_what_cannot_be_sent_again_stays(changes: dict[str, Any], code: str) -> None:
    async with world() as here:
        letter_id = await put_letter(here, GOOD, **changes)
        assert await here.code("operator", "letter_retry", id=letter_id) == code
        assert len((await here.api("operator", "letters"))["letters"]) == 1


async def test_a_letter_that_nobody_can_read_is_shown_all_the_same() -> None:
    async with world() as here:
        where = subjects.dead("default", "runs", "r-1")
        await here.bus.publish_durable(where, b"\xffnonsense", message_id="m-1")
        [row] = (await here.api("operator", "letters"))["letters"]
        assert (row["code"], row["kind"]) == ("UNREADABLE", "runs")
        assert await here.code("operator", "letter_retry", id=row["id"]) == "NO_TASK"


async def test_dropping_needs_a_reason_and_is_final() -> None:
    async with world() as here:
        letter_id = await dead_letter(here)
        assert await here.code("operator", "letter_drop", id=letter_id, reason=" ") == "USAGE"
        assert await here.code("operator", "letter_drop", id=letter_id, reason="a test") == "ok"
        assert (await here.api("operator", "letters"))["letters"] == []


@pytest.mark.parametrize("principal", ["submitter", "approver"])
async def test_letters_are_for_operators(principal: str) -> None:
    async with world() as here:
        letter_id = await dead_letter(here)
        assert await here.code(principal, "letters") == "NOT_ALLOWED"
        assert await here.code(principal, "letter_retry", id=letter_id) == "NOT_ALLOWED"
        assert await here.code(principal, "letter_drop", id=letter_id, reason="x") == "NOT_ALLOWED"


async def test_letters_of_another_tenant_are_not_there() -> None:
    tenants = {
        name: Tenant(principals={"submitter": Principal()}, scopes=("orders:read",))
        for name in ("default", "acme")
    }
    settings = Settings(tenants=tenants, people={"ann": Person(tenant="acme")})
    async with world(settings=settings) as here:
        letter_id = await dead_letter(here)
        assert await here.code("operator", "letters", id=letter_id) == "ok"
        theirs = await here.api("ann", "letters", tenant="acme")
        assert theirs["letters"] == []
        refused = await here.api("ann", "letter_retry", tenant="acme", id=letter_id)
        assert refused["error"]["code"] == "NOT_FOUND"


# ------------------------------------------------------------------ calls by hand
CALLS = msgspec.structs.replace(SPEC, name=AGENT, model=MODEL, tools=SPEC.tools[:1])


async def with_calls(here: World) -> None:
    """The gateway of an app that has reads to call, from now on."""
    assert here.gateway is not None
    agents = {"refund": SPEC, AGENT: CALLS}
    fresh = Gateway(
        bus=here.bus, agents=agents, settings=Settings(), clock=MachineClock(), ids=MachineIds()
    )
    here.gateway._api._verbs = fresh._api._verbs


async def test_a_call_is_a_run_of_whoever_asks() -> None:
    async with world() as here:
        await with_calls(here)
        body: dict[str, Any] = {
            "tool": "lookup_order",
            "arguments": {"order_id": "8472"},
            "run_id": "c-1",
        }
        assert (await here.api("operator", "call", **body))["existing"] is False
        assert (await here.api("operator", "call", **body))["existing"] is True
        run = await here.api("operator", "show", run_id="c-1")
        assert (run["agent"], run["principal"]) == (AGENT, "operator")
        assert run["inputs"] == {"tool": "lookup_order", "arguments": {"order_id": "8472"}}


async def test_writes_and_unknown_tools_are_not_called_by_hand() -> None:
    async with world() as here:
        await with_calls(here)
        assert await here.code("operator", "call", tool="issue_refund") == "NOT_ALLOWED"
        assert await here.code("operator", "call", tool="nothing") == "NOT_FOUND"


async def test_nobody_submits_to_the_agent_behind_calls() -> None:
    async with world() as here:
        await with_calls(here)
        assert await here.code("submitter", "submit", agent=AGENT, goal="g") == "NOT_FOUND"
        names = [row["name"] for row in (await here.api("operator", "agents"))["agents"]]
        assert names == ["refund"]


# ------------------------------------------------------------------ checkup
async def checks(here: World) -> dict[str, Any]:
    reply = await here.api("operator", "checkup")
    return {row["name"]: row for row in reply["checks"]}


async def test_a_checkup_says_what_is_well_and_what_is_missing() -> None:
    async with world() as here:
        await here.api("submitter", "submit", agent="refund", goal="g", run_id=RUN)
        found = await checks(here)
        assert {name for name, row in found.items() if row["ok"]} == {
            "streams",
            "ledger",
            "clock",
            "owners",
            "effects",
            "dead letters",
        }
        assert "orchestrator" in found["actors"]["detail"]
        assert "checkpointer" not in found["actors"]["detail"]


async def test_a_clock_that_is_off_and_letters_that_wait_are_found() -> None:
    async with world() as here:
        here.late_s = 30.0
        await dead_letter(here)
        found = await checks(here)
        assert found["clock"]["ok"] is False
        assert (found["dead letters"]["ok"], found["dead letters"]["detail"]) == (
            False,
            "1 dead letters",
        )


async def test_a_run_whose_owner_died_is_found() -> None:
    async with world(settings=Settings()) as here:
        await here.api("submitter", "submit", agent="refund", goal="g", run_id=RUN)
        await here.grow(RUN)  # taken by a process that never renews
        here.late_s = 10.0
        [due] = await here.ledger.apply([Due(process="x", limit=5)])
        assert isinstance(due, DueRuns)
        assert RUN in [run.run_id for run in due.runs]
        found = await checks(here)
        assert found["owners"]["ok"] is False
        assert RUN in found["owners"]["detail"]


async def test_without_a_ledger_the_checkup_still_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.gateway.checkup.CHECK_S", 0.5)
    async with world(has_ledger=False) as here:
        found = await checks(here)
        assert found["ledger"]["ok"] is False
        assert found["streams"]["ok"] is True


async def test_the_gateway_counts_what_it_serves() -> None:
    async with world() as here:
        await here.api("operator", "ping")
        [stats] = await here.bus.survey("$SRV.STATS.treadle-gateway", within_s=0.2)
        [endpoint] = msgspec.json.decode(stats)["endpoints"]
        assert endpoint["data"]["served"] >= 1
        assert endpoint["data"]["running"] == 0


def test_work_that_fails_is_counted() -> None:
    presence = Presence(role="notifier", subject="x")

    def fail() -> None:
        with presence.at_work(MachineClock()):
            assert presence.running == 1
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (presence.running, presence.served, presence.failed) == (0, 1, 1)
