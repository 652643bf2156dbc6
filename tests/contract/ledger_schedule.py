"""Schedules of ledger operations: many racing owners, repeated messages, passing time.

A schedule is a list of small integers, read in the light of what has happened so far, so that every
schedule means something and hypothesis can shrink it.
"""

import random

from hypothesis import strategies as st

from messages.events import AnyEvent, ApprovalExpired, Reconciled, StepLost
from messages.ledger import (
    AnswerQuestion,
    AnyLedgerRequest,
    Append,
    Claim,
    Committed,
    Create,
    DecideApproval,
    Due,
    EffectRow,
    Hold,
    HoldRow,
    Lift,
    Published,
    Release,
    Renew,
    ResolveEffect,
    SendSignal,
    Settle,
    Signal,
    Summary,
    Take,
    Taken,
    Void,
)
from messages.parts import Amount
from messages.status import Status
from runtime.clock import FakeClock
from runtime.ledger.memory import MemoryLedger
from runtime.ledger.port import GroupAnswer
from tests.contract.ledger_kit import (
    TENANT,
    asked,
    born,
    child_started,
    evidence,
    finished,
    intended,
    observed,
    question,
    reserved,
)

RUNS = ("r1", "r2")
PROCESSES = ("p1", "p2", "p3", "p4")
KEYS = ("k1", "k2")
GRANTS = ("g1", "g2", "g3")

Step = tuple[int, int, int, int]
MOST: Step = (23, 15, 23, 23)


def long_plan(seed: int) -> list[Step]:
    """Long enough for keys to be claimed, lost, replayed and settled; only its seed shrinks."""
    draw = random.Random(seed).randint
    k, w, a, b = MOST
    return [(draw(0, k), draw(0, w), draw(0, a), draw(0, b)) for _ in range(150)]


short_plans = st.lists(st.tuples(*(st.integers(0, most) for most in MOST)), max_size=60)
plans = st.one_of(short_plans, st.integers(0, 2**32).map(long_plan))


Said = tuple[tuple[AnyEvent, ...], Status, tuple[Create, ...]]
"""Events of an entry, the status after it, the children it brings."""


class Racer:
    """One process's idea of one run: where it believes the journal stands."""

    def __init__(self, process: str, run_id: str) -> None:
        self.process = process
        self.run_id = run_id
        self.take_id = f"{process}-{run_id}-0"
        self.version = 0
        self.head_hash = ""
        self.signals: tuple[int, ...] = ()


class Schedule:
    """Turns steps into operations, and remembers what every racer was told.

    It looks at the rows to hit what matters often: half of the appends come from the owner, most
    claims and settlements name the grant and the claim that count.
    """

    def __init__(self, clock: FakeClock, memory: MemoryLedger) -> None:
        self.clock = clock
        self.tables = memory.tables
        self.count = 0
        self.sent: list[AnyLedgerRequest] = []
        self.racers = {(p, r): Racer(p, r) for p in PROCESSES for r in (*RUNS, "child")}

    def operation(self, step: Step) -> AnyLedgerRequest | None:  # noqa: C901, PLR0912 -- a flat table of operations
        kind, who, a, b = step
        racer = self.racer(who)
        run_id, process = racer.run_id, racer.process
        match kind:
            case 0 | 1:
                self.clock.advance((0.1, 1.0, 2.1, 5.5, 50.0)[a % 5])
                return None
            case 2:
                return born(RUNS[a % 2])
            case 3 | 4:
                racer.take_id = f"{process}-{run_id}-{a % 2}"
                return Take(tenant=TENANT, run_id=run_id, process=process, take_id=racer.take_id)
            case 5 | 6 | 7 | 8 | 9 | 10:
                return self.append(self.owner(racer) if a % 2 else racer, b, who + a)
            case 11 | 12 | 13 | 14:
                return self.claim(a, b)
            case 15:
                row = self.key(a)
                grant = row.grant_id if row and b % 4 else GRANTS[b % 3]
                holder = row.run_id if row and b % 5 else run_id
                return Void(tenant=TENANT, run_id=holder, key=KEYS[a % 2], grant_id=grant)
            case 16 | 17:
                return self.settle(a, b)
            case 18 if b % 3 == 0:
                control = ("cancel", "pause", "resume")[a % 3]
                signal = Signal(kind=control)
                return SendSignal(tenant=TENANT, run_id=run_id, signal=signal)
            case 19:
                return Release(
                    tenant=TENANT,
                    run_id=run_id,
                    version=racer.version,
                    process=process,
                    take_id=racer.take_id,
                    is_clean=a % 2 == 0,
                )
            case 20:
                return self.person(a, b)
            case 21:
                return self.control(run_id, process, a, b)
            case 22:
                return self.sent[(a * 24 + b) % len(self.sent)] if self.sent else None
            case _:
                return Renew(process=process, lease_s=(5.0, 0.0, 20.0)[a % 3])

    def racer(self, who: int) -> Racer:
        has_child = (TENANT, "child") in self.tables.runs
        runs = (*RUNS, "r1", "child" if has_child else "r2")
        return self.racers[PROCESSES[who // 4], runs[who % 4]]

    def owner(self, racer: Racer) -> Racer:
        head = self.tables.runs.get((TENANT, racer.run_id))
        return self.racers[head.owner, head.run_id] if head and head.owner else racer

    def key(self, a: int) -> EffectRow | None:
        return self.tables.keys.get((TENANT, KEYS[a % 2]))

    def claim(self, a: int, b: int) -> Claim:
        row = self.key(a)
        self.count += 1
        return Claim(
            tenant=TENANT,
            run_id=row.run_id if row and b % 8 else "r2",
            key=KEYS[a % 2],
            grant_id=row.grant_id if row and a % 5 else GRANTS[b % 3],
            claim_id=f"c{self.count}" if b % 6 else "c0",
            expires_at=self.clock.now() + (30.0, -1.0)[b % 9 == 8],
            is_replay=b % 3 > 0,
        )

    def settle(self, a: int, b: int) -> Settle:
        row = self.key(a)
        outcome = ("ok", "error", "not_started")[b % 3]
        claims = row.claims if row else ()
        claim = claims[b % len(claims)] if claims else None
        return Settle(
            tenant=TENANT,
            run_id=row.run_id if row and b % 8 else "r2",
            key=KEYS[a % 2],
            grant_id=claim.grant_id if claim and a % 5 else GRANTS[b % 3],
            claim_id=claim.claim_id if claim else "c0",
            outcome=outcome,
            evidence=evidence() if outcome == "ok" else None,
        )

    def person(self, a: int, b: int) -> AnyLedgerRequest:
        if b % 3 == 0:
            asked_by = self.tables.open_questions.get((TENANT, f"q{a % 3}"))
            return AnswerQuestion(
                tenant=TENANT,
                run_id=asked_by.run_id if asked_by else "r1",
                question_id=f"q{a % 3}",
                answer=b,
                person="kim",
            )
        if b % 3 == 1:
            finding = "happened" if b % 2 else "absent"
            return ResolveEffect(tenant=TENANT, key=KEYS[a % 2], finding=finding, person="kim")
        decision = "approved" if b % 2 else "denied"
        return DecideApproval(
            tenant=TENANT, approval_id=f"apr-{a % 3}", decision=decision, person="lee"
        )

    def control(self, run_id: str, process: str, a: int, b: int) -> AnyLedgerRequest:
        match a % 6:
            case 0 if b % 2:
                return Hold(hold=HoldRow(agent="refunds"))
            case 0 | 1 | 2:
                return Lift(agent="refunds")
            case 3:
                return Published(tenant=TENANT, run_id=run_id, stream=f"s{b % 3}")
            case _:
                return Due(process=process, limit=1 + b % 3, stream=f"s{b % 2}")

    def append(self, racer: Racer, a: int, b: int) -> Append:
        self.count += 1
        events, status, children = self.events(a, b)
        until = self.clock.now() + 3.0 if status is Status.WAITING else None
        return Append(
            tenant=TENANT,
            run_id=racer.run_id,
            version=racer.version + 1,
            append_id=f"a{self.count}",
            prev_hash=racer.head_hash,
            process=racer.process,
            take_id=racer.take_id,
            active_s=0.0,
            events=events,
            summary=Summary(agent="refunds", status=status, until=until),
            named=racer.signals if b % 2 else (),
            children=children,
        )

    def events(self, a: int, b: int) -> Said:  # noqa: C901, PLR0912 -- a flat table of entries
        key, grant = KEYS[b % 2], GRANTS[(a + b) % 3]
        effect = ("replay", "lookup", "blind")[b % 3]
        match a:
            case 0 | 1 | 12 | 13 | 14:
                return (intended(key, grant, effect=effect, w=4.0),), Status.RUNNING, ()
            case 2:
                kind = ("ok", "error", "unknown", "not_started", "cancelled")[b % 5]
                return (observed(kind), reserved(2)), Status.RUNNING, ()
            case 3:
                finding = ("happened", "absent", "undecidable")[b % 3]
                found = Reconciled(step=1, ordinal=0, key=key, finding=finding, how="lookup")
                return (found,), Status.RUNNING, ()
            case 4:
                wanted = asked(f"apr-{b % 3}", expires_at=self.clock.now() + 3.0)
                return (wanted,), Status.AWAITING_APPROVAL, ()
            case 5:
                gone = ApprovalExpired(step=1, ordinal=0, approval_id=f"apr-{b % 3}")
                return (gone,), Status.RUNNING, ()
            case 6:
                return (question(f"q{b % 3}"),), Status.AWAITING_HUMAN, ()
            case 7:
                return (StepLost(step=1, charged=Amount(), why="x"),), Status.RUNNING, ()
            case 8:
                birth = born("child", parent="r1")
                return (child_started("child"),), Status.AWAITING_CHILDREN, (birth,)
            case 9:
                return (reserved(3),), Status.WAITING, ()
            case 10 if b % 3 == 0:
                return (finished(Status.FAILED),), Status.FAILED, ()
            case 11 | 15 | 16:
                return (observed("unknown"),), Status.RUNNING, ()
            case 17:
                held = self.tables.keys.get((TENANT, key))
                again = intended(key, grant, effect=held.effect if held else effect, w=4.0)
                return (again,), Status.RUNNING, ()
            case _:
                return (intended(key, grant, effect=effect, w=4.0, ordinal=1),), Status.RUNNING, ()

    def told(self, op: AnyLedgerRequest, answer: GroupAnswer) -> None:
        if isinstance(op, Take) and isinstance(answer, Taken):
            racer = self.racers[op.process, op.run_id]
            racer.version, racer.head_hash = answer.version, answer.head_hash
            racer.signals = tuple(signal.id for signal in answer.signals)
        if isinstance(op, Append) and isinstance(answer, Committed):
            racer = self.racers[op.process, op.run_id]
            racer.version, racer.head_hash = answer.version, answer.hash
            racer.signals = tuple(signal.id for signal in answer.signals)
