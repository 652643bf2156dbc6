import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from messages.errors import NotFound
from tests.unit.treadle.cli.fakes import FakeDaemon, RunCli, approval_row, event, run_row
from treadle.cli import session
from treadle.cli.options import Options


def test_ls_prints_a_table(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.runs = [run_row(), run_row("run-2", "AWAITING_APPROVAL", reason="over_limit")]
    head, first, second = cli("ls").out.splitlines()
    assert head.split() == ["RUN", "AGENT", "STATUS", "STEPS", "TOKENS", "COST", "AGE", "REASON"]
    assert first.split()[:6] == ["run-1", "refund", "●", "RUNNING", "1/8", "1,260"]
    assert "AWAITING_APPROVAL" in second
    assert second.endswith("over_limit")


def test_ls_as_json_jsonl_and_names(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.runs = [run_row(), run_row("run-2")]
    reply = cli("ls", "-o", "json").json
    assert reply["v"] == 1
    assert [row["run_id"] for row in reply["runs"]] == ["run-1", "run-2"]
    lines = [json.loads(line) for line in cli("ls", "-o", "jsonl").out.splitlines()]
    assert [(line["v"], line["run_id"]) for line in lines] == [(1, "run-1"), (1, "run-2")]
    assert cli("ls", "-o", "name").out == "run-1\nrun-2\n"


def test_ls_passes_its_filters_on(cli: RunCli, daemon: FakeDaemon) -> None:
    cli("ls", "--status", "failed", "--agent", "a", "--label", "k=v=w", "--since", "1.5h")
    assert daemon.asked == [
        (
            "list",
            {
                "status": "FAILED",
                "agent": "a",
                "labels": {"k": "v=w"},
                "since": 5400.0,
                "limit": 50,
                "ended": True,
            },
        )
    ]
    assert daemon.users == ["operator"]


@pytest.mark.parametrize(
    ("arguments", "is_ended"), [((), False), (("--all",), True), (("--label", "a=b"), True)]
)
def test_ls_lists_open_runs_unless_told_otherwise(
    cli: RunCli, daemon: FakeDaemon, arguments: tuple[str, ...], is_ended: object
) -> None:
    cli("ls", *arguments)
    assert daemon.asked[0][1]["ended"] is is_ended


def test_ls_filters_by_tenant(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.runs = [run_row(), run_row("run-2", tenant="other")]
    assert cli("ls", "--tenant", "other", "-o", "name").out == "run-2\n"


def test_show_prints_one_object(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.runs = [run_row()]
    assert cli("show", "run-1", "--at", "3", "-o", "json").json == {"v": 1, **run_row()}
    assert daemon.asked == [("show", {"run_id": "run-1", "at": 3})]


def test_show_for_people_says_where_it_stands(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.runs = [
        run_row(
            status="AWAITING_APPROVAL",
            reason="over_limit",
            evidence=[{"id": "ev-1", "source": "payments", "payload": {"order": "8472"}}],
            tool_history=[{"step": 1, "tool": "lookup", "outcome": "ok", "evidence_id": "ev-1"}],
            outstanding=[{"kind": "issue_refund", "key": "refund:1", "status": "proposed"}],
            approvals=[{"id": "apr-5521"}],
        )
    ]
    text = cli("show", "run-1").out
    assert "◐ AWAITING_APPROVAL (over_limit)" in text
    assert "treadle approvals show apr-5521" in text
    assert '{"order":"8472"}' in text
    assert "refund:1" in text


def test_show_of_a_run_that_is_not_there_is_3(cli: RunCli, daemon: FakeDaemon) -> None:
    assert daemon.runs == []
    assert cli("show", "run-9").code == 3


def test_watch_prints_each_event_until_the_end(cli: RunCli, daemon: FakeDaemon) -> None:
    first, second = event(1, "observed"), event(2, "finished", status="SUCCEEDED")
    daemon.pages = [
        {"events": [first], "version": 1, "terminal": False},
        {"events": [second], "version": 2, "terminal": True},
    ]
    lines = [json.loads(line) for line in cli("watch", "run-1", "-o", "jsonl").out.splitlines()]
    assert lines == [first, second]
    assert [body["after"] for _, body in daemon.asked] == [-1, 1]


def test_watch_from_a_version(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.pages = [{"events": [], "version": 4, "terminal": True}]
    daemon.pages[0]["events"] = [event(4, "finished")]
    cli("watch", "run-1", "--from", "4")
    assert daemon.asked[0] == ("events", {"run_id": "run-1", "after": 3})


def test_watch_as_json_is_one_document(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.pages = [{"events": [event(1, "finished")], "version": 1, "terminal": True}]
    assert cli("watch", "run-1", "-o", "json").json == {"v": 1, "events": [event(1, "finished")]}


def test_effects_are_listed_and_shown(cli: RunCli, daemon: FakeDaemon) -> None:
    row = {"key": "refund:1", "state": "done", "tool": "issue_refund", "run_id": "run-1"}
    daemon.ledger = [row]
    assert cli("effects", "-o", "name").out == "refund:1\n"
    assert cli("effects", "ls", "--unresolved", "-o", "json").json["effects"] == [row]
    assert cli("effects", "show", "refund:1", "-o", "json").json == {"v": 1, **row}
    assert daemon.asked[1][1] == {"run_id": None, "unresolved": True, "limit": 100}
    assert daemon.asked[2][1] == {"key": "refund:1"}


def test_an_effect_is_shown_with_its_whole_chain(cli: RunCli, daemon: FakeDaemon) -> None:
    observed = event(6, "observed", outcome="ok")
    daemon.ledger = [
        {
            "key": "refund:1",
            "state": "done",
            "tool": "issue_refund",
            "run_id": "run-1",
            "is_flagged": True,
            "decision": event(4, "decided", model="m"),
            "authorisation": [{"decision": "ask", "rule": "over_limit"}, {"decision": "allow"}],
            "approval": approval_row(state="approved", decision={"person": "dana"}),
            "record": {"observed": [observed], "verified": [], "problem": None},
        }
    ]
    chain, _, seen = cli("effects", "show", "refund:1").out.partition("What the approver saw:")
    links = [line.split()[0] for line in chain.splitlines() if line]
    assert links == ["key", "state", "run", "tool", "decision", *["authorisation"] * 2, "observed"]
    assert "needs a person" in chain
    assert '"8472"' in seen
    assert "person=dana" in seen


def test_an_effect_that_is_not_there_is_3(cli: RunCli, daemon: FakeDaemon) -> None:
    assert daemon.ledger == []
    assert cli("effects", "show", "refund:1").code == 3


@pytest.fixture
def recorded(daemon: FakeDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDaemon:
    """A data directory with a ledger and no daemon."""
    recorded = FakeDaemon(runs=[run_row()])

    @asynccontextmanager
    async def read_offline(options: Options, _tenant: object) -> AsyncGenerator[FakeDaemon]:
        if options.directory != tmp_path:
            raise NotFound("ledger", str(options.directory))
        yield recorded

    monkeypatch.setattr(session, "read_offline", read_offline)
    daemon.is_down = True
    return recorded


def test_without_a_daemon_the_data_directory_is_read(
    cli: RunCli, recorded: FakeDaemon, tmp_path: Path
) -> None:
    result = cli("ls", "-o", "name", "--data-dir", str(tmp_path))
    assert (result.code, result.out) == (0, "run-1\n")
    assert "no daemon runs on .treadle; reading" in result.err
    assert recorded.asked[0][0] == "list"


def test_quiet_drops_that_note(cli: RunCli, recorded: FakeDaemon, tmp_path: Path) -> None:
    assert recorded.runs
    assert cli("-q", "ls", "--data-dir", str(tmp_path)).err == ""


def test_recorded_history_ends_where_it_ends(
    cli: RunCli, recorded: FakeDaemon, tmp_path: Path
) -> None:
    recorded.pages = [{"events": [event(1, "observed")], "version": 1, "terminal": False}]
    result = cli("watch", "run-1", "-o", "jsonl", "--data-dir", str(tmp_path))
    assert json.loads(result.out) == event(1, "observed")


def test_without_daemon_and_data_it_is_69(
    cli: RunCli, recorded: FakeDaemon, tmp_path: Path
) -> None:
    assert cli("ls", "--data-dir", str(tmp_path / "other"), "-q").code == 69
    assert recorded.asked == []


def test_a_named_server_has_no_data_directory(
    cli: RunCli, recorded: FakeDaemon, tmp_path: Path
) -> None:
    line = ("ls", "--nats", "nats://127.0.0.1:1", "--data-dir", str(tmp_path))
    assert cli(*line).code == 69
    assert recorded.asked == []
