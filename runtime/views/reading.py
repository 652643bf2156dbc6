"""Reading runs, approvals and effects for people: a few ledger queries, then a projection.

The gateway asks the checkpointer, the offline reader a database file; ``Ask`` hides which. Every
query carries the tenant, and no answer leaves it.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from messages.api import Approvals, Effects, Events, ListRuns, Metrics, Show, Trace
from messages.base import Request, Timestamp
from messages.canon import sha256_hex
from messages.errors import NotFound, UsageError
from messages.ledger import (
    ApprovalRow,
    EffectRow,
    Entry,
    Fetch,
    ListApprovals,
    ListEffects,
    Load,
    Loaded,
    Missing,
    RunCursor,
    RunRow,
    Tally,
    TallyRuns,
)
from messages.ledger import ListRuns as ListRunRows
from messages.parts import JsonValue
from messages.state import LoopState
from messages.status import Status
from messages.subjects import approval_identifier, identifier
from runtime.loop.evolve import fold
from runtime.tally import merge_groups
from runtime.views.approvals import approval_detail, approval_row
from runtime.views.effects import effect_chain, effect_row
from runtime.views.events import event_line
from runtime.views.metrics import metrics_view
from runtime.views.run import list_row, show_run
from runtime.views.trace import trace_run
from runtime.views.values import View, month_of

ReplyT = TypeVar("ReplyT")

MAX_ROWS = 500
"""Of one listing; a row is at most about 2 KiB and a reply must fit the broker's limit."""
MAX_LINES = 1_000
"""Of one page of events; whole entries, so one more entry may pass it."""


class Ask(Protocol):
    """Puts one operation to the ledger."""

    async def __call__(self, request: Request[ReplyT], /) -> ReplyT:
        """The ledger's answer."""
        ...


class History(NamedTuple):
    """A run as it was read: its journal, and its row as it is now."""

    entries: tuple[Entry, ...]
    row: RunRow
    now: Timestamp

    def fold(self) -> LoopState:
        """The state after the last entry read."""
        return fold(self.entries)


class Reader:
    """The reading verbs for one tenant."""

    def __init__(self, ask: Ask, tenant: str, now: Callable[[], Timestamp]) -> None:
        """Args: ask: the ledger; tenant: whose rows; now: the reader's clock, for ``since``."""
        self._ask = ask
        self._tenant = tenant
        self._now = now

    async def history(self, run_id: str, *, upto: int | None = None) -> History:
        """The journal of a run, up to and including a version.

        Raises:
            NotFound: no such run of this tenant, or it has not come to that version.
        """
        page = await self._load(run_id, after=-1, upto=upto)
        entries = list(page.entries)
        while page.is_partial and page.entries:
            page = await self._load(run_id, after=entries[-1].version, upto=upto)
            entries.extend(page.entries)
        if not entries or (upto is not None and entries[-1].version < upto):
            have = f"it is at version {page.row.version}"
            raise NotFound("version", str(upto), hint=have)
        return History(tuple(entries), page.row, page.now)

    async def show(self, body: Show) -> View:
        """Verb show."""
        if body.at is not None and body.at < 0:
            raise UsageError("a version is 0 or more")
        read = await self.history(body.run_id, upto=body.at)
        now = read.now if body.at is None else None
        view = show_run(read.fold(), read.row, at=body.at, now=now)
        return view if body.at is not None else await self._with_decisions(view)

    async def _with_decisions(self, view: View) -> View:
        """What people have decided already, even if the run has not been told yet."""
        waiting: list[View] = view["approvals"]
        if not waiting:
            return view
        ids = tuple(item["id"] for item in waiting)
        rows = (await self._ask(ListApprovals(tenant=self._tenant, ids=ids))).rows
        states = {row.id: row.state for row in rows}
        shown = [{**item, "state": states.get(item["id"], "pending")} for item in waiting]
        pending = [item for item in shown if item["state"] == "pending"]
        return {**view, "approvals": shown, "approval": (pending or shown)[0]}

    async def trace(self, body: Trace) -> View:
        """Verb trace."""
        read = await self.history(body.run_id)
        return trace_run(read.fold(), read.row, read.entries, read.now)

    async def list_runs(self, body: ListRuns) -> View:
        """Verb list."""
        query = ListRunRows(
            tenant=self._tenant,
            statuses=(_status(body.status),) if body.status else (),
            is_open_only=not body.ended,
            agent=body.agent,
            labels=body.labels,
            since=None if body.since is None else self._now() - body.since,
            limit=max(1, min(body.limit, MAX_ROWS)),
        )
        return {"v": 1, "runs": [list_row(row) for row in (await self._ask(query)).rows]}

    async def metrics(self, body: Metrics) -> View:
        """Verb metrics: page by page, so that neither memory nor the ledger's time is at stake.

        Raises:
            UsageError: the month is none, or there is a ``since`` beside it.
        """
        since, until = self._span(body)
        query = TallyRuns(
            tenant=self._tenant, by=tuple(body.by), labels=body.labels, since=since, until=until
        )
        tallies = await self.tally(query)
        return metrics_view(tallies, body.by, since=since, until=until)

    async def tally(self, query: TallyRuns) -> tuple[Tally, ...]:
        """All the runs that match, counted by group; the groups in the order of their names."""
        tallies: tuple[Tally, ...] = ()
        after: RunCursor | None = None
        while True:
            page = await self._ask(replace(query, after=after))
            tallies, after = merge_groups((*tallies, *page.tallies)), page.next
            if after is None:
                return tallies

    def _span(self, body: Metrics) -> tuple[Timestamp | None, Timestamp | None]:
        if body.month is None:
            return (None if body.since is None else self._now() - body.since), None
        if body.since is not None:
            raise UsageError("a month and a time since when are two different spans; give one")
        return month_of(body.month)

    async def events(self, body: Events) -> View:
        """Verb events: one page.

        ``version`` is the run's newest; ``terminal`` comes with the last page of an ended run.
        """
        page = await self._load(body.run_id, after=body.after)
        lines: list[View] = []
        reached = body.after
        for entry in page.entries:
            if len(lines) >= MAX_LINES:
                break
            lines.extend(event_line(entry, event) for event in entry.events)
            reached = entry.version
        head = page.row.version
        is_ended = page.row.summary.status.is_terminal and reached >= head
        return {"v": 1, "events": lines, "version": head, "terminal": is_ended}

    async def approvals(self, body: Approvals) -> View:
        """Verb approvals: the pending ones, or those named, with what an approver sees."""
        if not body.ids:
            query = ListApprovals(tenant=self._tenant, limit=MAX_ROWS)
            rows = (await self._ask(query)).rows
            return {"v": 1, "approvals": [approval_row(row) for row in rows]}
        found = [await self.approval(approval_id) for approval_id in body.ids[:MAX_ROWS]]
        shown = [approval_detail(row, await self._package(row.package)) for row in found]
        return {"v": 1, "approvals": shown}

    async def approval(self, approval_id: str) -> ApprovalRow:
        """One approval, whatever its state.

        Raises:
            NotFound: this tenant has none of that id.
            BadIdentifier: no approval is called like that.
        """
        query = ListApprovals(tenant=self._tenant, ids=(approval_identifier(approval_id),))
        for row in (await self._ask(query)).rows:
            return row
        raise NotFound("approval", approval_id)

    async def effects(self, body: Effects) -> View:
        """Verb effects: rows, or one key with its whole chain."""
        if body.key is not None:
            return {"v": 1, "effects": [await self._chain(body.key)]}
        query = ListEffects(
            tenant=self._tenant,
            run_id=body.run_id,
            is_unresolved_only=body.unresolved,
            limit=max(1, min(body.limit, MAX_ROWS)),
        )
        return {"v": 1, "effects": [effect_row(row) for row in (await self._ask(query)).rows]}

    async def _chain(self, key: str) -> View:
        row = await self._effect(key)
        entries = (await self.history(row.run_id)).entries
        query = ListApprovals(
            tenant=self._tenant, run_id=row.run_id, is_pending_only=False, limit=MAX_ROWS
        )
        rows = (await self._ask(query)).rows
        mine = [a for a in rows if (a.step, a.ordinal) == (row.step, row.ordinal)]
        packages = {a.package: await self._package(a.package) for a in mine}
        return effect_chain(row, entries, mine, packages)

    async def _effect(self, key: str) -> EffectRow:
        for row in (await self._ask(ListEffects(tenant=self._tenant, keys=(key,)))).rows:
            return row
        raise NotFound("effect", key)

    async def _load(self, run_id: str, *, after: int, upto: int | None = None) -> Loaded:
        identifier("run", run_id)
        answer = await self._ask(Load(tenant=self._tenant, run_id=run_id, after=after, upto=upto))
        if isinstance(answer, Missing):
            raise NotFound("run", run_id)
        return answer

    async def _package(self, sha256: str) -> JsonValue:
        """The artifact of that hash, decoded; None where it is not there or not what it says."""
        if not sha256:
            return None
        data, part, parts = b"", 0, 1
        while part < parts:
            got = await self._ask(Fetch(tenant=self._tenant, sha256=sha256, part=part))
            if isinstance(got, Missing):
                return None
            data, part, parts = data + got.data, part + 1, got.parts
        return _decoded(data) if sha256_hex(data) == sha256 else None


def _decoded(data: bytes) -> JsonValue:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return None


def _status(name: str) -> Status:
    try:
        return Status(name.upper())
    except ValueError:
        known = ", ".join(Status)
        raise UsageError(f"no status is called {name[:40]!r}", hint=f"one of {known}") from None
