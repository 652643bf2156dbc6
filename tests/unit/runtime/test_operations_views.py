"""Views for operators: traces, actors, and the checks of doctor."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from messages.errors import BrokenChain, NotFound, TreadleError
from messages.events import (
    AttemptFailed,
    Observed,
    ProposalRejected,
    StepLost,
    StepReserved,
    Suspended,
    Verified,
)
from messages.ledger import Due, DueRun, DueRuns, RunRow, RunRows
from messages.parts import Amount, Attempt, Problem, Reservation
from messages.status import Status
from messages.subjects import ROLES
from runtime.views import trace_run
from runtime.views.actors import actor_rows, missing_roles
from runtime.views.checkup import check_owners, due_runs, failed, follow_chain
from runtime.views.events import event_lines
from runtime.views.values import evidence_view, iso
from tests import journals
from tests.journals import RUN, T0


def stats(role: str, process: str = "conn-1", **counts: int) -> bytes:
    endpoint = {"name": role, "num_requests": 3, "processing_time": 2_000_000_000, "data": counts}
    about = {"role": role, "process": "treadle-daemon", "host": "h", "pid": "12"}
    answer = {
        "type": "io.nats.micro.v1.stats_response",
        "name": f"treadle-{role}",
        "id": process,
        "version": "1.0.0",
        "metadata": about,
        "started": "2026-10-28T11:17:43Z",
        "endpoints": [endpoint, {**endpoint, "name": "lookup_order"}],
    }
    return msgspec.json.encode(answer)


# ------------------------------------------------------------------ trace
def traced(version: int = 4, now: float = T0 + 700) -> dict[str, Any]:
    entries = journals.journal()[: version + 1]
    return trace_run(journals.state_at(version), journals.row_at(version), entries, now)


def test_a_trace_has_times_tokens_cost_and_calls() -> None:
    first, second, third = traced()["steps"]
    assert (first["tokens"], first["usd"], first["model"]["seconds"]) == (1260, "0.0041", 1.25)
    [call] = second["calls"]
    assert (call["tool"], call["outcome"], call["seconds"]) == ("issue_refund", "ok", 0.5)
    assert call["approval"] == {
        "id": "apr-5521",
        "group": "support-lead",
        "decision": "approved",
        "person": "approver",
    }
    assert (third["model"], third["calls"]) == (None, [])


def test_the_final_turn_stands_apart_from_the_last_step() -> None:
    entries = list(journals.journal()[:2])
    final = Reservation(
        step=1, most=Amount(tokens=500), output_tokens=200, take_id="t", is_final=True
    )
    last = replace(
        entries[1],
        version=2,
        events=(StepReserved(reservation=final), journals.decided(1, "nothing", {}, 30)),
    )
    before = trace_run(journals.state_at(1), journals.row_at(1), entries, T0 + 9)["steps"]
    run = trace_run(journals.state_at(1), journals.row_at(1), [*entries, last], T0 + 9)
    *steps, end = run["steps"]
    assert steps[0] == before[0], "the step keeps its own decision, tokens and calls"
    assert (end["step"], end["is_final"], end["calls"]) == (None, True, [])
    assert (end["model"]["proposes"], end["tokens"]) == ("final", 30)


def test_a_look_long_after_a_step_does_not_lengthen_it() -> None:
    entries = journals.journal()
    before = traced()["steps"]
    look = Verified(step=2, key=journals.KEY, is_there=True)
    late = replace(entries[4], version=5, at=T0 + 7200, events=(look,))
    run = trace_run(journals.state_at(4), journals.row_at(4), [*entries, late], T0 + 7300)
    steps = run["steps"]
    assert steps[1]["seconds"] == before[1]["seconds"]
    assert steps[1]["notes"][-1]["kind"] == "verified"


def test_a_wait_ends_when_the_run_goes_on() -> None:
    [wait] = traced()["waits"]
    assert (wait["step"], wait["seconds"], wait["is_open"]) == (2, 597.0, False)
    [wait] = traced(version=2, now=T0 + 10)["waits"]
    assert (wait["seconds"], wait["is_open"]) == (6.0, True)


def test_a_wait_that_is_written_again_begins_anew() -> None:
    entries = list(journals.journal()[:3])
    again = Suspended(status=Status.WAITING, reason="timer", until=T0 + 99)
    entries.append(replace(entries[2], version=3, at=T0 + 7, events=(again,)))
    run = trace_run(journals.state_at(2), journals.row_at(2), entries, T0 + 10)
    waits = [(wait["seconds"], wait["is_open"]) for wait in run["waits"]]
    assert waits == [(3.0, False), (3.0, True)]


def test_what_was_not_read_again_is_shown_as_such() -> None:
    entries = list(journals.journal()[:2])
    [seen] = [event for event in entries[1].events if isinstance(event, Observed)]
    assert seen.evidence is not None
    evidence = replace(seen.evidence, reused="ev-0", duration_s=0.0)
    entries[1] = replace(entries[1], events=(replace(seen, evidence=evidence),))
    run = trace_run(journals.state_at(1), journals.row_at(1), entries, T0 + 9)
    [call] = run["steps"][0]["calls"]
    assert (call["reused"], call["seconds"]) == ("ev-0", 0.0)
    assert "started_at" not in call, "nothing was started"
    [line] = event_lines([entries[1]])
    assert line["reused"] == evidence_view(evidence)["reused"] == "ev-0"
    assert "reused" not in evidence_view(seen.evidence)


def test_a_trace_holds_what_was_rejected_and_lost() -> None:
    entries = list(journals.journal()[:2])
    problem = Problem(code="UNKNOWN_TOOL", message="there is no such tool")
    events = (
        journals.decided(1, "nothing", {"a": "x" * 3000}, 100),
        ProposalRejected(step=1, ordinal=0, problem=problem),
        StepLost(step=1, charged=Amount(tokens=5), why="the planner died"),
    )
    entries[1] = replace(entries[1], events=events)
    run = trace_run(journals.state_at(1), journals.row_at(1), entries, T0 + 9)
    [step] = run["steps"]
    [call] = step["calls"]
    assert (call["tool"], call["outcome"]) == ("nothing", "rejected")
    assert call["problem"]["code"] == "UNKNOWN_TOOL"
    assert call["arguments"] == {"omitted": "too_large"}
    assert step["notes"] == [{"kind": "step_lost", "message": "the planner died"}]
    assert step["tokens"] == 105


def test_a_trace_holds_every_attempt_and_begins_with_the_first() -> None:
    entries = list(journals.journal()[:2])
    problem = Problem(code="OVERLOADED", message="the provider answered 529")
    tried = Attempt(request_id="req-1", started_at=T0 + 1, duration_s=2.0, error=problem)
    failed = AttemptFailed(step=1, charged=Amount(tokens=5), attempt=tried)
    events = (failed, failed, journals.decided(1, "nothing", {}, 100))
    entries[1] = replace(entries[1], events=events)
    [step] = trace_run(journals.state_at(1), journals.row_at(1), entries, T0 + 9)["steps"]
    note = {
        "kind": "attempt_failed",
        "message": "the provider answered 529",
        "request_id": "req-1",
        "seconds": 2.0,
    }
    assert step["notes"] == [note, note]
    assert (step["model"]["attempts"], step["tokens"]) == (3, 110)
    assert step["started_at"] == iso(T0 + 1)


# ------------------------------------------------------------------ actors
def test_actors_come_in_the_order_of_the_roles() -> None:
    foreign = msgspec.json.encode({"name": "somebody", "id": "x", "metadata": {}})
    rows = actor_rows([stats("planner", running=2), stats("gateway"), foreign, b"nonsense"])
    assert [row["role"] for row in rows] == ["gateway", "planner"]
    planner = rows[1]
    assert (planner["pid"], planner["running"], planner["served"]) == (12, 4, 6)
    assert (planner["busy_seconds"], planner["tools"]) == (4.0, ["lookup_order"])


def test_roles_that_nobody_serves_are_missed() -> None:
    everybody = [stats(role) for role in ROLES]
    assert missing_roles(actor_rows(everybody)) == []
    assert missing_roles(actor_rows(everybody[1:])) == [ROLES[0]]


# ------------------------------------------------------------------ checks
def row(version: int = 4, **changes: Any) -> RunRow:
    return replace(journals.row_at(version), **changes)


def test_a_run_between_two_owners_is_not_lost() -> None:
    now = T0 + 700
    dead = {RUN: row(owner="proc-1")}
    assert check_owners(dead, dead, now, 2.5)["ok"] is False
    assert RUN in check_owners(dead, dead, now, 2.5)["detail"]
    assert check_owners({}, dead, now, 2.5)["ok"] is True
    assert check_owners(dead, {RUN: row(owner="proc-1", version=5)}, now, 2.5)["ok"] is True


def test_a_run_that_waits_for_a_slot_is_lost_only_after_a_while() -> None:
    fresh = {RUN: row(owner=None, updated_at=T0)}
    assert check_owners(fresh, fresh, T0 + 3, 2.5)["ok"] is True
    assert check_owners(fresh, fresh, T0 + 30, 2.5)["ok"] is False


async def test_only_drives_of_ones_own_tenant_are_looked_at() -> None:
    async def ask(request: Any) -> Any:
        if isinstance(request, Due):
            runs = [
                DueRun(tenant="default", run_id=RUN, need="drive"),
                DueRun(tenant="default", run_id="done", need="publish"),
                DueRun(tenant="acme", run_id="theirs", need="drive"),
            ]
            return DueRuns(runs=tuple(runs), now=T0)
        return RunRows(rows=(row(), row(run_id="done")))

    assert set(await due_runs(ask, "default", "doctor")) == {RUN}


def test_a_chain_that_is_broken_is_found() -> None:
    entries = [
        replace(entry, prev_hash=f"{entry.version - 1:064x}" if entry.version else "")
        for entry in journals.journal()
    ]
    follow_chain(entries, entries[-1].hash)
    for broken in (entries[1:], entries[:-1], [*entries[:2], *entries[3:]], []):
        with pytest.raises(BrokenChain):
            follow_chain(broken, entries[-1].hash)


def test_a_check_that_cannot_be_made_is_a_finding() -> None:
    error: TreadleError = NotFound("stream", "X", hint="restart")
    found = failed("streams", error)
    assert (found["ok"], found["hint"]) == (False, "restart")
    assert "NOT_FOUND" in found["detail"]
