"""What the ledger's suites share: a ledger of each kind, a clock, and words to drive runs with.

A test module says ``desk = ledger_kit.desk`` and its tests ask for ``desk``.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar, cast

import pytest

from messages.base import Failure
from messages.canon import digest
from messages.events import (
    AnyEvent,
    ApprovalRequested,
    Child,
    ChildStarted,
    Finished,
    HumanAsked,
    Intended,
    Observed,
    Resumed,
    RunCreated,
    StepReserved,
    Suspended,
)
from messages.ledger import (
    AnyLedgerRequest,
    Append,
    Claim,
    Claimed,
    Committed,
    Create,
    Created,
    EffectRow,
    LedgerRequest,
    ListEffects,
    Load,
    Loaded,
    Refused,
    Renew,
    RunRow,
    SendSignal,
    Settle,
    Signal,
    SignalStored,
    Summary,
    Take,
    Taken,
    Void,
)
from messages.parts import Amount, Evidence, Identity, Limits, Reservation
from messages.status import Reason, Status
from runtime.clock import FakeClock
from runtime.ledger.memory import MemoryLedger
from runtime.ledger.port import GroupAnswer, Ledger
from runtime.ledger.sqlite import SqliteLedger

T = TypeVar("T")
ReplyT = TypeVar("ReplyT")

TENANT = "acme"
HASH = "abcdef012345" + "0" * 52
KINDS = ("memory", "sqlite")


def is_a(value: object, kind: type[T]) -> T:
    """The value, which has to be of that kind."""
    assert isinstance(value, kind), value
    return value


# ------------------------------------------------------------------ events
def born(run_id: str = "r1", *, parent: str | None = None, agent: str = "refunds") -> Create:
    created = RunCreated(
        goal=f"goal of {run_id}",
        agent=agent,
        agent_code="code",
        identity=Identity(tenant=TENANT, principal="sam"),
        limits=Limits(),
        trace_id="trace",
        parent=parent,
        created_at=1.0,
    )
    return Create(
        tenant=TENANT,
        run_id=run_id,
        append_id=f"{run_id}-a0",
        events=(created, reserved(1)),
        summary=Summary(agent=agent, principal="sam", goal="goal", status=Status.RUNNING),
    )


def reserved(step: int, take_id: str = "") -> StepReserved:
    most = Amount(tokens=100, cost_microusd=10)
    return StepReserved(
        reservation=Reservation(step=step, most=most, output_tokens=10, take_id=take_id)
    )


def intended(
    key: str = "k",
    grant: str = "g1",
    *,
    step: int = 1,
    ordinal: int = 0,
    action: str = HASH,
    effect: str = "replay",
    w: float = 40.0,
) -> Intended:
    assert effect in {"replay", "lookup", "blind"}
    return Intended(
        step=step,
        ordinal=ordinal,
        tool="refund",
        key=key,
        action_hash=action,
        grant_id=grant,
        effect=effect,  # pyright: ignore[reportArgumentType] -- checked above
        settle_after_s=w,
    )


def evidence(name: str = "ev-1") -> Evidence:
    return Evidence(
        id=name,
        tool="refund",
        request_id="req",
        fetched_at=1.0,
        source="payments",
        payload={"id": name},
    )


def asked(
    approval_id: str = "apr-1", *, ordinal: int = 0, expires_at: float = 0.0
) -> ApprovalRequested:
    return ApprovalRequested(
        step=1,
        ordinal=ordinal,
        approval_id=approval_id,
        tool="refund",
        action_hash=HASH,
        key="k",
        group="leads",
        expires_at=expires_at,
        package="p" * 64,
    )


def question(question_id: str = "q1") -> HumanAsked:
    return HumanAsked(step=1, question_id=question_id, text="which one?")


def observed(kind: str = "ok", *, step: int = 1, ordinal: int = 0) -> Observed:
    return Observed(
        step=step,
        ordinal=ordinal,
        kind=kind,  # pyright: ignore[reportArgumentType] -- each test's own word
        evidence=evidence() if kind == "ok" else None,
    )


def finished(status: Status = Status.SUCCEEDED, reason: Reason = Reason.VERIFIED) -> Finished:
    return Finished(status=status, reason=reason, output={"answer": 42})


def child_started(*run_ids: str) -> ChildStarted:
    children = tuple(
        Child(run_id=run_id, agent="helper", goal="part", carve=Limits()) for run_id in run_ids
    )
    return ChildStarted(step=1, ordinal=0, children=children)


# ------------------------------------------------------------------ drives
class Hand:
    """One take of one run: it knows where the journal stands and appends to it."""

    def __init__(self, desk: "Desk", run_id: str, process: str, taken: Taken) -> None:
        self.desk = desk
        self.run_id = run_id
        self.process = process
        self.take_id = f"{run_id}-take"
        self.taken = taken
        self.version = taken.version
        self.head_hash = taken.head_hash

    def entry(
        self,
        *events: AnyEvent,
        status: Status = Status.RUNNING,
        until: float | None = None,
        named: tuple[int, ...] = (),
        children: tuple[Create, ...] = (),
    ) -> Append:
        """The append of the next entry."""
        self.desk.appends += 1
        return Append(
            tenant=TENANT,
            run_id=self.run_id,
            version=self.version + 1,
            append_id=f"a{self.desk.appends}",
            prev_hash=self.head_hash,
            process=self.process,
            take_id=self.take_id,
            active_s=0.5,
            events=events or (Resumed(why="test"),),
            summary=Summary(agent="refunds", principal="sam", status=status, until=until),
            named=named,
            children=children,
        )

    async def append(
        self,
        *events: AnyEvent,
        status: Status = Status.RUNNING,
        until: float | None = None,
        named: tuple[int, ...] = (),
        children: tuple[Create, ...] = (),
    ) -> Committed:
        """Append, which has to be committed."""
        op = self.entry(*events, status=status, until=until, named=named, children=children)
        return self.went_on(await self.desk.ask(op))

    def went_on(self, answer: object) -> Committed:
        """Take note of a committed append."""
        committed = is_a(answer, Committed)
        self.version, self.head_hash = committed.version, committed.hash
        return committed

    async def suspend(
        self, status: Status = Status.PAUSED, until: float | None = None, **more: tuple[int, ...]
    ) -> Committed:
        event = Suspended(status=status, reason="test", until=until)
        return await self.append(event, status=status, until=until, named=more.get("named", ()))

    async def finish(self, status: Status = Status.SUCCEEDED) -> Committed:
        return await self.append(finished(status), status=status)


class Desk:
    """A ledger and its clock, and one operation at a time."""

    def __init__(self, ledger: Ledger, clock: FakeClock, kind: str, path: Path) -> None:
        self.ledger = ledger
        self.clock = clock
        self.kind = kind
        self.path = path
        self.appends = 0

    async def ask(self, op: LedgerRequest[ReplyT]) -> ReplyT:
        """One operation in a group of its own."""
        (answer,) = await self.group(cast("AnyLedgerRequest", op))
        assert not isinstance(answer, Failure), answer
        return cast("ReplyT", answer)

    async def group(self, *ops: AnyLedgerRequest) -> list[GroupAnswer]:
        return await self.ledger.apply(ops)

    async def hand(
        self,
        run_id: str = "r1",
        process: str = "p1",
        take_id: str | None = None,
        *,
        is_new: bool = True,
    ) -> Hand:
        """Create the run unless told otherwise, and take it, which has to work."""
        if is_new:
            is_a(await self.ask(born(run_id)), Created)
        answer = await self.ask(self.take(run_id, process, take_id))
        hand = Hand(self, run_id, process, is_a(answer, Taken))
        hand.take_id = take_id or hand.take_id
        return hand

    def take(self, run_id: str = "r1", process: str = "p1", take_id: str | None = None) -> Take:
        take_id = take_id or f"{run_id}-take"
        return Take(tenant=TENANT, run_id=run_id, process=process, take_id=take_id)

    async def row(self, run_id: str = "r1") -> RunRow:
        return (await self.loaded(run_id)).row

    async def loaded(self, run_id: str = "r1") -> Loaded:
        return is_a(await self.ask(Load(tenant=TENANT, run_id=run_id)), Loaded)

    async def key(self, key: str = "k") -> EffectRow:
        (row,) = (await self.ask(ListEffects(tenant=TENANT, keys=(key,)))).rows
        return row

    async def send(self, kind: str, run_id: str = "r1") -> SignalStored:
        signal = Signal(kind=kind, person="kim")  # pyright: ignore[reportArgumentType] -- each test's own word
        return is_a(
            await self.ask(SendSignal(tenant=TENANT, run_id=run_id, signal=signal)), SignalStored
        )

    def claim(
        self,
        claim_id: str = "c1",
        grant: str = "g1",
        *,
        key: str = "k",
        run_id: str = "r1",
        lasts_s: float = 30.0,
        is_replay: bool = False,
    ) -> Claim:
        return Claim(
            tenant=TENANT,
            run_id=run_id,
            key=key,
            grant_id=grant,
            claim_id=claim_id,
            expires_at=self.clock.now() + lasts_s,
            is_replay=is_replay,
        )

    def void(self, grant: str = "g1", *, key: str = "k", run_id: str = "r1") -> Void:
        return Void(tenant=TENANT, run_id=run_id, key=key, grant_id=grant)

    def settle(
        self, outcome: str, claim_id: str = "c1", grant: str = "g1", *, run_id: str = "r1"
    ) -> Settle:
        return Settle(
            tenant=TENANT,
            run_id=run_id,
            key="k",
            grant_id=grant,
            claim_id=claim_id,
            outcome=outcome,  # pyright: ignore[reportArgumentType] -- each test's own word
            evidence=evidence() if outcome == "ok" else None,
        )


async def with_intent(desk: Desk, effect: str = "replay", w: float = 40.0) -> Hand:
    hand = await desk.hand()
    await hand.append(intended(effect=effect, w=w))
    return hand


async def started_again(desk: Desk, hand: Hand, after_s: float) -> None:
    """A first claim that was never settled, and a replay claimed so much later."""
    is_a(await desk.ask(desk.claim("c1", "g1")), Claimed)
    desk.clock.advance(after_s)
    await hand.append(intended(grant="g2", w=0.0))
    is_a(await desk.ask(desk.claim("c2", "g2", is_replay=True)), Claimed)


def refusal(answer: object) -> str:
    return is_a(answer, Refused).why


@asynccontextmanager
async def opened(
    path: Path, clock: FakeClock, *, is_readonly: bool = False
) -> AsyncGenerator[Ledger]:
    """A ledger on that file, closed whatever happens: one left open keeps its thread alive."""
    opener = SqliteLedger.open_readonly if is_readonly else SqliteLedger.open
    ledger = await opener(path, clock.now)
    try:
        yield ledger
    finally:
        await ledger.close()


async def open_ledger(kind: str, path: Path, clock: FakeClock) -> Ledger:
    """A ledger of that kind."""
    if kind == "memory":
        return MemoryLedger(clock.now)
    return await SqliteLedger.open(path, clock.now)


def other_hash(text: str = "other") -> str:
    """The hash of another action."""
    return digest(text)


@pytest.fixture(params=KINDS)
async def desk(request: pytest.FixtureRequest, data_dir: Path) -> AsyncIterator[Desk]:
    clock = FakeClock()
    path = data_dir / "ledger.db"
    kind = str(request.param)
    made = Desk(await open_ledger(kind, path, clock), clock, kind, path)
    try:
        yield made
    finally:
        await made.ledger.close()  # the one it has now: a test may have opened it again


def renew(process: str, lease_s: float = 5.0) -> Renew:
    return Renew(process=process, lease_s=lease_s)
