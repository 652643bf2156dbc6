"""The JSON that users see, against golden objects and against the promises of CONTRACT.md."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from messages.canon import shown
from messages.events import Finished, HumanAsked, kind_of
from messages.state import Outstanding
from messages.status import Reason, Status
from runtime.loop.evolve import evolve
from runtime.views import (
    agent_row,
    approval_detail,
    approval_row,
    effect_chain,
    effect_row,
    event_lines,
    list_row,
    question_of,
    result_of,
    show_run,
    tool_rows,
    without_payloads,
)
from runtime.views.values import iso
from tests import journals
from tests.journals import HASH, KEY, PACKAGE_HASH, RUN, T0

CONTRACT_KEYS = {
    *("run_id", "trace_id", "agent", "agent_code", "tenant", "principal", "goal", "labels"),
    *("status", "reason", "version", "step_count", "reserved", "limits", "usage", "created_at"),
    *("updated_at", "deadline_at", "evidence", "tool_history", "outstanding", "approval"),
    *("question", "output", "summary", "parent", "children", "continues"),
}
CONTRACT_USAGE = {
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "tokens"),
    *("usd", "active_seconds", "suspended_seconds", "model_seconds", "tool_seconds"),
    *("model_calls", "tool_calls", "tool_errors", "escalations"),
}


def show(version: int, **changes: Any) -> dict[str, Any]:
    state = journals.state_at(version)
    return show_run(replace(state, **changes), journals.row_at(version, owner="p-1"))


def plain(view: object) -> Any:
    """As it arrives: through JSON."""
    return msgspec.json.decode(msgspec.json.encode(view))


def test_show_has_every_key_of_the_contract_at_every_version() -> None:
    for version in range(5):
        view = show(version)
        assert view.keys() >= CONTRACT_KEYS
        assert view["usage"].keys() >= CONTRACT_USAGE
        assert view["v"] == 1


def test_golden_show_of_a_run_that_waits_for_approval() -> None:
    view = plain(show(2))
    evidence = view.pop("evidence")
    assert view == {
        "v": 1,
        "run_id": RUN,
        "trace_id": "trace-7f3a",
        "agent": "refund",
        "agent_code": "abababababab",
        "tenant": "default",
        "principal": "submitter",
        "scopes": ["orders:read"],
        "goal": "Order 8472 was charged twice.",
        "inputs": {"order_id": "8472"},
        "labels": {"channel": "mail"},
        "status": "AWAITING_APPROVAL",
        "reason": "over_limit",
        "until": "2025-10-27T23:20:03.000Z",
        "version": 2,
        "step_count": 2,
        "reserved": None,
        "limits": {
            "max_steps": 8,
            "max_tokens": 40000,
            "max_usd": "0.50",
            "max_seconds": 120.0,
            "max_wait_seconds": 86400.0,
        },
        "usage": {
            "input_tokens": 2845,
            "output_tokens": 120,
            "cache_read_tokens": 0,
            "cache_write_tokens": 0,
            "tokens": 2965,
            "usd": "0.0082",
            "active_seconds": 4.0,
            "suspended_seconds": 0.0,
            "waited_seconds": 0.0,
            "model_seconds": 2.5,
            "tool_seconds": 0.063,
            "model_calls": 2,
            "tool_calls": 1,
            "tool_errors": 0,
            "escalations": 1,
            "flags": 0,
            "models": ["scripted"],
        },
        "created_at": "2025-10-27T21:20:00.000Z",
        "updated_at": "2025-10-27T21:20:04.000Z",
        "deadline_at": None,
        "tool_history": view["tool_history"],
        "outstanding": [
            {
                "kind": "issue_refund",
                "key": KEY,
                "status": "proposed",
                "verification": None,
                "action_hash": shown(HASH),
                "step": 2,
            }
        ],
        "approval": view["approvals"][0],
        "approvals": [
            {
                "id": "apr-5521",
                "action_hash": shown(HASH),
                "expires_at": "2025-10-27T23:20:03.000Z",
                "tool": "issue_refund",
                "group": "support-lead",
                "is_approved": False,
            }
        ],
        "question": None,
        "output": None,
        "summary": "",
        "parent": None,
        "children": [],
        "continues": None,
    }
    assert evidence == [
        {
            "id": "ev-1",
            "tool": "lookup_order",
            "request_id": "req-8472-01",
            "fetched_at": "2025-10-27T21:20:01.500Z",
            "duration_seconds": 0.063,
            "source": "payments-service",
            "payload": {"order_id": "8472", "total_inr": 2000},
        }
    ]


def test_tool_history_has_shown_hashes_and_the_key_of_a_write() -> None:
    read, write = show(4)["tool_history"]
    assert (read["step"], read["tool"], read["outcome"]) == (1, "lookup_order", "ok")
    assert (read["idempotency_key"], read["evidence_id"]) == (None, "ev-1")
    assert len(read["args_hash"]) == 12
    assert (write["idempotency_key"], write["evidence_id"]) == (KEY, "ev-2")


def test_queued_is_an_open_run_at_version_0_without_an_owner() -> None:
    state = journals.state_at(0)
    assert show_run(state, journals.row_at(0))["status"] == "QUEUED"
    assert show_run(state, journals.row_at(0, owner="p-1"))["status"] == "RUNNING"
    assert show_run(state, journals.row_at(4), at=0)["status"] == "RUNNING"
    assert list_row(journals.row_at(0))["status"] == "QUEUED"
    assert list_row(journals.row_at(1))["status"] == "RUNNING"


def test_a_run_that_ended_at_version_0_is_not_queued() -> None:
    end = Finished(status=Status.BUDGET_EXHAUSTED, reason=Reason.MAX_TOKENS)
    row = journals.row_at(0)
    row = replace(row, summary=replace(row.summary, status=Status.BUDGET_EXHAUSTED))
    view = show_run(evolve(journals.state_at(0), end), row)
    assert (view["status"], view["reason"]) == ("BUDGET_EXHAUSTED", "max_tokens")


def test_the_reservation_shows_what_the_step_may_cost() -> None:
    assert show(1)["reserved"] == {
        "step": 2,
        "tokens": 3000,
        "usd": "0.0125",
        "is_final": False,
    }


def test_the_approval_stays_until_its_call_has_a_result() -> None:
    assert show(3)["approval"]["id"] == "apr-5521"
    assert show(3)["approval"]["is_approved"] is True
    assert show(4)["approval"] is None


@pytest.mark.parametrize(("version", "status"), [(2, "proposed"), (3, "intended"), (4, "executed")])
def test_an_outstanding_action_shows_its_life(version: int, status: str) -> None:
    assert [item["status"] for item in show(version)["outstanding"]] == [status]


def test_what_was_dropped_is_not_outstanding() -> None:
    dropped = Outstanding(
        kind="issue_refund", key=KEY, action_hash=HASH, status="dropped", step=2, ordinal=0
    )
    assert show(2, outstanding=(dropped,))["outstanding"] == []


def test_the_deadline_counts_active_seconds_only_while_running() -> None:
    assert show(1)["deadline_at"] == iso(T0 + 2 + 120 - 2)
    assert show(2)["deadline_at"] is None
    assert show(4)["deadline_at"] == iso(T0 + 603.5 + 120 - 7)


def test_an_open_suspension_counts_up_to_now_for_the_newest_version_only() -> None:
    state, row = journals.state_at(2), journals.row_at(2)
    assert show_run(state, row, now=T0 + 64)["usage"]["suspended_seconds"] == 60.0
    old = show_run(state, journals.row_at(4), at=2, now=T0 + 64)
    assert old["usage"]["suspended_seconds"] == 0.0


def test_large_payloads_go_by_reference() -> None:
    state = journals.state_at(1)
    kept = replace(state.evidence[0], payload={"preview": "…"}, ref="cd" * 32)
    [view] = show(1, evidence=(kept,))["evidence"]
    assert view["ref"] == "cd" * 32
    assert "payload" not in view


def test_without_payloads_keeps_provenance() -> None:
    [view] = without_payloads(show(2))["evidence"]
    assert view["id"] == "ev-1"
    assert view["source"] == "payments-service"
    assert "payload" not in view


def test_the_question_of_a_run_that_waits_and_of_one_that_ended_with_it() -> None:
    asked = HumanAsked(step=1, question_id="q-x", text="Which?", group="desk")
    waiting = question_of(evolve(journals.state_at(1), asked))
    assert waiting is not None
    assert waiting.id == "q-x"
    block = {"type": "tool_use", "id": "tu", "name": "ask_user", "input": {"question": "Which?"}}
    state = evolve(
        journals.state_at(1), replace(journals.decided(2, "x", {}, 100), content=(block,))
    )
    state = evolve(state, Finished(status=Status.NEEDS_INPUT, reason=Reason.QUESTION))
    ended = question_of(state)
    assert ended is not None
    assert (ended.id, ended.text) == ("q-2", "Which?")
    assert question_of(journals.state_at(1)) is None


def test_the_result_is_what_show_says() -> None:
    state = journals.state_at(4)
    ended = replace(
        evolve(
            state,
            Finished(
                status=Status.SUCCEEDED, reason=Reason.VERIFIED, output={"ok": 1}, summary="done"
            ),
        ),
        version=5,
    )
    result = result_of(ended)
    assert (result.run_id, result.agent, result.version) == (RUN, "refund", 5)
    assert (result.status, result.reason) == ("SUCCEEDED", "verified")
    assert (result.output, result.summary) == ({"ok": 1}, "done")
    assert result.usage["tokens"] == 2965


# ------------------------------------------------------------------ events
def test_every_event_is_one_line_with_the_common_fields_and_no_payload() -> None:
    lines = [plain(line) for line in event_lines(journals.journal())]
    kinds = [kind_of(event) for entry in journals.journal() for event in entry.events]
    assert [line["kind"] for line in lines] == kinds
    for line in lines:
        assert line.keys() >= {"v", "run_id", "version", "at", "kind", "step"}
    text = msgspec.json.encode(lines)
    assert b"total_inr" not in text
    assert b"amount_inr" not in text


def test_golden_lines_of_the_entry_that_intends() -> None:
    lines = [plain(line) for line in event_lines(journals.journal()[3:4])]
    common = {"v": 1, "run_id": RUN, "version": 3, "at": iso(T0 + 601)}
    assert lines[1] == {
        **common,
        "kind": "approval_resolved",
        "step": 2,
        "ordinal": 0,
        "approval_id": "apr-5521",
        "decision": "approved",
        "person": "approver",
        "reason": "",
    }
    assert lines[-1] == {
        **common,
        "kind": "intended",
        "step": 2,
        "ordinal": 0,
        "tool": "issue_refund",
        "key": KEY,
        "action_hash": shown(HASH),
    }


def test_long_texts_are_cut() -> None:
    entry = replace(
        journals.journal()[0],
        events=(Finished(status=Status.CANCELLED, reason=Reason.BY_PERSON, why="x" * 9000),),
    )
    [line] = event_lines([entry])
    assert len(line["why"]) == 500


# ------------------------------------------------------------------ approvals, effects, agents
def test_an_approval_line_has_the_keys_of_the_contract() -> None:
    view = approval_row(journals.approval("pending"))
    assert view["id"] == "apr-5521"
    assert view["action_hash"] == shown(HASH)
    assert view.keys() >= {
        *("id", "run_id", "agent", "tool", "action_hash", "group", "size", "expires_at"),
    }


def test_an_approval_in_full_has_the_package_and_the_decision() -> None:
    assert approval_detail(journals.approval("pending"))["decision"] is None
    view = approval_detail(journals.approval(), {"tool": "issue_refund"})
    assert view["action_sha256"] == HASH
    assert view["package"] == {"tool": "issue_refund"}
    assert view["decision"]["person"] == "approver"


def test_the_chain_of_an_effect_names_every_link() -> None:
    package = {"tool": "issue_refund", "arguments": journals.ARGUMENTS}
    view = plain(
        effect_chain(
            journals.effect(),
            journals.journal(),
            [journals.approval()],
            {PACKAGE_HASH: package},
        )
    )
    assert view["decision"]["request_id"] == "msg-2"
    assert view["decision"]["proposal"]["input"] == journals.ARGUMENTS
    assert view["validation"]["arguments"] == journals.ARGUMENTS
    assert [(a["decision"], a["rule"]) for a in view["authorisation"]] == [
        ("ask", "over_limit"),
        ("allow", "over_limit"),
    ]
    assert view["authorisation"][1]["grant_id"] == "grt-2"
    assert view["approval"]["package"] == package
    assert view["approval"]["decision"]["person"] == "approver"
    assert [line["kind"] for line in view["approval_events"]] == [
        "approval_requested",
        "approval_resolved",
    ]
    assert [line["version"] for line in view["intent"]] == [3]
    assert view["execution"] == [{"claim_id": "clm-1", "grant_id": "grt-2", "at": iso(T0 + 602)}]
    assert view["record"]["evidence"]["id"] == "ev-2"
    assert [line["outcome"] for line in view["record"]["observed"]] == ["ok"]


def test_a_chain_of_another_step_takes_nothing_from_this_one() -> None:
    view = effect_chain(replace(journals.effect(), step=1, key="other"), journals.journal(), [])
    assert view["validation"] is None
    assert view["intent"] == []
    assert view["approval"] is None


def test_a_chain_shows_the_approval_of_its_own_call_the_newest_where_it_was_asked_twice() -> None:
    mine = journals.approval()
    expired = replace(mine, id="apr-old", requested_at=T0 + 1, state="expired")
    elsewhere = replace(mine, id="apr-other", step=1, requested_at=T0 + 99)
    other_action = replace(mine, id="apr-hash", action_hash="00" * 32, requested_at=T0 + 99)
    rows = [expired, mine, elsewhere, other_action]
    view = effect_chain(journals.effect(), journals.journal(), rows)
    assert view["approval"]["id"] == "apr-5521"


def test_an_effect_line() -> None:
    view = effect_row(journals.effect())
    assert (view["key"], view["state"], view["claims"]) == (KEY, "done", 1)


def test_agents_and_tools() -> None:
    assert agent_row(journals.SPEC)["tools"] == ["lookup_order", "issue_refund"]
    rows = tool_rows([journals.SPEC, replace(journals.SPEC, name="other")])
    assert [row["name"] for row in rows] == ["issue_refund", "lookup_order"]
    assert rows[0]["agents"] == ["refund", "other"]
    assert rows[0]["effect"] == "replay"
