import pytest

from messages.base import Failure
from messages.ledger import AnyLedgerAnswer, AnyLedgerRequest, Created
from runtime.clock import FakeClock
from runtime.ledger import memory, rules
from runtime.ledger.memory import MemoryLedger
from runtime.ledger.tables import Tables
from tests.contract.ledger_kit import born


def test_an_operation_that_crashes_half_way_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def buggy(t: Tables, op: AnyLedgerRequest, now: float) -> AnyLedgerAnswer:
        answer = rules.apply(t, op, now)
        if getattr(op, "run_id", "") == "bad":
            raise KeyError("secret payload")
        return answer

    monkeypatch.setattr(memory, "apply", buggy)
    ledger = MemoryLedger(FakeClock().now)
    first, bad, last = ledger.apply_now([born("a"), born("bad"), born("b")])
    assert isinstance(first, Created)
    assert isinstance(bad, Failure)
    assert "secret" not in bad.message
    assert isinstance(last, Created)
    assert {run_id for _, run_id in ledger.tables.runs} == {"a", "b"}
    assert {run_id for _, run_id in ledger.tables.journal} == {"a", "b"}
