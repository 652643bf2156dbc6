"""Whether a round went as was promised: ends, effects, and one unbroken history of each run."""

from collections import Counter
from collections.abc import Iterable, Mapping

from messages.errors import TreadleError
from messages.events import Decided, Observed, StepLost
from messages.ledger import Entry, RunRow
from runtime.ledger import chain
from tests.faults.campaigns.book import Book
from tests.faults.campaigns.fleet import Fleet
from tests.faults.campaigns.heard import Heard
from tests.faults.campaigns.tally import Tally

End = tuple[str, int]
"""``STATUS reason``, and how many effects the run must have."""


async def judge(
    fleet: Fleet, tally: Tally, ends: Mapping[str, End], heard: Heard | None = None
) -> None:
    """Look at every run.

    Args:
        fleet: Whose ledger and downstream are read.
        tally: Where it is counted.
        ends: How each run must have ended.
        heard: What the owners announced as committed.
    """
    effects = await fleet.effects()
    tally.effects_over_1 += sum(count > 1 for count in effects.values())
    tally.count(runs=len(ends), forks=0, announced=heard.count if heard else 0)
    async with fleet.book() as book:
        rows = await book.rows()
        for run_id, end in ends.items():
            row = rows.get(run_id)
            found = f"{row.summary.status.value} {row.summary.reason}" if row else "no run"
            if (found, effects.get(run_id, 0)) != end:
                text = f"{run_id}: {found}, {effects.get(run_id, 0)} effects, not {end}"
                tally.wrong(f"{text}; {await _losses(book, run_id)}")
        for row in rows.values():
            await _history(book, tally, row, heard)


async def _losses(book: Book, run_id: str) -> str:
    """Why its steps were lost and its calls failed, as far as they were."""
    events = [event for entry in await book.entries(run_id) for event in entry.events]
    whys = Counter(event.why for event in events if isinstance(event, StepLost))
    seen = [event for event in events if isinstance(event, Observed) and event.kind != "ok"]
    codes = Counter(f"{e.kind} {e.problem.code if e.problem else ''}".strip() for e in seen)
    return f"lost steps {dict(whys)}, failed calls {dict(codes)}"


async def _history(book: Book, tally: Tally, row: RunRow, heard: Heard | None) -> None:
    """Versions without a gap, each hash in the next entry, and nothing announced that is gone."""
    try:
        entries = await book.entries(row.run_id)
        tally.count(entries=chain.verify(entries, head_hash=row.head_hash))
    except TreadleError as error:
        tally.count(forks=1)
        tally.wrong(f"{row.run_id}: {error.message}")
        return
    strange = heard.not_in(row.run_id, entries) if heard is not None else []
    for text in [*strange, *twice(row.run_id, entries)]:
        tally.count(forks=1)
        tally.wrong(text)


def twice(run_id: str, entries: Iterable[Entry]) -> list[str]:
    """Steps decided and calls observed more than once: two histories, woven into one.

    A final turn after a budget is gone would count too; no run here may come to one.
    """
    seen: Counter[str] = Counter()
    for entry in entries:
        for event in entry.events:
            if isinstance(event, Decided):
                seen[f"step {event.step} is decided"] += 1
            elif isinstance(event, Observed):
                seen[f"call {event.ordinal} of step {event.step} is observed"] += 1
    return [f"{run_id}: {what} {count} times" for what, count in seen.items() if count > 1]
