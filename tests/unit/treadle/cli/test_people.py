import pytest

from messages.errors import Conflict
from tests.unit.treadle.cli.fakes import FakeDaemon, RunCli, approval_row, run_row
from treadle.cli.options import Options

FULL = "9c41e0d2b7f3" + "0" * 52


@pytest.fixture
def waiting(daemon: FakeDaemon) -> FakeDaemon:
    daemon.waiting = [approval_row()]
    return daemon


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Somebody at the terminal, whose answers are taken from the list."""
    answers: list[str] = []

    def confirm(*_: object, **__: object) -> bool:
        return answers.pop(0) == "y"

    monkeypatch.setattr(Options, "may_ask", property(lambda options: not options.is_yes))
    monkeypatch.setattr("click.confirm", confirm)
    return answers


def test_approvals_are_listed(cli: RunCli, waiting: FakeDaemon) -> None:
    assert waiting.waiting
    row = cli("approvals", "-o", "json").json["approvals"][0]
    assert {"id", "run_id", "agent", "tool", "action_hash", "group", "size", "expires_at"} <= set(
        row
    )
    assert "support-lead (size 2000)" in cli("approvals", "ls").out


def test_show_prints_exactly_what_is_decided_over(cli: RunCli, waiting: FakeDaemon) -> None:
    text = cli("approvals", "show", "apr-5521").out
    for part in ('"8472"', "2000", "9c41e0d2b7f3", "refund:order-8472:pay_5a2:v1", "POL-REF-004"):
        assert part in text
    assert cli("approvals", "show", "apr-5521", "-o", "json").json["id"] == "apr-5521"
    assert waiting.asked[0] == ("approvals", {"ids": ["apr-5521"]})


def test_an_approval_that_is_not_there_is_3(cli: RunCli, waiting: FakeDaemon) -> None:
    assert waiting.waiting
    assert cli("approvals", "show", "apr-1").code == 3


def test_approve_sends_the_hash_it_printed(cli: RunCli, waiting: FakeDaemon) -> None:
    result = cli("approve", "apr-5521", "--note", "checked")
    assert result.code == 0
    assert '"8472"' in result.err
    assert result.out.startswith("approved apr-5521 by dana for action 9c41e0d2b7f3")
    sent = {"approval_id": "apr-5521", "action": FULL, "reason": "checked"}
    assert waiting.asked[-1] == ("approve", sent)
    assert waiting.users == ["approver"]


def test_approve_sends_the_hash_it_was_given(cli: RunCli, waiting: FakeDaemon) -> None:
    cli("approve", "apr-5521", "--action", "9c41e0d2b7f3")
    sent = {"approval_id": "apr-5521", "action": "9c41e0d2b7f3", "reason": ""}
    assert waiting.asked[1:] == [("approve", sent)]


def test_one_hash_cannot_be_for_two_approvals(cli: RunCli, waiting: FakeDaemon) -> None:
    assert cli("approve", "apr-1", "apr-2", "--action", "9c41e0d2b7f3").code == 2
    assert waiting.asked == []


def test_a_decided_approval_is_7(cli: RunCli, waiting: FakeDaemon) -> None:
    waiting.refusal = Conflict("was approved by dana", why="ALREADY_DECIDED")
    result = cli("approve", "apr-5521", "--action", "9c41e0d2b7f3", "-o", "json")
    assert result.code == 7
    assert result.error["code"] == "ALREADY_DECIDED"


def test_deny_needs_and_sends_a_reason(cli: RunCli, waiting: FakeDaemon) -> None:
    assert cli("deny", "apr-5521").code == 2
    assert cli("deny", "apr-5521", "--reason", "wrong item", "-o", "name").out == "apr-5521\n"
    sent = {"approval_id": "apr-5521", "action": "", "reason": "wrong item"}
    assert waiting.asked[1:] == [("deny", sent)]


@pytest.mark.parametrize("line", ["approve apr-5521", "deny apr-5521 --reason no"])
def test_what_was_decided_is_printed_with_its_arguments(
    line: str, cli: RunCli, waiting: FakeDaemon
) -> None:
    assert waiting.waiting
    out = cli(*line.split()).out
    assert out.endswith('issue_refund(order_id="8472", amount_inr=2000)\n')
    reply = cli(*line.split(), "-o", "json").json["approvals"][0]
    assert reply["package"]["action"]["arguments"] == {"order_id": "8472", "amount_inr": 2000}
    assert reply["decision"]["person"] == "dana"


def test_a_person_at_the_terminal_is_asked(
    cli: RunCli, waiting: FakeDaemon, person: list[str]
) -> None:
    person += ["n", "y"]
    refused = cli("approve", "apr-5521")
    assert (refused.code, "nothing was done" in refused.err) == (1, True)
    assert [verb for verb, _ in waiting.asked] == ["approvals"]
    assert cli("approve", "apr-5521").code == 0
    assert cli("approve", "apr-5521", "--yes").code == 0
    assert person == []


def test_cancel_one_run(cli: RunCli, daemon: FakeDaemon) -> None:
    reply = cli("cancel", "run-1", "--reason", "twice", "-o", "json").json
    assert reply == {"v": 1, "run_id": "run-1"}
    assert daemon.asked == [("cancel", {"run_id": "run-1", "reason": "twice"})]
    assert daemon.users == ["operator"]


@pytest.mark.parametrize("line", ["cancel", "cancel run-1 --agent refund"])
def test_cancel_names_a_run_or_what_matches(line: str, cli: RunCli, daemon: FakeDaemon) -> None:
    assert cli(*line.split()).code == 2
    assert daemon.asked == []


def test_bulk_cancel_shows_the_matches_and_needs_a_yes(cli: RunCli, daemon: FakeDaemon) -> None:
    daemon.runs = [run_row(), run_row("run-2")]
    line = ("cancel", "--agent", "refund", "--status", "running")
    refused = cli(*line)
    assert refused.code == 2
    assert "run-2" in refused.err
    assert [verb for verb, _ in daemon.asked] == ["list"]
    done = cli(*line, "--yes", "-o", "json")
    assert [row["run_id"] for row in done.json["runs"]] == ["run-1", "run-2"]
    assert [verb for verb, _ in daemon.asked] == ["list", "list", "cancel", "cancel"]


def test_bulk_cancel_asks_a_person(cli: RunCli, daemon: FakeDaemon, person: list[str]) -> None:
    daemon.runs = [run_row()]
    person += ["n", "y"]
    assert cli("cancel", "--agent", "refund").code == 1
    assert cli("cancel", "--agent", "refund").code == 0
    assert [verb for verb, _ in daemon.asked] == ["list", "list", "cancel"]


def test_bulk_cancel_without_a_match_is_done(cli: RunCli, daemon: FakeDaemon) -> None:
    assert cli("cancel", "--agent", "refund").out == "no open run matches\n"
    assert daemon.asked[0][1]["agent"] == "refund"
