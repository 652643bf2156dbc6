"""The client: one method per verb of the public API, one lazily opened connection per user."""

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio
import msgspec

from messages import api, subjects
from messages.api import Reply
from messages.errors import DeadlineExceeded, UsageError
from messages.parts import JsonValue
from messages.status import Status
from messages.task import Result, TaskLimits
from runtime.bus.tasks import lone_errors
from treadle.client.connection import find
from treadle.client.feed import EventFeed
from treadle.client.operations import Operations
from treadle.client.wire import APPROVER, OPERATOR, REQUEST_S, SUBMITTER

__all__ = ["APPROVER", "OPERATOR", "REQUEST_S", "SUBMITTER", "Client"]

_PEOPLE = frozenset({Status.AWAITING_APPROVAL, Status.AWAITING_HUMAN})


class Client(Operations):
    """Talks to a running daemon.

    Every method raises the errors of ``messages.errors``: NotFound, NotAllowed, Conflict (``why``
    says which), UsageError, Unreachable, DeadlineExceeded (it may have been done all the same).
    """

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        path: str | os.PathLike[str] = ".treadle",
        *,
        user: str | None = None,
        url: str | None = None,
        tenant: str | None = None,
    ) -> AsyncGenerator[Self]:
        """A client while entered.

        Args:
            path: The daemon's data directory, or its connection.json.
            user: As whom, for everything; None: the submitter submits, the approver decides, the
                operator does the rest.
            url: NATS instead of the file's; ``nats://USER:PASSWORD@HOST:PORT`` needs no file.
            tenant: Instead of the file's.

        Raises:
            Unreachable: No daemon runs there.
            NotAllowed: There is no such user, or NATS refuses it.
        """
        place = await find(path, url, tenant)
        async with lone_errors() as tasks:
            client = cls(place, user, tasks)
            await client._bus(OPERATOR if user is None else user)
            yield client

    # ------------------------------------------------------------------ submitting
    async def submit(
        self,
        agent: str,
        goal: str,
        *,
        inputs: Mapping[str, JsonValue] | None = None,
        run_id: str | None = None,
        limits: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Reply:
        """Submit a task: ``{v, run_id, existing}``, once the run is durable.

        Args:
            agent: Who shall do it.
            goal: What shall be done, in words.
            inputs: JSON for the agent.
            run_id: The same id again is the same run; None: the daemon makes one.
            limits: max_steps, max_tokens, max_usd (text), max_seconds; lower than the agent's.
            labels: For listings.
        """
        body = api.Submit(
            agent=agent,
            goal=goal,
            inputs=dict(inputs or {}),
            run_id=run_id,
            limits=_limits(limits),
            labels=dict(labels or {}),
        )
        return await self._call(SUBMITTER, "submit", body)

    # ------------------------------------------------------------------ looking
    async def show(self, run_id: str, *, at: int | None = None) -> Reply:
        """One run, now or as it was at a version."""
        return await self._call(OPERATOR, "show", api.Show(run_id=run_id, at=at))

    async def trace(self, run_id: str) -> Reply:
        """What each step of a run took, cost and called: ``{v, run_id, …, steps, waits}``."""
        return await self._call(OPERATOR, "trace", api.Trace(run_id=run_id))

    async def list(
        self,
        *,
        status: str | None = None,
        agent: str | None = None,
        labels: Mapping[str, str] | None = None,
        since: float | None = None,
        limit: int = 50,
        ended: bool = False,
    ) -> Reply:
        """``{v, runs}``, newest first; ``since`` seconds back.

        Without a status: open ones, or all with ``ended``.
        """
        body = api.ListRuns(
            status=status,
            agent=agent,
            labels=dict(labels or {}),
            since=since,
            limit=limit,
            ended=ended,
        )
        return await self._call(OPERATOR, "list", body)

    def events(self, run_id: str, *, after: int = -1) -> EventFeed:
        """Events of a run later than a version: iterate to follow it, await for one page."""

        async def page(version: int) -> Reply:
            return await self._call(OPERATOR, "events", api.Events(run_id=run_id, after=version))

        subject = subjects.event(self._place.tenant, subjects.identifier("run", run_id), ">")

        @asynccontextmanager
        async def hints() -> AsyncGenerator[Any]:
            bus = await self._bus(self._user or OPERATOR)
            async with bus.subscribe(subject) as stream:
                yield stream

        return EventFeed(after, page, hints)

    async def wait(
        self, run_id: str, timeout_s: float | None = None, *, for_person: bool = False
    ) -> Result:
        """The result of a run, once it has ended.

        Args:
            run_id: Which.
            timeout_s: None: for ever.
            for_person: Also return when it waits for a person; the status says so.

        Raises:
            DeadlineExceeded: It is still under way; it goes on.
        """
        with anyio.move_on_after(timeout_s):
            view = await self.show(run_id)
            if not _is_at_rest(view, for_person=for_person):
                view = await self._rest(view, for_person=for_person)
            return _result(view)
        raise DeadlineExceeded(f"run {run_id} is still under way after {timeout_s:g} s")

    async def approvals(self, ids: Sequence[str] = ()) -> Reply:
        """``{v, approvals}``: those that wait, or those named, with what an approver sees."""
        return await self._call(OPERATOR, "approvals", api.Approvals(ids=[*ids]))

    async def effects(
        self,
        *,
        key: str | None = None,
        run_id: str | None = None,
        unresolved: bool = False,
        limit: int = 100,
    ) -> Reply:
        """``{v, effects}``; with a key, that one and its whole chain."""
        body = api.Effects(key=key, run_id=run_id, unresolved=unresolved, limit=limit)
        return await self._call(OPERATOR, "effects", body)

    # ------------------------------------------------------------------ deciding
    async def approve(self, approval_id: str, *, action: str = "", reason: str = "") -> Reply:
        """Allow exactly the action with that hash (12 hex digits or more of it)."""
        body = api.Decide(approval_id=approval_id, action=action, reason=reason)
        return await self._call(APPROVER, "approve", body)

    async def deny(self, approval_id: str, *, action: str = "", reason: str = "") -> Reply:
        """Say no; the model is told the reason."""
        body = api.Decide(approval_id=approval_id, action=action, reason=reason)
        return await self._call(APPROVER, "deny", body)

    async def answer(
        self, run_id: str, answer: JsonValue, *, question_id: str | None = None
    ) -> Reply:
        """Answer a run's question; one that ended NEEDS_INPUT goes on as the run id returned."""
        body = api.Answer(run_id=run_id, question_id=question_id, answer=answer)
        return await self._call(APPROVER, "answer", body)

    async def cancel(self, run_id: str, *, reason: str = "") -> Reply:
        """End a run; a write in flight is settled first."""
        return await self._call(OPERATOR, "cancel", api.Cancel(run_id=run_id, reason=reason))

    async def pause(
        self,
        run_id: str | None = None,
        *,
        agent: str | None = None,
        everything: bool = False,
        reason: str = "",
    ) -> Reply:
        """Hold a run, all runs of an agent, or everything."""
        body = api.Control(run_id=run_id, agent=agent, is_all=everything, reason=reason)
        return await self._call(OPERATOR, "pause", body)

    async def resume(
        self,
        run_id: str | None = None,
        *,
        agent: str | None = None,
        everything: bool = False,
        reason: str = "",
    ) -> Reply:
        """Undo a pause."""
        body = api.Control(run_id=run_id, agent=agent, is_all=everything, reason=reason)
        return await self._call(OPERATOR, "resume", body)

    async def _rest(self, view: Reply, *, for_person: bool) -> Reply:
        """``show`` of the run once it is at rest."""
        run_id: str = view["run_id"]
        feed = self.events(run_id, after=view["version"]).follow()
        try:
            async for event in feed:
                if for_person and event["kind"] == "suspended":
                    view = await self.show(run_id)
                    if _is_at_rest(view, for_person=True):
                        return view
        finally:
            await feed.aclose()
        return await self.show(run_id)


def _is_at_rest(view: Reply, *, for_person: bool) -> bool:
    status = Status(view["status"])
    return status.is_terminal or (for_person and status in _PEOPLE)


def _result(view: Reply) -> Result:
    names = ("run_id", "agent", "status", "reason", "output", "summary", "usage", "version")
    return Result(**{name: view[name] for name in names})


def _limits(limits: Mapping[str, Any] | None) -> TaskLimits:
    try:
        return msgspec.convert(dict(limits or {}), TaskLimits)
    except msgspec.ValidationError as error:
        raise UsageError(f"limits: {error}") from error
