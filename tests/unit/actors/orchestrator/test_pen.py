"""The pen: what is buffered, what the ledger's answers make of it, and whose reservation it is."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from actors.orchestrator.pen import Lost, Pen, Reloaded
from messages import events as e
from messages.errors import StorageError
from messages.ledger import (
    Append,
    Committed,
    Conflicted,
    KeysTaken,
    Loaded,
    Missing,
    Refused,
    RunEnded,
    RunRow,
    Signal,
    Stale,
    Taken,
    TakenKey,
)
from messages.parts import Evidence
from messages.state import LoopState
from messages.status import Status
from runtime.asking import Asking
from runtime.clock import FakeClock, FixedIds
from runtime.loop.summary import summarise
from tests.unit.runtime.loop.tales import (
    T0,
    accepted,
    assessed,
    authorised,
    born,
    called,
    decided,
    observed,
    told,
    use,
)

Answer = Callable[[Append], Any]


class Ledger(Asking):
    """Answers in turn, and remembers what it was asked."""

    def __init__(self, *answers: Answer | Any) -> None:  # pyright: ignore[reportMissingSuperCall] - it has no bus
        self.answers = list(answers)
        self.appends: list[Append] = []

    async def ledger(self, request: Any) -> Any:
        if isinstance(request, Append):
            self.appends.append(request)
        answer = self.answers.pop(0)
        return answer(request) if callable(answer) else answer


def committed(append: Append, **fields: Any) -> Committed:
    return Committed(version=append.version, hash=f"h{append.version}", now=T0 + 10, **fields)


def pen_of(state: LoopState, ledger: Ledger, **taken: Any) -> tuple[Pen, FakeClock]:
    clock = FakeClock()
    given = {
        "entries": (),
        "version": state.version,
        "head_hash": state.head_hash,
        "now": T0,
        "is_clean": True,
        **taken,
    }
    pen = Pen(
        asking=ledger,
        clock=clock,
        ids=FixedIds(),
        process="p1",
        take_id="take-1",
        state=state,
        taken=Taken(**given),  # pyright: ignore[reportArgumentType]
        tail=(),
    )
    return pen, clock


def between_steps() -> LoopState:
    state = told(born(), called("mail", "mail"))
    return authorised(accepted(state), "allow", "allow")


def intent(ordinal: int, key: str) -> e.Intended:
    return e.Intended(
        step=1,
        ordinal=ordinal,
        tool="mail",
        key=key,
        action_hash="x",
        grant_id="gr-1",
        effect="lookup",
    )


# ------------------------------------------------------------------ commit
async def test_what_is_added_is_known_at_once_and_durable_after_the_flush() -> None:
    ledger = Ledger(committed)
    pen, clock = pen_of(born(), ledger)
    clock.advance(2.5)
    pen.add(called("look"))
    assert (pen.state.step_count, pen.is_dirty) == (1, True)
    await pen.flush()
    [append] = ledger.appends
    assert (append.version, append.prev_hash, append.take_id) == (1, "h0", "take-1")
    assert append.active_s == 2.5
    assert (pen.state.version, pen.state.head_hash, pen.is_dirty) == (1, "h1", False)
    assert pen.state.active_s == 2.5
    assert [entry.version for entry in pen.take_written()] == [1]
    assert pen.take_written() == []
    assert [entry.version for entry in pen.tail] == [1]
    pen.forget_tail()
    assert pen.tail == ()


async def test_the_ledgers_clock_is_carried_on_by_the_monotonic_one() -> None:
    pen, clock = pen_of(born(), Ledger(committed))
    clock.advance(3)
    clock.jump(-1_000)
    assert pen.now() == T0 + 3
    pen.add(called("look"))
    await pen.flush()
    clock.advance(1)
    assert pen.now() == T0 + 11
    assert pen.moment().stretch_s == 1


async def test_active_time_of_an_entry_is_counted_once() -> None:
    ledger = Ledger(committed, committed)
    pen, clock = pen_of(born(), ledger)
    for seconds in (2.0, 3.0):
        clock.advance(seconds)
        pen.add(e.Planned(step=1, plan=()))
        await pen.flush()
    assert [append.active_s for append in ledger.appends] == [2.0, 3.0]
    assert pen.state.active_s == 5.0


# ------------------------------------------------------------------ keys that are taken
async def test_a_taken_key_becomes_the_observation_of_its_call_and_no_other() -> None:
    """Two calls may share a key: the ledger names the one that cannot be intended."""
    taken = TakenKey(key="k", state="busy", run_id="r", step=1, ordinal=1)
    ledger = Ledger(KeysTaken(keys=(taken,)), committed)
    pen, _ = pen_of(between_steps(), ledger)
    pen.add(intent(0, "k"), intent(1, "k"))
    await pen.flush()
    kinds = [type(event).__name__ for event in ledger.appends[1].events]
    assert kinds == ["Intended", "Observed"]
    assert ledger.appends[0].append_id != ledger.appends[1].append_id
    assert pen.state.turn is not None
    assert [call.phase for call in pen.state.turn.calls] == ["intended", "observed"]


@pytest.mark.parametrize(
    ("state", "kind", "code"),
    [
        ("done", "ok", None),
        ("busy", "refused", "KEY_BUSY"),
        ("mismatch", "refused", "KEY_MISMATCH"),
    ],
)
async def test_why_a_key_is_taken_is_what_the_model_is_told(
    state: Any, kind: str, code: str | None
) -> None:
    stored = Evidence(
        id="ev-9", tool="mail", request_id="req-other", fetched_at=T0, source="s", payload="theirs"
    )
    taken = TakenKey(
        key="k",
        state=state,
        run_id="other",
        step=1,
        ordinal=0,
        evidence=stored if state == "done" else None,
    )
    pen, _ = pen_of(between_steps(), Ledger(KeysTaken(keys=(taken,)), committed))
    pen.add(intent(0, "k"))
    await pen.flush()
    assert pen.state.turn is not None
    result = pen.state.turn.calls[0].result
    assert result is not None
    assert result.kind == kind
    assert (result.problem.code if result.problem else None) == code
    if state == "done":
        assert pen.state.evidence == (replace(stored, id="ev-1"),), "an id of this run"


async def test_the_decision_is_kept_when_a_key_is_taken() -> None:
    """Otherwise the step would be lost and the model asked again."""
    taken = TakenKey(key="k", state="busy", run_id="other", step=1, ordinal=0)
    ledger = Ledger(KeysTaken(keys=(taken,)), committed)
    pen, _ = pen_of(born(), ledger)
    pen.add(called("mail"))
    state = accepted(pen.state)
    assert state.turn is not None
    action = state.turn.calls[0].action
    assert action is not None
    pen.add(e.Accepted(step=1, actions=(action,)), intent(0, "k"))
    await pen.flush()
    assert isinstance(ledger.appends[1].events[0], e.Decided)
    assert pen.state.step_count == 1


# ------------------------------------------------------------------ refused
def loaded(state: LoopState, *signals: Signal, version: int | None = None) -> Loaded:
    row = RunRow(
        tenant="t",
        run_id="r",
        version=state.version if version is None else version,
        head_hash="h",
        summary=summarise(state),
        created_at=T0,
        updated_at=T0,
    )
    return Loaded(entries=(), row=row, signals=signals, now=T0 + 5)


async def test_an_event_that_is_no_longer_so_drops_the_buffer_and_reads_the_signals() -> None:
    cancel = Signal(id=4, kind="cancel")
    state = born()
    pen, _ = pen_of(state, Ledger(Stale(why="ApprovalExpired"), loaded(state, cancel)))
    pen.may_use_reservation = False
    pen.add(called("look"))
    pen.name([Signal(id=3, kind="decision")])
    with pytest.raises(Reloaded):
        await pen.flush()
    assert (pen.state, pen.is_dirty, pen.pending()) == (state, False, (cancel,))
    assert not pen.may_use_reservation, "the decision that was dropped has used it"


@pytest.mark.parametrize(
    "answer",
    [
        Conflicted(version=3),
        RunEnded(version=3, status=Status.CANCELLED),
        Missing(kind="run", name="r"),
    ],
)
async def test_another_history_ends_the_drive(answer: Any) -> None:
    pen, _ = pen_of(born(), Ledger(answer))
    pen.add(called("look"))
    with pytest.raises(Lost):
        await pen.flush()


async def test_a_journal_that_grew_meanwhile_ends_the_drive() -> None:
    state = born()
    pen, _ = pen_of(state, Ledger(Stale(why="x"), loaded(state, version=7)))
    pen.add(called("look"))
    with pytest.raises(Lost):
        await pen.flush()


async def test_an_entry_that_the_ledger_takes_from_nobody_is_an_error() -> None:
    """A mistake of ours must be seen and set aside, not tried for ever."""
    pen, _ = pen_of(born(), Ledger(Refused(why="BAD_ENTRY", message="no events")))
    with pytest.raises(StorageError):
        await pen.flush()


async def test_keys_that_stay_taken_end_the_drive_in_the_end() -> None:
    taken = TakenKey(key="k", state="busy", run_id="other", step=1, ordinal=5)
    ledger = Ledger(*[KeysTaken(keys=(taken,))] * 20)
    pen, _ = pen_of(between_steps(), ledger)
    pen.add(intent(0, "k"))
    with pytest.raises(Lost):
        await pen.flush()
    assert len(ledger.appends) < 20


# ------------------------------------------------------------------ signals
def test_a_named_signal_is_pending_no_more_and_alone_makes_no_entry() -> None:
    signals = (Signal(id=1, kind="resume"), Signal(id=2, kind="pause"), Signal(id=3, kind="cancel"))
    pen, _ = pen_of(born(), Ledger(), signals=signals)
    moment = pen.moment()
    assert (moment.pause, moment.is_resumed, moment.cancel) == (signals[1], False, signals[2])
    assert moment.is_signalled
    pen.name(signals[1:])
    moment = pen.moment()
    assert (moment.pause, moment.is_resumed, moment.cancel) == (None, True, None)
    assert not pen.is_dirty
    assert pen.moment().is_signalled, "no entry has named them yet"


def test_the_last_of_pause_and_resume_wins() -> None:
    signals = (Signal(id=1, kind="pause"), Signal(id=2, kind="resume"))
    moment = pen_of(born(), Ledger(), signals=signals)[0].moment()
    assert (moment.pause, moment.is_resumed) == (None, True)


async def test_committed_brings_signals_and_holds() -> None:
    cancel = Signal(id=9, kind="cancel")
    ledger = Ledger(lambda append: committed(append, signals=(cancel,), is_held=True))
    pen, _ = pen_of(born(), ledger)
    pen.name([Signal(id=1, kind="pause")])
    pen.add(called("look"))
    await pen.flush()
    assert ledger.appends[0].named == (1,)
    assert (pen.moment().cancel, pen.is_held) == (cancel, True)


# ------------------------------------------------------------------ whose reservation
def test_a_reservation_of_a_lost_owner_is_lost() -> None:
    pen, _ = pen_of(born(), Ledger(), is_clean=False)
    assert not pen.may_use_reservation
    [lost] = pen.buffered
    assert isinstance(lost, e.StepLost)
    assert (pen.state.step_count, pen.state.reservation) == (1, None)


async def test_a_reservation_may_be_used_once_it_is_durable() -> None:
    state = assessed(observed(authorised(accepted(told(born(), called("look"))), "allow")))
    pen, _ = pen_of(state, Ledger(committed))
    first = born().reservation
    assert first is not None
    pen.add(e.StepReserved(reservation=replace(first, step=2)))
    assert not pen.may_use_reservation
    await pen.flush()
    assert pen.may_use_reservation


async def test_a_release_is_clean_only_if_the_durable_reservation_is_unused() -> None:
    pen, _ = pen_of(born(), Ledger())
    assert pen.releases_cleanly
    pen.may_use_reservation = False
    assert not pen.releases_cleanly, "it was used, whatever became of it"
    pen, _ = pen_of(born(), Ledger())
    pen.add(decided(use(0, "look", x=1)))
    pen.may_use_reservation = False
    assert not pen.releases_cleanly, "a decision that is not durable has used it"
    pen, _ = pen_of(told(born(), called("look")), Ledger())
    assert pen.releases_cleanly, "nothing is reserved"
