"""The row of the ledger, and what was done in one sentence."""

from msgspec.structs import replace

from messages.events import Decided, Resumed
from runtime.loop.summary import summarise, what_was_done
from tests.journals import KEY, state_at
from tests.unit.runtime.loop.tales import allowed, born, called, intended, observed, told


def test_the_row_is_the_state_in_short() -> None:
    state = state_at(2)
    row = summarise(state)
    for name in ("agent", "agent_code", "labels", "status", "reason", "until", "step_count"):
        assert getattr(row, name) == getattr(state, name)
    assert (row.limits, row.usage, row.active_s) == (state.limits, state.usage, state.active_s)
    assert (row.principal, row.cost_microusd) == ("submitter", state.spent.cost_microusd)


def test_the_row_holds_what_metrics_are_made_of() -> None:
    state = replace(state_at(4), flags=2, children_microusd=100)
    row = summarise(state)
    for name in ("model_s", "tool_s", "models", "model_calls", "tool_calls", "tool_errors"):
        assert getattr(row, name) == getattr(state, name)
    assert (row.flags, row.suspended_s) == (2, state.suspended_s)
    assert row.own_microusd == state.spent.cost_microusd - 100


def test_each_model_that_answered_is_named_once() -> None:
    def answer(model: str) -> Decided:
        return replace(called("look"), model=model)

    state = told(born(), answer("b"), answer("a"), answer("b"), answer(""))
    assert summarise(state).models == ("b", "a")


def test_a_wait_that_this_entry_ends_is_over_in_its_row() -> None:
    waiting = state_at(2)
    assert waiting.suspended_at is not None
    assert summarise(waiting, now=waiting.suspended_at + 9).suspended_s == 0.0
    back = told(waiting, Resumed(why="decision"))
    assert summarise(back, now=waiting.suspended_at + 9).suspended_s == 9.0
    assert summarise(back, now=waiting.suspended_at - 9).suspended_s == 0.0


def test_a_long_goal_is_cut_in_the_row() -> None:
    state = replace(born(), goal="x" * 5_000)
    assert len(summarise(state).goal) == 200


def test_what_was_done_names_writes_by_their_keys() -> None:
    assert what_was_done(born()) == "0 steps; 0 reads; no side effects"
    assert what_was_done(state_at(1)) == "1 steps; 1 reads; no side effects"
    assert what_was_done(state_at(4)) == f"2 steps; 1 reads; done: issue_refund ({KEY})"


def test_what_is_open_is_said_to_be_unknown() -> None:
    state = intended(allowed("mail"))
    assert what_was_done(state) == "1 steps; 0 reads; outcome unknown: mail (mail:x0)"
    assert "unknown" not in what_was_done(observed(state))


def test_a_write_that_did_not_happen_is_not_done() -> None:
    state = observed(intended(allowed("mail")), kind="not_started")
    assert what_was_done(state) == "1 steps; 0 reads"
