import pytest

from tests.unit.treadle.cli.fakes import FakeDaemon, RunCli, run_row


@pytest.mark.parametrize("verb", ["pause", "resume"])
def test_one_run(verb: str, cli: RunCli, daemon: FakeDaemon) -> None:
    assert cli(verb, "run-1", "--reason", "look").out == f"{verb} asked: run-1\n"
    sent = {"run_id": "run-1", "agent": None, "everything": False, "reason": "look"}
    assert daemon.asked == [(verb, sent)]
    assert daemon.users == ["operator"]


@pytest.mark.parametrize("verb", ["pause", "resume"])
@pytest.mark.parametrize("rest", ["", "run-1 --all", "--agent a --all", "run-1 --agent a"])
def test_exactly_one_thing_is_named(verb: str, rest: str, cli: RunCli, daemon: FakeDaemon) -> None:
    assert cli(verb, *rest.split()).code == 2
    assert daemon.asked == []


def test_a_hold_shows_its_matches_and_needs_a_yes(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.runs = [run_row(), run_row("run-2")]
    refused = cli("pause", "--agent", "refund")
    assert refused.code == 2
    assert "run-2" in refused.err
    assert [verb for verb, _ in daemon.asked] == ["list"]
    assert cli("pause", "--agent", "refund", "--yes").out == "held: agent refund\n"
    assert cli("pause", "--all", "--yes", "-o", "json").json == {"v": 1, "held": "*"}
    assert daemon.asked[-1][1]["everything"] is True


def test_a_hold_is_lifted_without_a_question(cli: RunCli, daemon: FakeDaemon) -> None:
    assert cli("resume", "--all").out == "lifted: everything\n"
    assert cli("resume", "--agent", "refund", "-o", "name").out == "refund\n"
    assert [verb for verb, _ in daemon.asked] == ["resume", "resume"]


def test_show_of_a_paused_run_says_how_to_go_on(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.runs = [run_row(status="PAUSED")]
    assert "treadle resume run-1" in cli("show", "run-1").out


def test_show_does_not_send_to_an_approval_that_was_decided(
    cli: RunCli, daemon: FakeDaemon
) -> None:
    decided = {"id": "apr-1", "state": "approved", "is_approved": False}
    waiting = {"id": "apr-2", "state": "pending", "is_approved": False}
    daemon.runs = [run_row(status="AWAITING_APPROVAL", approvals=[decided, waiting])]
    text = cli("show", "run-1").out
    assert "apr-1" not in text
    assert "treadle approvals show apr-2" in text
