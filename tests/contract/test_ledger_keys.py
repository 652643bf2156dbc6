"""G11 and retention: of fifty calls at once one starts, and nothing forgets a key."""

from collections.abc import Sequence

import anyio
import pytest

from messages.ledger import (
    AnyLedgerRequest,
    Claimed,
    Committed,
    KeysTaken,
    ListEffects,
    Renew,
    Settled,
)
from messages.status import Status
from runtime.ledger.port import GroupAnswer
from tests.contract import ledger_kit
from tests.contract.ledger_kit import (
    TENANT,
    Desk,
    Hand,
    evidence,
    intended,
    is_a,
    observed,
    open_ledger,
    other_hash,
)

desk = ledger_kit.desk

MANY = 50
DAY_S = 86_400.0


# ------------------------------------------------------------------ fifty at once
async def test_of_fifty_calls_at_once_one_starts_and_the_others_are_told(desk: Desk) -> None:
    """Each of its own run, with its own grant; all ask the ledger at the same time."""
    hands = [await desk.hand(f"r{n}") for n in range(MANY)]
    intents = {h: intended(grant=f"g-{h.run_id}") for h in hands}
    answers = await at_once(desk, [h.entry(intents[h]) for h in hands])
    winners = [h for h, answer in zip(hands, answers, strict=True) if isinstance(answer, Committed)]
    assert len(winners) == 1
    [winner] = winners
    winner.went_on(answers[hands.index(winner)])
    losers = [h for h in hands if h is not winner]
    told = [a for a in answers if isinstance(a, KeysTaken)]
    assert {(k.state, k.run_id) for a in told for k in a.keys} == {("busy", winner.run_id)}
    claims = [desk.claim(f"c-{h.run_id}", f"g-{h.run_id}", run_id=h.run_id) for h in hands]
    started = [a for a in await at_once(desk, claims) if isinstance(a, Claimed)]
    assert len(started) == 1
    assert await states(desk, losers) == {"busy"}, "started and not settled: nobody waits for it"
    grant, claim = f"g-{winner.run_id}", f"c-{winner.run_id}"
    is_a(await desk.ask(desk.settle("ok", claim, grant, run_id=winner.run_id)), Settled)
    assert await states(desk, losers) == {"done"}
    assert await states(desk, losers, action=other_hash()) == {"mismatch"}
    assert len((await desk.key()).claims) == 1


async def at_once(desk: Desk, ops: Sequence[AnyLedgerRequest]) -> list[GroupAnswer]:
    """Each operation from a task of its own."""
    answers: dict[int, GroupAnswer] = {}

    async def one(place: int, op: AnyLedgerRequest) -> None:
        (answers[place],) = await desk.group(op)

    async with anyio.create_task_group() as tasks:
        for place, op in enumerate(ops):
            tasks.start_soon(one, place, op)
    return [answers[place] for place in range(len(ops))]


async def states(desk: Desk, hands: list[Hand], **fields: str) -> set[str]:
    """What each of them is told of the key; a done one with its result."""
    ops = [h.entry(intended(grant=f"again-{h.run_id}", **fields)) for h in hands]  # pyright: ignore[reportArgumentType]
    found = [is_a(answer, KeysTaken).keys[0] for answer in await at_once(desk, ops)]
    assert all(key.evidence == evidence() for key in found if key.state == "done")
    return {key.state for key in found}


# ------------------------------------------------------------------ retention
@pytest.mark.parametrize("days", [31, 3650])
async def test_no_key_is_ever_forgotten(desk: Desk, days: int) -> None:
    """At least 30 days and never while a run is open: nothing in the ledger deletes a key."""
    done, waiting, failed = [await desk.hand(run) for run in ("done", "waiting", "failed")]
    await done.append(intended("k-done"), intended("k-none", ordinal=1))
    await done.append(observed("ok"), observed("not_started", ordinal=1))
    await done.finish()
    await waiting.append(intended("k-open"))
    is_a(await desk.ask(desk.claim(key="k-open", run_id="waiting")), Claimed)
    await waiting.suspend()
    await failed.append(intended("k-flagged"))
    is_a(await desk.ask(desk.claim("c2", key="k-flagged", run_id="failed")), Claimed)
    await failed.finish(Status.FAILED)
    before = {row.key: row for row in (await desk.ask(ListEffects(tenant=TENANT))).rows}
    assert set(before) == {"k-done", "k-none", "k-open", "k-flagged"}
    for _ in range(10):  # what goes on in a ledger as time passes, and forgets what it may
        desk.clock.advance(days * DAY_S / 10)
        await desk.ask(Renew(process="p9", lease_s=5.0))
    if desk.kind == "sqlite":  # and over restarts
        await desk.ledger.close()
        desk.ledger = await open_ledger(desk.kind, desk.path, desk.clock)
    after = {row.key: row for row in (await desk.ask(ListEffects(tenant=TENANT))).rows}
    assert after == before
    late = await desk.hand("late")
    taken = is_a(await desk.ask(late.entry(intended("k-done", "g9"))), KeysTaken).keys[0]
    assert (taken.state, taken.evidence) == ("done", evidence())
    taken = is_a(await desk.ask(late.entry(intended("k-open", "g9"))), KeysTaken).keys[0]
    assert (taken.state, taken.run_id) == ("busy", "waiting")
