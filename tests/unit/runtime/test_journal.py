"""The journal cache: a value per run, from what is brought, what is cached and what is loaded."""

from typing import Any

import pytest

from messages.errors import NotFound, StorageError
from messages.ledger import Entry, Load, Loaded, Missing
from runtime.asking import Asking
from runtime.journal import JournalCache, StateCache
from tests.journals import RUN, journal, row_at, state_at

JOURNAL = journal()
TENANT = "default"


class Ledger(Asking):
    """Loads pages of the journal and counts them."""

    def __init__(  # pyright: ignore[reportMissingSuperCall] - it has no bus
        self, *, page: int = 100, has_run: bool = True, upto: int = 4
    ) -> None:
        self.page = page
        self.has_run = has_run
        self.end = upto
        self.loads: list[tuple[int, int | None]] = []

    async def again(self, request: Any, *, deadline_s: float | None = None) -> Any:
        del deadline_s
        assert isinstance(request, Load)
        self.loads.append((request.after, request.upto))
        if not self.has_run:
            return Missing(kind="run", name=request.run_id)
        last = min(self.end, self.end if request.upto is None else request.upto)
        found = [entry for entry in JOURNAL if request.after < entry.version <= last]
        return Loaded(entries=tuple(found[: self.page]), row=row_at(self.end), now=0.0)


async def test_a_run_never_seen_is_loaded_and_then_kept() -> None:
    ledger = Ledger()
    cache = StateCache(ledger)
    assert await cache.at(TENANT, RUN, 3) == state_at(3)
    assert await cache.at(TENANT, RUN, 3) == state_at(3)
    assert ledger.loads == [(-1, 3)]


async def test_a_tail_that_joins_is_enough() -> None:
    ledger = Ledger()
    cache = StateCache(ledger)
    _ = await cache.at(TENANT, RUN, 2)
    assert await cache.at(TENANT, RUN, 4, JOURNAL[2:]) == state_at(4)
    assert ledger.loads == [(-1, 2)]
    fresh = StateCache(ledger)
    assert await fresh.at(TENANT, RUN, 4, JOURNAL) == state_at(4)
    assert len(ledger.loads) == 1, "the whole journal was brought"


@pytest.mark.parametrize(
    "tail",
    [JOURNAL[4:], (), (JOURNAL[2], JOURNAL[4]), JOURNAL[:2]],
    ids=["gap before", "nothing", "gap inside", "too old"],
)
async def test_a_tail_with_a_gap_is_not_used(tail: tuple[Entry, ...]) -> None:
    ledger = Ledger()
    cache = StateCache(ledger)
    _ = await cache.at(TENANT, RUN, 1)
    assert await cache.at(TENANT, RUN, 4, tail) == state_at(4)
    assert ledger.loads[1:] == [(1, 4)]


async def test_what_is_brought_beyond_the_asked_version_is_left_out() -> None:
    cache = StateCache(Ledger())
    assert await cache.at(TENANT, RUN, 2, JOURNAL) == state_at(2)


async def test_an_older_version_is_folded_anew() -> None:
    ledger = Ledger()
    cache = StateCache(ledger)
    _ = await cache.at(TENANT, RUN, 4)
    assert await cache.at(TENANT, RUN, 2) == state_at(2)
    assert ledger.loads == [(-1, 4), (-1, 2)]


async def test_a_long_journal_comes_in_pages() -> None:
    ledger = Ledger(page=2)
    assert await StateCache(ledger).at(TENANT, RUN, 4) == state_at(4)
    assert ledger.loads == [(-1, 4), (1, 4), (3, 4)]


async def test_what_is_not_there_is_an_error() -> None:
    with pytest.raises(NotFound):
        await StateCache(Ledger(has_run=False)).at(TENANT, RUN, 0)
    with pytest.raises(StorageError):
        await StateCache(Ledger(upto=2)).at(TENANT, RUN, 4)


async def test_the_least_recently_used_run_goes_first() -> None:
    ledger = Ledger()
    cache: JournalCache[int] = JournalCache(
        ledger, lambda _value, entry: entry.version, lambda value: value, capacity=2
    )
    for run_id in ("a", "b", "a", "c"):
        _ = await cache.at(TENANT, run_id, 1)
    assert len(ledger.loads) == 3
    _ = await cache.at(TENANT, "a", 1)
    assert len(ledger.loads) == 3
    _ = await cache.at(TENANT, "b", 1)
    assert len(ledger.loads) == 4, "b was let go"
