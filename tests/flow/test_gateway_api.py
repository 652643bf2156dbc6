"""The public API verb by verb: what it answers, what it refuses, and whose rows it shows."""

from typing import Any

import anyio
import msgspec
import pytest

from messages import api
from messages.events import Finished, HumanAsked, Suspended
from messages.ledger import Hold, HoldRow, Keep
from messages.status import Reason, Status
from runtime.settings import Principal, Settings, Tenant
from tests import journals
from tests.flow.gateway_world import PATIENCE_S, World, world
from tests.journals import HASH, KEY, PACKAGE, PACKAGE_HASH, RUN


async def submit(here: World, run_id: str = RUN, **fields: Any) -> Any:
    return await here.api("submitter", "submit", agent="refund", goal="g", run_id=run_id, **fields)


async def asked(here: World) -> None:
    """The refund run, up to its approval, with the package in the artifacts."""
    await submit(here)
    await here.ledger.apply([Keep(tenant="default", sha256=PACKAGE_HASH, data=PACKAGE)])
    entries = journals.journal()
    late = entries[2].events
    request = late[3]
    assert request.__class__.__name__ == "ApprovalRequested"
    expires_at = (await here.loaded(RUN)).now + 60
    request = msgspec.structs.replace(request, expires_at=expires_at)
    wait = Suspended(status=Status.AWAITING_APPROVAL, reason="over_limit", until=expires_at)
    await here.grow(RUN, entries[1].events, (*late[:3], request, wait))


# ------------------------------------------------------------------ submit, show, list, events
async def test_submit_answers_once_the_run_is_durable() -> None:
    async with world() as here:
        assert await submit(here) == {"v": 1, "run_id": RUN, "existing": False}
        assert await submit(here) == {"v": 1, "run_id": RUN, "existing": True}
        assert len((await here.api("operator", "list"))["runs"]) == 1


async def test_submit_without_a_run_id_makes_one() -> None:
    async with world() as here:
        reply = await here.api("submitter", "submit", agent="refund", goal="g")
        assert reply["run_id"].startswith("run-")


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"agent": "nobody", "goal": "g"}, "NOT_FOUND"),
        ({"agent": "refund", "goal": ""}, "BAD_TASK"),
        ({"agent": "refund", "goal": "g", "run_id": "a b"}, "BAD_IDENTIFIER"),
        ({"agent": "refund", "goal": "g", "limits": {"max_steps": 99}}, "NOT_ALLOWED"),
        ({"agent": "refund", "goal": "g", "scopes": ["all"]}, "USAGE"),
        ({"agent": "refund"}, "USAGE"),
    ],
)
async def test_submit_refuses(fields: dict[str, Any], code: str) -> None:
    async with world() as here:
        assert await here.code("submitter", "submit", **fields) == code


async def test_a_budget_that_fits_no_step_ends_the_run_at_once() -> None:
    async with world() as here:
        await submit(here, limits={"max_tokens": 10})
        run = await here.api("submitter", "show", run_id=RUN)
        assert (run["status"], run["reason"]) == ("BUDGET_EXHAUSTED", "max_tokens")


async def test_show_at_a_version() -> None:
    async with world() as here:
        await asked(here)
        now = await here.api("operator", "show", run_id=RUN)
        assert (now["version"], now["status"]) == (2, "AWAITING_APPROVAL")
        then = await here.api("operator", "show", run_id=RUN, at=1)
        assert (then["version"], then["status"], then["approval"]) == (1, "RUNNING", None)
        assert await here.code("operator", "show", run_id=RUN, at=3) == "NOT_FOUND"
        assert await here.code("operator", "show", run_id=RUN, at=-1) == "USAGE"
        assert await here.code("operator", "show", run_id="nobody") == "NOT_FOUND"
        assert await here.code("operator", "show", run_id="a.b") == "BAD_IDENTIFIER"


async def test_a_run_too_large_for_one_message_is_shown_without_payloads() -> None:
    async with world() as here:
        await submit(here)
        read = journals.journal()[1].events
        large = msgspec.structs.replace(journals.ORDER, payload={"text": "x" * 110_000})
        for step in range(1, 11):
            decided, accepted, authorised, observed, assessed, reserved = (
                event if not hasattr(event, "step") else msgspec.structs.replace(event, step=step)
                for event in read
            )
            observed = msgspec.structs.replace(observed, evidence=large)
            reserved = journals.reserved(step + 1)
            events = (decided, accepted, authorised, observed, assessed, reserved)
            await here.grow(RUN, events)
        run = await here.api("operator", "show", run_id=RUN)
        assert (run["version"], len(run["evidence"])) == (10, 10)
        assert {item.get("omitted") for item in run["evidence"]} == {"too_large"}
        assert not any("payload" in item for item in run["evidence"])


async def test_metrics_count_the_runs_that_ended() -> None:
    async with world() as here:
        await submit(here, limits={"max_tokens": 10}, labels={"team": "a"})
        await submit(here, "run-2")
        found = await here.api("operator", "metrics", by=["agent"])
        assert (found["runs"], found["budget_stop_rate"], found["open_runs"]) == (1, 1.0, 1)
        assert [group["agent"] for group in found["groups"]] == ["refund"]
        none = await here.api("operator", "metrics", labels={"team": "b"})
        assert (none["runs"], none["completion_rate"]) == (0, None)
        assert (await here.api("operator", "metrics", since=60.0))["runs"] == 1
        assert (await here.api("operator", "metrics", month="2001-01"))["runs"] == 0


@pytest.mark.parametrize(
    "fields", [{"month": "2026-13"}, {"month": "2026-01", "since": 1.0}, {"by": ["goal"]}]
)
async def test_metrics_refuse(fields: dict[str, Any]) -> None:
    async with world() as here:
        assert await here.code("operator", "metrics", **fields) == "USAGE"


async def test_a_listing_of_all_has_ended_runs_too() -> None:
    async with world() as here:
        await submit(here, limits={"max_tokens": 10})
        assert (await here.api("operator", "list"))["runs"] == []
        assert len((await here.api("operator", "list", ended=True))["runs"]) == 1


async def test_list_tells_queued_from_running() -> None:
    async with world() as here:
        await submit(here, "r-1", labels={"k": "v"})
        await submit(here, "r-2")
        await here.grow("r-2")

        async def ids(**query: Any) -> list[str]:
            reply = await here.api("operator", "list", **query)
            return sorted(run["run_id"] for run in reply["runs"])

        assert await ids() == ["r-1", "r-2"]
        assert await ids(status="QUEUED") == ["r-1"]
        assert await ids(status="running") == ["r-2"]
        assert await ids(status="SUCCEEDED") == []
        assert await ids(labels={"k": "v"}) == ["r-1"]
        assert await ids(agent="other") == []
        assert await ids(since=60) == ["r-1", "r-2"]
        assert len(await ids(limit=1)) == 1
        assert await here.code("operator", "list", status="LOST") == "USAGE"


async def test_events_come_in_pages_that_say_when_the_run_has_ended() -> None:
    async with world() as here:
        await asked(here)
        page = await here.api("operator", "events", run_id=RUN)
        assert [line["version"] for line in page["events"]][:3] == [0, 0, 1]
        assert (page["version"], page["terminal"]) == (2, False)
        rest = await here.api("operator", "events", run_id=RUN, after=1)
        assert {line["version"] for line in rest["events"]} == {2}
        await here.api("operator", "cancel", run_id=RUN)
        end = Finished(status=Status.CANCELLED, reason=Reason.BY_PERSON)
        await here.grow(RUN, (journals.journal()[3].events[0], end))
        last = await here.api("operator", "events", run_id=RUN, after=2)
        assert [line["kind"] for line in last["events"]] == ["resumed", "finished"]
        assert last["terminal"] is True
        past = await here.api("operator", "events", run_id=RUN, after=3)
        assert (past["events"], past["terminal"]) == ([], True)


async def test_a_page_of_events_ends_between_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.views.reading.MAX_LINES", 3)
    async with world() as here:
        await submit(here)
        end = Finished(status=Status.CANCELLED, reason=Reason.BY_PERSON)
        await here.grow(RUN, journals.journal()[1].events, (end,))
        pages: list[Any] = []
        after = -1
        while not pages or not pages[-1]["terminal"]:
            pages.append(await here.api("operator", "events", run_id=RUN, after=after))
            after = pages[-1]["events"][-1]["version"]
        versions = [[line["version"] for line in page["events"]] for page in pages]
        assert versions == [[0, 0, 1, 1, 1, 1, 1, 1], [2]]
        assert {page["version"] for page in pages} == {2}


# ------------------------------------------------------------------ approvals
async def test_the_inbox_and_one_approval_with_what_an_approver_sees() -> None:
    async with world() as here:
        await asked(here)
        [row] = (await here.api("approver", "approvals"))["approvals"]
        assert (row["id"], row["action_hash"]) == ("apr-5521", HASH[:12])
        [detail] = (await here.api("approver", "approvals", ids=["apr-5521"]))["approvals"]
        assert detail["package"]["arguments"] == journals.ARGUMENTS
        assert await here.code("approver", "approvals", ids=["apr-9"]) == "NOT_FOUND"
        assert await here.code("approver", "approvals", ids=["nope"]) == "BAD_IDENTIFIER"


async def test_approving_checks_who_and_what_and_counts_once() -> None:
    async with world() as here, here.bus.subscribe("treadle.signals.>") as signals:
        await asked(here)
        say = {"approval_id": "apr-5521"}
        assert await here.code("submitter", "approve", **say) == "NOT_ALLOWED"
        assert await here.code("approver", "approve", **say, action="ab" * 6) == "HASH_MISMATCH"
        assert await here.code("approver", "approve", **say, action=HASH[:11]) == "USAGE"
        assert await here.code("approver", "approve", approval_id="apr-9") == "NOT_FOUND"
        assert signals.statistics().current_buffer_used == 0
        reply = await here.api("approver", "approve", **say, action=HASH[:12], reason="ok")
        assert reply["approval"]["state"] == "approved"
        assert (await signals.receive()).subject == f"treadle.signals.default.{RUN}"
        again = await here.api("approver", "approve", **say)
        assert again["error"]["code"] == "ALREADY_DECIDED"
        assert "by approver" in again["error"]["message"]
        assert await here.code("operator", "deny", **say, reason="no") == "ALREADY_DECIDED"


async def test_a_denial_needs_a_reason() -> None:
    async with world() as here:
        await asked(here)
        assert await here.code("approver", "deny", approval_id="apr-5521") == "USAGE"
        assert await here.code("approver", "deny", approval_id="apr-5521", reason="no") == "ok"


async def test_an_expired_approval_and_one_whose_run_is_being_cancelled() -> None:
    async with world() as here:
        await asked(here)
        await here.api("operator", "cancel", run_id=RUN)
        assert await here.code("approver", "approve", approval_id="apr-5521") == "CANCEL_PENDING"
        here.late_s = 61.0
        assert await here.code("approver", "approve", approval_id="apr-5521") == "EXPIRED"


async def test_many_clicks_at_once_decide_once() -> None:
    async with world() as here:
        await asked(here)
        codes: list[str] = []

        async def click(verb: str) -> None:
            body = {"approval_id": "apr-5521", "reason": "r"}
            codes.append(await here.code("approver", verb, **body))

        async with anyio.create_task_group() as clicks:
            for number in range(50):
                clicks.start_soon(click, "deny" if number % 2 else "approve")
        assert codes.count("ok") == 1
        assert codes.count("ALREADY_DECIDED") == 49


# ------------------------------------------------------------------ answers
async def test_an_answer_names_the_open_question_and_counts_once() -> None:
    async with world() as here:
        await submit(here)
        ask = HumanAsked(step=1, question_id="q-1", text="Which payment?")
        wait = Suspended(status=Status.AWAITING_HUMAN, reason="Which payment?")
        read = journals.journal()[1].events
        await here.grow(RUN, (*read[:-1], ask, wait))
        wrong = {"run_id": RUN, "question_id": "q-2", "answer": "pay_5a2"}
        assert await here.code("approver", "answer", **wrong) == "NOT_WAITING"
        reply = await here.api("approver", "answer", run_id=RUN, answer={"pay": "pay_5a2"})
        assert reply == {"v": 1, "run_id": RUN, "question_id": "q-1", "existing": False}
        assert await here.code("approver", "answer", run_id=RUN, answer="x") == "ALREADY_ANSWERED"
        deep = {"run_id": RUN, "answer": "x" * 70_000}
        assert await here.code("approver", "answer", **deep) == "BAD_TASK"


async def test_a_question_to_a_group_is_not_for_whoever_asked_for_the_run() -> None:
    async with world() as here:
        await submit(here)
        ask = HumanAsked(step=1, question_id="q-1", text="Which?", group="support-lead")
        wait = Suspended(status=Status.AWAITING_HUMAN, reason="Which?")
        read = journals.journal()[1].events
        await here.grow(RUN, (*read[:-1], ask, wait))
        assert await here.code("submitter", "answer", run_id=RUN, answer="x") == "NOT_ALLOWED"
        assert await here.code("approver", "answer", run_id=RUN, answer="x") == "ok"


async def test_answering_a_run_that_ended_with_a_question_continues_it_once() -> None:
    async with world() as here:
        await submit(here, limits={"max_steps": 3}, labels={"k": "v"})
        ask = {"type": "tool_use", "id": "t", "name": "ask_user", "input": {"question": "Which?"}}
        said = msgspec.structs.replace(journals.decided(1, "x", {}, 100), content=(ask,))
        end = Finished(status=Status.NEEDS_INPUT, reason=Reason.QUESTION, summary="read 1 order")
        await here.grow(RUN, (said, end))
        assert (await here.api("operator", "show", run_id=RUN))["question"]["text"] == "Which?"
        reply = await here.api("approver", "answer", run_id=RUN, answer="pay_5a2")
        assert (reply["continues"], reply["existing"]) == (RUN, False)
        again = await here.api("approver", "answer", run_id=RUN, answer="pay_5a2")
        assert (again["run_id"], again["existing"]) == (reply["run_id"], True)
        run = await here.api("operator", "show", run_id=reply["run_id"])
        assert run["continues"] == RUN
        assert run["principal"] == "submitter"
        assert run["limits"]["max_steps"] == 3
        assert run["labels"] == {"k": "v"}
        assert run["inputs"]["continued"] == {
            "run_id": RUN,
            "question": "Which?",
            "answer": "pay_5a2",
            "done": "read 1 order",
        }


async def test_a_run_that_asks_nothing_takes_no_answer() -> None:
    async with world() as here:
        await submit(here)
        assert await here.code("approver", "answer", run_id=RUN, answer="x") == "NOT_WAITING"
        await submit(here, "ended", limits={"max_tokens": 10})
        assert await here.code("approver", "answer", run_id="ended", answer="x") == "ENDED"


# ------------------------------------------------------------------ control
async def test_cancel_stores_a_signal_and_says_so_to_owner_and_takers() -> None:
    async with world() as here:
        await submit(here)
        async with (
            here.bus.subscribe("treadle.signals.>") as signals,
            here.bus.subscribe("treadle.wakes.>") as wakes,
        ):
            reply = await here.api("operator", "cancel", run_id=RUN, reason="wrong order")
            assert reply == {"v": 1, "run_id": RUN}
            with anyio.fail_after(PATIENCE_S):
                await signals.receive()
                await wakes.receive()
        [signal] = (await here.loaded(RUN)).signals
        assert (signal.kind, signal.person, signal.reason) == ("cancel", "operator", "wrong order")
        assert await here.code("operator", "cancel", run_id="nobody") == "NOT_FOUND"
        await submit(here, "ended", limits={"max_tokens": 10})
        assert await here.code("operator", "cancel", run_id="ended") == "ENDED"


async def test_pause_and_resume_of_an_agent_and_of_everything() -> None:
    async with world() as here:
        tables = here.ledger.tables

        def holds() -> list[tuple[str, str]]:
            return sorted((hold.tenant, hold.agent) for hold in tables.holds())

        assert await here.code("operator", "pause", agent="refund", reason="r") == "ok"
        assert await here.code("operator", "pause", is_all=True) == "ok"
        assert holds() == [("default", "*"), ("default", "refund")]
        assert await here.code("operator", "resume", agent="refund") == "ok"
        assert await here.code("operator", "resume", is_all=True) == "ok"
        assert holds() == []
        assert await here.code("operator", "pause", agent="nobody") == "NOT_FOUND"
        assert await here.code("operator", "pause") == "USAGE"
        assert await here.code("operator", "pause", agent="refund", is_all=True) == "USAGE"
        assert await here.code("operator", "pause", agent="refund", run_id=RUN) == "USAGE"


async def test_resuming_everything_also_lifts_the_hold_the_daemon_started_with() -> None:
    tenants = Settings(tenants={"default": Tenant(principals={"operator": Principal()})})
    for settings, is_lifted in ((None, True), (tenants, False)):
        async with world(settings=settings) as here:
            await here.ledger.apply([Hold(hold=HoldRow(reason="--paused"))])
            await here.api("operator", "resume", is_all=True)
            assert (here.ledger.tables.holds() == []) is is_lifted


async def test_pause_of_one_run() -> None:
    async with world() as here:
        await submit(here)
        reply = await here.api("operator", "pause", run_id=RUN)
        assert reply == {"v": 1, "run_id": RUN}
        assert await here.code("operator", "resume", run_id=RUN) == "ok"
        assert await here.code("operator", "pause", run_id="nobody") == "NOT_FOUND"


# ------------------------------------------------------------------ effects, registry, the rest
async def test_an_effect_with_its_whole_chain() -> None:
    async with world() as here:
        await asked(here)
        await here.api("approver", "approve", approval_id="apr-5521")
        entries = journals.journal()
        await here.grow(RUN, entries[3].events)
        [row] = (await here.api("operator", "effects"))["effects"]
        assert (row["key"], row["state"]) == (KEY, "intended")
        [chain] = (await here.api("operator", "effects", key=KEY))["effects"]
        assert chain["approval"]["package"]["tool"] == "issue_refund"
        assert chain["approval"]["decision"]["person"] == "approver"
        assert chain["intent"][0]["version"] == 3
        assert await here.code("operator", "effects", key="nothing") == "NOT_FOUND"
        assert (await here.api("operator", "effects", unresolved=True))["effects"] == []


async def test_agents_tools_and_ping() -> None:
    async with world() as here:
        [agent] = (await here.api("operator", "agents"))["agents"]
        assert agent["name"] == "refund"
        tools = (await here.api("operator", "tools"))["tools"]
        assert [tool["name"] for tool in tools] == ["issue_refund", "lookup_order"]
        assert (await here.api("operator", "ping"))["principal"] == "operator"
        assert (await here.raw("operator", "ping", b""))["tenant"] == "default"


@pytest.mark.parametrize("data", [b"{", b"[]", b"\xff", b'{"run_id": 5}', b"[" * 5000])
async def test_a_body_that_is_none(data: bytes) -> None:
    async with world() as here:
        for verb in api.VERBS:
            reply = await here.raw("operator", verb, data)
            assert reply["v"] == 1
            assert reply["error"]["code"] == "USAGE"


async def test_an_unknown_verb() -> None:
    async with world() as here:
        assert await here.code("operator", "drop") == "NOT_FOUND"


async def test_an_error_that_nobody_foresaw_says_nothing_of_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail(*_: object) -> object:
        raise ZeroDivisionError("secret 4711")

    monkeypatch.setattr("runtime.views.reading.Reader.show", fail)
    async with world() as here:
        reply = await here.api("operator", "show", run_id=RUN)
        assert reply["error"]["code"] == "INTERNAL"
        assert "4711" not in str(reply)


async def test_no_verb_shows_or_touches_anything_of_another_tenant() -> None:
    acme = Tenant(scopes=("orders:read",), principals={"shop": Principal()})
    ours = Tenant(principals={"submitter": Principal()})
    settings = Settings(tenants={"acme": acme, "default": ours})
    bodies: dict[str, dict[str, Any]] = {
        "show": {"run_id": RUN},
        "events": {"run_id": RUN},
        "cancel": {"run_id": RUN},
        "pause": {"run_id": RUN},
        "resume": {"run_id": RUN},
        "answer": {"run_id": RUN, "answer": "x"},
        "approve": {"approval_id": "apr-5521"},
        "deny": {"approval_id": "apr-5521", "reason": "r"},
        "effects": {"key": KEY},
        "approvals": {"ids": ["apr-5521"]},
    }
    async with world(settings=settings) as here:
        await asked(here)
        for verb, body in bodies.items():
            reply = await here.api("shop", verb, tenant="acme", **body)
            assert reply["error"]["code"] == "NOT_FOUND", verb
        for verb, key in [("list", "runs"), ("approvals", "approvals"), ("effects", "effects")]:
            assert (await here.api("shop", verb, tenant="acme"))[key] == []
        mine = await here.api("shop", "submit", tenant="acme", agent="refund", goal="g", run_id=RUN)
        assert mine == {"v": 1, "run_id": RUN, "existing": False}
        await here.api("shop", "pause", tenant="acme", is_all=True)
        assert [hold.tenant for hold in here.ledger.tables.holds()] == ["acme"]
