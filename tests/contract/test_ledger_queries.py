"""Reading: journal pages, listings, artifacts."""

from msgspec.structs import replace

from messages.canon import sha256_hex
from messages.events import Resumed
from messages.ledger import (
    Create,
    Done,
    Entry,
    Fetch,
    Fetched,
    Keep,
    ListApprovals,
    ListEffects,
    ListRuns,
    Load,
    Loaded,
    Missing,
    Refused,
    Take,
    Taken,
    Tallies,
    Tally,
    TallyRuns,
)
from messages.status import Status
from runtime.ledger import chain
from runtime.ledger.rules.queries import PAGE_BYTES
from runtime.tally import merge_groups
from tests.contract import ledger_kit
from tests.contract.ledger_kit import TENANT, Desk, asked, born, finished, intended, is_a

desk = ledger_kit.desk


# ------------------------------------------------------------------ journal
async def test_a_long_journal_comes_in_pages_that_lose_nothing(desk: Desk) -> None:
    hand = await desk.hand()
    for number in range(7):
        await hand.append(Resumed(why=str(number) * (PAGE_BYTES // 3)))
    entries: list[Entry] = []
    after, pages = -1, 0
    while True:
        page = is_a(await desk.ask(Load(tenant=TENANT, run_id="r1", after=after)), Loaded)
        entries += page.entries
        pages += 1
        if not page.is_partial:
            break
        after = entries[-1].version
    assert pages > 2
    assert chain.verify(entries, head_hash=hand.head_hash) == 8


async def test_an_entry_larger_than_a_page_comes_alone(desk: Desk) -> None:
    hand = await desk.hand()
    await hand.append(Resumed(why="x" * (PAGE_BYTES + 1)))
    await hand.append()
    page = is_a(await desk.ask(Load(tenant=TENANT, run_id="r1", after=0)), Loaded)
    assert [entry.version for entry in page.entries] == [1]
    assert page.is_partial


async def test_taken_is_bounded_like_a_page(desk: Desk) -> None:
    hand = await desk.hand()
    for _ in range(3):
        await hand.append(Resumed(why="x" * (PAGE_BYTES // 2)))
    taken = is_a(await desk.ask(desk.take()), Taken)
    assert taken.is_partial
    assert len(taken.entries) < taken.version + 1 == 4
    rest = Take(tenant=TENANT, run_id="r1", process="p1", take_id=hand.take_id, after=3)
    answer = is_a(await desk.ask(rest), Taken)
    assert (answer.entries, answer.is_partial) == ((), False)


async def test_load_stops_at_upto(desk: Desk) -> None:
    hand = await desk.hand()
    for _ in range(3):
        await hand.append()
    page = is_a(await desk.ask(Load(tenant=TENANT, run_id="r1", after=0, upto=2)), Loaded)
    assert [entry.version for entry in page.entries] == [1, 2]
    assert not page.is_partial
    assert page.row.version == 3


async def test_a_run_that_is_not_there_is_missing(desk: Desk) -> None:
    is_a(await desk.ask(Load(tenant=TENANT, run_id="r1")), Missing)
    await desk.ask(born())
    is_a(await desk.ask(Load(tenant="other", run_id="r1")), Missing)


# ------------------------------------------------------------------ listings
async def test_runs_are_listed_newest_first_by_what_is_asked(desk: Desk) -> None:
    for number in range(4):
        birth = born(f"r{number}", agent="even" if number % 2 == 0 else "odd")
        labels = {"team": "a", "n": str(number)}
        await desk.ask(replace(birth, summary=replace(birth.summary, labels=labels)))
        desk.clock.advance(1.0)
    start = desk.clock.now() - 4

    async def listed(op: ListRuns) -> list[str]:
        return [row.run_id for row in (await desk.ask(op)).rows]

    assert await listed(ListRuns(tenant=TENANT)) == ["r3", "r2", "r1", "r0"]
    assert await listed(ListRuns(tenant=TENANT, limit=2)) == ["r3", "r2"]
    assert await listed(ListRuns(tenant=TENANT, agent="even")) == ["r2", "r0"]
    assert await listed(ListRuns(tenant=TENANT, labels={"team": "a", "n": "1"})) == ["r1"]
    assert await listed(ListRuns(tenant=TENANT, since=start + 2)) == ["r3", "r2"]
    assert await listed(ListRuns(tenant="other")) == []


def ended(run_id: str, *, agent: str = "refunds", steps: int = 2, **labels: str) -> Create:
    """A run that succeeded at once, as far as the ledger can tell."""
    birth = born(run_id, agent=agent)
    summary = replace(
        birth.summary,
        status=Status.SUCCEEDED,
        reason="verified",
        step_count=steps,
        labels=labels,
        cost_microusd=7,
        models=("m1",),
    )
    return replace(birth, events=(birth.events[0], finished(Status.SUCCEEDED)), summary=summary)


async def tallied(desk: Desk, op: TallyRuns) -> tuple[list[Tally], int]:
    """The tallies of every page, and how many pages there were."""
    found: list[Tally] = []
    pages = 0
    while True:
        page = is_a(await desk.ask(op), Tallies)
        found += page.tallies
        pages += 1
        if page.next is None:
            return found, pages
        op = replace(op, after=page.next)


async def test_runs_are_counted_once_each_whatever_the_pages(desk: Desk) -> None:
    for number in range(7):
        await desk.ask(ended(f"r{number}", steps=number))
        if number % 3 == 0:  # some were created at the same instant
            desk.clock.advance(1.0)
    await desk.ask(born("open"))
    whole, _ = await tallied(desk, TallyRuns(tenant=TENANT))
    for limit in (1, 2, 3, 8, 500):
        parts, pages = await tallied(desk, TallyRuns(tenant=TENANT, limit=limit))
        assert merge_groups(parts) == merge_groups(whole), limit
        assert pages == 8 // limit + 1
    [total] = merge_groups(whole)
    assert (total.runs, total.open_runs, total.cost_microusd) == (7, 1, 49)
    assert [each.steps for each in total.steps] == list(range(7))


async def test_runs_are_counted_by_what_is_asked(desk: Desk) -> None:
    start = desk.clock.now()
    for number in range(4):
        agent = "even" if number % 2 == 0 else "odd"
        await desk.ask(ended(f"r{number}", agent=agent, team="a", n=str(number)))
        desk.clock.advance(1.0)

    async def counted(op: TallyRuns) -> dict[tuple[str, ...], int]:
        found, _ = await tallied(desk, op)
        return {tuple(each.group.values()): each.runs for each in merge_groups(found)}

    assert await counted(TallyRuns(tenant=TENANT)) == {(): 4}
    assert await counted(TallyRuns(tenant=TENANT, by=("agent",))) == {("even",): 2, ("odd",): 2}
    both = TallyRuns(tenant=TENANT, by=("tenant", "model"))
    assert await counted(both) == {(TENANT, "m1"): 4}
    assert await counted(TallyRuns(tenant=TENANT, labels={"team": "a", "n": "1"})) == {(): 1}
    assert await counted(TallyRuns(tenant=TENANT, since=start + 2)) == {(): 2}
    assert await counted(TallyRuns(tenant=TENANT, until=start + 1)) == {(): 1}
    assert await counted(TallyRuns(tenant=TENANT, since=start + 1, until=start + 3)) == {(): 2}
    assert await counted(TallyRuns(tenant="other")) == {}
    assert await counted(TallyRuns(tenant=TENANT, labels={"n": "1"}, limit=1)) == {(): 1}


async def test_queued_is_shown_until_somebody_takes_the_run(desk: Desk) -> None:
    queued = ListRuns(tenant=TENANT, statuses=(Status.QUEUED,))
    running = ListRuns(tenant=TENANT, statuses=(Status.RUNNING,))
    await desk.ask(born())
    assert len((await desk.ask(queued)).rows) == 1
    assert (await desk.ask(running)).rows == ()
    await desk.hand(is_new=False)
    assert (await desk.ask(queued)).rows == ()
    assert len((await desk.ask(running)).rows) == 1


async def test_approvals_are_listed_oldest_first(desk: Desk) -> None:
    for number in (2, 1, 3):
        hand = await desk.hand(f"r{number}")
        await hand.append(asked(f"apr-{number}", expires_at=desk.clock.now() + 9))
        desk.clock.advance(1.0)

    async def listed(op: ListApprovals) -> list[str]:
        return [row.id for row in (await desk.ask(op)).rows]

    assert await listed(ListApprovals(tenant=TENANT)) == ["apr-2", "apr-1", "apr-3"]
    assert await listed(ListApprovals(tenant=TENANT, limit=1)) == ["apr-2"]
    assert await listed(ListApprovals(tenant=TENANT, run_id="r1")) == ["apr-1"]
    assert await listed(ListApprovals(tenant=TENANT, ids=("apr-3", "apr-9"))) == ["apr-3"]
    assert await listed(ListApprovals(tenant="other")) == []


async def test_keys_are_listed_last_changed_first(desk: Desk) -> None:
    for number in (1, 2):
        hand = await desk.hand(f"r{number}")
        await hand.append(intended(f"k{number}"), intended(f"j{number}", ordinal=1))
        desk.clock.advance(1.0)

    async def listed(op: ListEffects) -> list[str]:
        return [row.key for row in (await desk.ask(op)).rows]

    assert await listed(ListEffects(tenant=TENANT)) == ["k2", "j2", "k1", "j1"]
    assert await listed(ListEffects(tenant=TENANT, limit=1)) == ["k2"]
    assert await listed(ListEffects(tenant=TENANT, run_id="r1")) == ["j1", "k1"]
    assert await listed(ListEffects(tenant=TENANT, keys=("k1", "k2"), run_id="r2")) == ["k2"]
    assert await listed(ListEffects(tenant=TENANT, is_unresolved_only=True)) == []
    assert await listed(ListEffects(tenant="other")) == []


# ------------------------------------------------------------------ artifacts
WHOLE = b"one" + b"two" + b"three"
NAME = sha256_hex(WHOLE)


def part(number: int, data: bytes, parts: int = 3, name: str = NAME) -> Keep:
    return Keep(tenant=TENANT, sha256=name, part=number, parts=parts, data=data)


def fetch(number: int = 0, tenant: str = TENANT) -> Fetch:
    return Fetch(tenant=tenant, sha256=NAME, part=number)


async def test_an_artifact_is_there_once_all_parts_hash_to_its_name(desk: Desk) -> None:
    await desk.ask(part(2, b"three"))
    await desk.ask(part(0, b"one"))
    is_a(await desk.ask(fetch()), Missing)
    is_a(await desk.ask(part(1, b"two")), Done)
    fetched = [is_a(await desk.ask(fetch(number)), Fetched) for number in range(3)]
    assert b"".join(item.data for item in fetched) == WHOLE
    assert {item.parts for item in fetched} == {3}
    is_a(await desk.ask(fetch(3)), Missing)
    is_a(await desk.ask(fetch(tenant="other")), Missing)


async def test_keeping_a_whole_artifact_again_changes_nothing(desk: Desk) -> None:
    single = part(0, WHOLE, parts=1)
    for op in (single, single, part(0, b"wrong", parts=1), part(1, b"two")):
        is_a(await desk.ask(op), Done)
    assert is_a(await desk.ask(fetch()), Fetched).data == WHOLE


async def test_parts_that_hash_to_something_else_are_forgotten(desk: Desk) -> None:
    for number, data in enumerate((b"one", b"two")):
        await desk.ask(part(number, data))
    assert is_a(await desk.ask(part(2, b"four")), Refused).why == "HASH_MISMATCH"
    is_a(await desk.ask(fetch()), Missing)
    for number, data in enumerate((b"one", b"two", b"three")):
        is_a(await desk.ask(part(number, data)), Done)
    is_a(await desk.ask(fetch()), Fetched)


async def test_a_part_that_does_not_fit_is_refused(desk: Desk) -> None:
    await desk.ask(part(0, b"one"))
    for op in (part(0, b"one", parts=2), part(3, b"x"), part(-1, b"x")):
        assert is_a(await desk.ask(op), Refused).why == "BAD_PART"
