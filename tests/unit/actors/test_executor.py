"""Around a write: what the ledger's answers, and how long they take, make of it."""

from contextlib import nullcontext
from typing import Any

import pytest

from actors.executor import CLAIM_MARGIN_S, Executor
from messages.authority import Grant, GrantedAction
from messages.canon import action_hash
from messages.errors import Silent
from messages.execution import Execute, Outcome
from messages.ledger import Claim, Claimed, Refused, Settle, Settled
from messages.parts import Action, Problem
from runtime.asking import Asking, GiveUp
from runtime.breaker import FIRST_PAUSE_S, TRIPS_AT
from runtime.clock import FakeClock, FixedIds
from runtime.policy.grants import Signer, Verifier
from runtime.settings import Runtime
from runtime.tools.call import Caller
from runtime.tools.outcome import NOT_STARTED, TOOL_DEADLINE, UNAVAILABLE, Called
from runtime.tools.registry import Registry
from runtime.tools.workers import Workers
from tests.flow.desk import pay

SIGNER = Signer(bytes(32))
KEY = "pay:a:v1"
ERROR = Called("error", problem=Problem(code="TRANSIENT", message="later"))
DONE = Called("ok", value="done")


class Ledger(Asking):
    """Claims after so long, and settles."""

    def __init__(  # pyright: ignore[reportMissingSuperCall] - it has no bus
        self,
        clock: FakeClock,
        *,
        takes_s: float = 0.0,
        is_proof: bool = True,
        is_away_later: bool = False,
    ) -> None:
        self.clock = clock
        self.takes_s = takes_s
        self.is_proof = is_proof
        self.is_away_later = is_away_later
        self.claim: Claimed | Refused = Claimed(at=clock.now())
        self.settled: list[Settle] = []
        self.claims: list[Claim] = []

    async def again(self, request: Any, *, deadline_s: float | None = None) -> Any:
        del deadline_s
        if isinstance(request, Claim):
            self.claims.append(request)
            self.clock.advance(self.takes_s)
            return self.claim
        if self.is_away_later:
            raise GiveUp("checkpointer", Silent("no sign of life"))
        assert isinstance(request, Settle)
        self.settled.append(request)
        return Settled(is_proof=self.is_proof, now=self.clock.now())


class Recording(Caller):
    """Says how the tool ended, and remembers how long it was given."""

    def __init__(self, clock: FakeClock, called: Called) -> None:
        super().__init__(clock=clock, ids=FixedIds(), chance=lambda: 0.0, workers=Workers())
        self.called = called
        self.timeouts: list[float | None] = []

    async def call(
        self, tool: Any, ctx: Any, values: Any, *, timeout_s: float | None = None
    ) -> Any:
        del tool, ctx, values
        self.timeouts.append(timeout_s)
        return self.called


class Quiet:
    """Nobody waits for a heartbeat."""

    seconds_left = 30.0

    def beat(self, progress: str) -> None:
        del progress

    def see_through(self) -> None:
        """It is never given up here."""


def executor(ledger: Ledger, called: Called = DONE) -> tuple[Executor, Recording]:
    caller = Recording(ledger.clock, called)
    return Executor(
        None,  # pyright: ignore[reportArgumentType] - what it is asked comes from the test
        registry=Registry([pay]),
        serves=("pay",),
        open_deps=nullcontext,
        verifier=Verifier(SIGNER.public_key),
        asking=ledger,
        clock=ledger.clock,
        ids=FixedIds(),
        caller=caller,
        times=Runtime(),
    ), caller


def order(clock: FakeClock, *, is_replay: bool = False) -> Execute:
    arguments = {"key": "a", "amount": 1}
    hashed = action_hash("pay", arguments, KEY)
    action = Action(ordinal=0, tool="pay", arguments=arguments, key=KEY, action_hash=hashed)
    granted = GrantedAction(ordinal=0, tool="pay", action_hash=hashed, key=KEY, is_replay=is_replay)
    grant = Grant(
        id="g1", tenant="t", run_id="r", step=1, actions=(granted,), expires_at=clock.now() + 60
    )
    return Execute(
        tenant="t",
        run_id="r",
        principal="p",
        agent="a",
        step=1,
        action=action,
        grant=SIGNER.sign(grant),
        now=clock.now(),
        evidence_id="ev-1",
    )


async def outcome(on: Executor, clock: FakeClock, *, is_replay: bool = False) -> Outcome:
    answer = await on.handle(order(clock, is_replay=is_replay), Quiet())
    assert isinstance(answer, Outcome)
    return answer


async def test_what_happened_is_settled_before_anybody_is_told() -> None:
    clock = FakeClock()
    ledger = Ledger(clock)
    on, _ = executor(ledger)
    assert (await outcome(on, clock)).kind == "ok"
    assert [(s.outcome, s.grant_id, s.claim_id) for s in ledger.settled] == [
        ("ok", "g1", ledger.claims[0].claim_id)
    ]


async def test_a_claim_that_comes_too_late_is_given_back_and_starts_nothing() -> None:
    clock = FakeClock()
    ledger = Ledger(clock, takes_s=CLAIM_MARGIN_S + 0.1)
    on, caller = executor(ledger)
    answer = await outcome(on, clock)
    assert (answer.kind, answer.problem and answer.problem.code) == ("unknown", "CLAIM_LATE")
    assert caller.timeouts == []
    assert [(s.outcome, s.claim_id) for s in ledger.settled] == [
        ("not_started", ledger.claims[0].claim_id)
    ]


async def test_the_deadline_runs_from_the_sending_of_the_claim() -> None:
    """W is counted from the claim: what the claim took may not be added to it."""
    clock = FakeClock()
    on, caller = executor(Ledger(clock, takes_s=0.15))
    await outcome(on, clock)
    assert caller.timeouts == [pytest.approx(pay.options.timeout_s - 0.15)]


async def test_a_refused_claim_starts_nothing_and_proves_nothing() -> None:
    """A duplicate is refused while the first one runs."""
    clock = FakeClock()
    ledger = Ledger(clock)
    ledger.claim = Refused(why="CLAIMED_BEFORE")
    on, caller = executor(ledger)
    assert (await outcome(on, clock)).kind == "unknown"
    assert (caller.timeouts, ledger.settled) == ([], [])


@pytest.mark.parametrize(("is_proof", "kind"), [(True, "error"), (False, "unknown")])
async def test_an_error_is_told_as_such_only_if_it_proves_that_nothing_happened(
    is_proof: bool, kind: str
) -> None:
    clock = FakeClock()
    on, _ = executor(Ledger(clock, is_proof=is_proof), ERROR)
    assert (await outcome(on, clock)).kind == kind


async def test_what_is_unknown_is_not_settled() -> None:
    clock = FakeClock()
    ledger = Ledger(clock)
    on, _ = executor(ledger, Called("unknown"))
    assert (await outcome(on, clock)).kind == "unknown"
    assert ledger.settled == []


async def test_a_ledger_that_is_away_at_the_settling_does_not_undo_what_happened() -> None:
    clock = FakeClock()
    ledger = Ledger(clock, is_away_later=True)
    on, _ = executor(ledger)
    assert (await outcome(on, clock)).kind == "ok"


@pytest.mark.parametrize(
    ("code", "is_replay", "kind", "settled"),
    [
        ("TRANSIENT", False, "error", ["error"]),
        ("TRANSIENT", True, "unknown", []),
        (NOT_STARTED, False, "error", ["error"]),
        (NOT_STARTED, True, "unknown", ["not_started"]),
        ("CORRECTABLE", True, "error", ["error"]),
    ],
)
async def test_a_replay_that_came_to_nothing_says_nothing_of_the_request_before_it(
    code: str, *, is_replay: bool, kind: str, settled: list[str]
) -> None:
    clock = FakeClock()
    ledger = Ledger(clock)
    on, _ = executor(ledger, Called("error", problem=Problem(code=code, message="no")))
    assert (await outcome(on, clock, is_replay=is_replay)).kind == kind
    assert [s.outcome for s in ledger.settled] == settled


async def fail_until_open(on: Executor, caller: Recording, clock: FakeClock) -> None:
    caller.called = Called("unknown", problem=Problem(code=TOOL_DEADLINE, message="late"))
    for _ in range(TRIPS_AT):
        assert (await outcome(on, clock)).kind == "unknown"
    caller.timeouts.clear()
    caller.called = DONE


async def test_a_tool_that_has_been_failing_is_not_called_and_the_model_may_know() -> None:
    clock = FakeClock()
    ledger = Ledger(clock)
    on, caller = executor(ledger)
    await fail_until_open(on, caller, clock)
    assert on.breakers("pay") == {"pay": "open"}
    told = await outcome(on, clock)
    assert caller.timeouts == []
    assert (told.kind, [s.outcome for s in ledger.settled]) == ("error", ["error"])
    assert told.problem is not None
    assert told.problem.code == UNAVAILABLE
    assert "temporarily unavailable" in told.problem.message
    assert "5 s" in told.problem.hint
    clock.advance(FIRST_PAUSE_S)
    assert (await outcome(on, clock)).kind == "ok"
    assert on.breakers("pay") == {"pay": "closed"}


async def test_a_replay_that_was_not_made_says_nothing_of_the_request_before_it() -> None:
    clock = FakeClock()
    ledger = Ledger(clock)
    on, caller = executor(ledger)
    await fail_until_open(on, caller, clock)
    assert (await outcome(on, clock, is_replay=True)).kind == "unknown"
    assert (caller.timeouts, [s.outcome for s in ledger.settled]) == ([], ["not_started"])


@pytest.mark.parametrize("code", ["CORRECTABLE", "UNRECOVERABLE", NOT_STARTED])
async def test_a_tool_that_answers_no_is_there(code: str) -> None:
    clock = FakeClock()
    on, _ = executor(Ledger(clock), Called("error", problem=Problem(code=code, message="no")))
    for _ in range(TRIPS_AT + 1):
        assert (await outcome(on, clock)).problem == Problem(code=code, message="no")
