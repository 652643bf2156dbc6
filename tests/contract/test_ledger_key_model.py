"""G11: for any order of operations on a key, a model of its own gives the same answers."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from messages.base import Failure
from messages.canon import digest
from messages.events import AnyEvent, Reconciled
from messages.ledger import (
    AnyLedgerRequest,
    Append,
    Claim,
    Claimed,
    Committed,
    EffectResolved,
    EffectRows,
    Elsewhere,
    Happened,
    KeysTaken,
    ListEffects,
    Refused,
    ResolveEffect,
    RunEnded,
    Settle,
    Settled,
    Stale,
    Started,
    Summary,
    Take,
    Taken,
    Void,
    Voided,
)
from messages.status import Status
from runtime.clock import FakeClock
from runtime.ledger.memory import MemoryLedger
from runtime.ledger.port import GroupAnswer
from runtime.ledger.sqlite_store import SqliteStore
from tests.contract.key_model import W_S, Key
from tests.contract.ledger_kit import TENANT, born, evidence, finished, intended, is_a

RUNS = ("r1", "r2", "r3")
ACTIONS = (digest("pay 1"), digest("pay 2"))
Apply = Callable[[AnyLedgerRequest], GroupAnswer]
Move = tuple[str, int, int, int]
SAID: dict[type[object], str] = {
    Claimed: "claimed",
    Refused: "refused",
    Voided: "voided",
    Started: "started",
    Happened: "happened",
    Elsewhere: "elsewhere",
}

moves = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("intend", "intend", "claim", "claim", "again", "again", "void", "ok"),
                *("error", "error", "absent", "finish", "finish", "resolve", "wait"),
            ]
        ),
        st.integers(0, 2),
        st.integers(0, 5),
        st.integers(0, 5),
    ),
    max_size=60,
)


class Twin:
    """The ledger and the model, told the same."""

    def __init__(self, apply: Apply, clock: FakeClock) -> None:
        self.apply = apply
        self.clock = clock
        self.key = Key()
        self.heads: dict[str, tuple[int, str]] = {}
        self.grants: list[str] = ["none"]
        self.claims: list[str] = ["none"]
        for run in RUNS:
            self.apply(born(run))
            taken = is_a(
                self.apply(Take(tenant=TENANT, run_id=run, process="p1", take_id=f"{run}-take")),
                Taken,
            )
            self.heads[run] = (taken.version, taken.head_hash)

    def append(self, run: str, *events: AnyEvent, status: Status = Status.RUNNING) -> str:
        version, head = self.heads[run]
        answer = self.apply(
            Append(
                tenant=TENANT,
                run_id=run,
                version=version + 1,
                append_id=f"{run}-{version + 1}-{len(self.grants)}",
                prev_hash=head,
                process="p1",
                take_id=f"{run}-take",
                active_s=0.0,
                events=events,
                summary=Summary(agent="refunds", status=status),
            )
        )
        match answer:
            case Committed():
                self.heads[run] = (answer.version, answer.hash)
                return "taken"
            case KeysTaken(keys=(key,)):
                if key.state == "done":
                    assert key.evidence == evidence(self.key.result)
                return key.state
            case RunEnded():
                return "ended"
            case Stale():
                return "too early"
            case _:
                raise AssertionError(answer)

    def recent(self, names: list[str], choice: int) -> str:
        """Mostly the newest one."""
        return names[-1] if choice > 1 else names[max(0, len(names) - 2 - choice)]

    def move(self, move: Move) -> None:  # noqa: C901 - a flat table of operations
        kind, who, a, b = move
        run = (self.key.holder or RUNS[who]) if b > 1 else RUNS[who]
        grant, claim = self.recent(self.grants, a), self.recent(self.claims, a)
        match kind:
            case "intend":
                self.intend(run, ACTIONS[0] if b else ACTIONS[1])
            case "claim":
                self.claim(run, grant, claim if a == 1 else "", is_replay=b > 2)
            case "again" if self.key.holder:
                self.intend(self.key.holder, self.key.action)
                self.claim(self.key.holder, self.grants[-1], "", is_replay=True)
            case "void":
                self.void(run, grant)
            case "ok":
                self.settle(run, grant, claim, "ok")
            case "error":
                self.settle(run, grant, claim, "error")
            case "absent":
                self.absent(run)
            case "finish":
                if run not in self.key.ended and a > 3:
                    self.append(run, finished(), status=Status.SUCCEEDED)
                    self.key.finish(run)
            case "resolve":
                self.resolve(is_there=bool(b % 2))
            case _:
                self.clock.advance((1.0, 5.0, 15.0, W_S, W_S + 1, 2 * W_S)[a])

    def intend(self, run: str, action: str) -> None:
        grant = f"g{len(self.grants)}"
        said = self.append(run, intended(grant=grant, action=action, w=W_S))
        assert said == self.key.intend(run, action, grant)
        if said == "taken":
            self.grants.append(grant)

    def claim(self, run: str, grant: str, claim: str, *, is_replay: bool) -> None:
        claim = claim or f"c{len(self.claims)}"
        at = self.clock.now()
        answer = self.apply(
            Claim(
                tenant=TENANT,
                run_id=run,
                key="k",
                grant_id=grant,
                claim_id=claim,
                expires_at=at + 1.0,
                is_replay=is_replay,
            )
        )
        said = SAID[type(answer)]
        assert said == self.key.claim(run, grant, claim, at, is_replay=is_replay)
        if claim not in self.claims:
            self.claims.append(claim)

    def void(self, run: str, grant: str) -> None:
        answer = self.apply(Void(tenant=TENANT, run_id=run, key="k", grant_id=grant))
        said = SAID[type(answer)]
        assert said == self.key.void(run, grant)
        if isinstance(answer, Happened):
            assert answer.evidence == evidence(self.key.result)

    def settle(self, run: str, grant: str, claim: str, outcome: str) -> None:
        if not any(known == claim for known, _ in self.key.claims):
            return  # only who has claimed it knows an outcome
        answer = self.apply(
            Settle(
                tenant=TENANT,
                run_id=run,
                key="k",
                grant_id=grant,
                claim_id=claim,
                outcome=outcome,  # pyright: ignore[reportArgumentType] -- ok or error
                evidence=evidence(claim) if outcome == "ok" else None,
            )
        )
        if outcome == "ok":
            self.key.settle_ok(run, claim)
            return
        expected = self.key.settle_error(run, grant, claim)
        if self.key.holder == run and (self.key.state != "free" or expected == "proof"):
            assert is_a(answer, Settled).is_proof == (expected == "proof")

    def absent(self, run: str) -> None:
        found = Reconciled(step=1, ordinal=0, key="k", finding="absent", how="lookup")
        said = self.append(run, found)
        expected = self.key.absent(run, self.clock.now())
        assert said.replace("taken", "noted") == expected

    def resolve(self, *, is_there: bool) -> None:
        answer = self.apply(
            ResolveEffect(
                tenant=TENANT,
                key="k",
                finding="happened" if is_there else "absent",
                person="kim",
                evidence=evidence("by hand") if is_there else None,
            )
        )
        said = self.key.resolve("by hand" if is_there else "", self.clock.now())
        assert isinstance(answer, EffectResolved) == (said == "resolved")

    def look(self) -> None:
        """The row says what the model says."""
        rows = is_a(self.apply(ListEffects(tenant=TENANT, keys=("k",))), EffectRows).rows
        if not self.key.holder:
            assert not rows
            return
        (row,) = rows
        assert (row.state, row.run_id) == (self.key.state, self.key.holder)
        if self.key.state == "done":
            assert row.evidence == evidence(self.key.result)


def play(apply: Apply, clock: FakeClock, plan: list[Move]) -> tuple[Key, set[str]]:
    """The model at the end, and the states that it was in."""
    twin, seen = Twin(apply, clock), set[str]()
    for move in plan:
        twin.move(move)
        twin.look()
        seen.add(twin.key.state)
    return twin.key, seen


def applying(store: MemoryLedger | SqliteStore) -> Apply:
    def apply(op: AnyLedgerRequest) -> GroupAnswer:
        many = store.commit if isinstance(store, SqliteStore) else store.apply_now
        (answer,) = many([op])
        assert not isinstance(answer, Failure), answer
        return answer

    return apply


@settings(max_examples=400, deadline=None)
@given(moves)
def test_every_answer_is_the_one_that_the_model_gives(plan: list[Move]) -> None:
    clock = FakeClock()
    play(applying(MemoryLedger(clock.now)), clock, plan)


@settings(max_examples=40, deadline=None)
@given(moves)
def test_so_it_is_in_a_file(plan: list[Move]) -> None:
    clock = FakeClock()
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore.open(Path(folder) / "ledger.db", clock.now)
        try:
            play(applying(store), clock, plan)
        finally:
            store.close()


def test_chance_reaches_every_state_of_a_key() -> None:
    """The law above says nothing about what never happens."""
    seen: set[str] = set()
    replays: list[bool] = []

    @settings(max_examples=400, deadline=None, database=None, derandomize=True)
    @given(moves)
    def wander(plan: list[Move]) -> None:
        clock = FakeClock()
        key, states = play(applying(MemoryLedger(clock.now)), clock, plan)
        seen.update(states)
        replays.extend(is_replay for _, is_replay in key.starts)

    wander()
    assert seen == {"free", "intended", "started", "done", "unknown"}
    assert any(replays)
