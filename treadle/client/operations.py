"""What operators ask: who is there, what is registered, what was set aside, is all well."""

from collections.abc import Mapping, Sequence
from typing import Any

from messages import api
from messages.api import Reply
from messages.ledger import GroupBy
from runtime.views.actors import SUBJECT, WITHIN_S, actor_rows
from treadle.client.wire import OPERATOR, Wire

_METRICS_S = 120.0
"""All runs are looked at: 12 s for a million of them, measured."""


class Operations(Wire):
    """The part of ``Client`` that is about the system and not about one run."""

    async def agents(self) -> Reply:
        """``{v, agents}``."""
        return await self._call(OPERATOR, "agents", api.Empty())

    async def tools(self) -> Reply:
        """``{v, tools}``."""
        return await self._call(OPERATOR, "tools", api.Empty())

    async def metrics(
        self,
        *,
        since: float | None = None,
        month: str | None = None,
        by: Sequence[GroupBy] = (),
        labels: Mapping[str, str] | None = None,
    ) -> Reply:
        """Figures about many runs: ``{v, runs, completion_rate, …, groups}``.

        Args:
            since: Only runs created in so many last seconds.
            month: Only runs created in this month, ``YYYY-MM``, UTC.
            by: Figures of each group of these besides.
            labels: Only runs with these.
        """
        body = api.Metrics(since=since, month=month, by=[*by], labels=dict(labels or {}))
        return await self._call(OPERATOR, "metrics", body, timeout_s=_METRICS_S)

    async def ping(self) -> Reply:
        """Whether the gateway answers, and as whom it sees us."""
        return await self._call(OPERATOR, "ping", api.Empty())

    async def actors(self) -> Reply:
        """``{v, actors}``: a row for each role of each process that answers now.

        Asked of the processes themselves, so that it works while no gateway does.
        """
        bus = await self._bus(self._user or OPERATOR)
        replies = await bus.survey(SUBJECT, within_s=WITHIN_S)
        return {"v": 1, "actors": actor_rows(replies)}

    async def call_tool(
        self, tool: str, arguments: Mapping[str, Any], *, run_id: str | None = None
    ) -> Reply:
        """Call one read as a run of its own: ``{v, run_id, existing}``; ``wait`` for it."""
        body = api.CallTool(tool=tool, arguments=dict(arguments), run_id=run_id)
        return await self._call(OPERATOR, "call", body)

    async def resolve_effect(
        self,
        key: str,
        *,
        happened: bool,
        result: Any = None,
        reason: str = "",
        run_id: str | None = None,
    ) -> Reply:
        """Say what became of an effect of unknown outcome: ``{v, effect, run_id, problem}``.

        Args:
            key: Its idempotency key.
            happened: Whether it did.
            result: What the tool would have returned, if it happened.
            reason: How you found out; kept with it until another run takes the key.
            run_id: Whose attempt you looked at; refused if another run has made one since.
        """
        finding = "happened" if happened else "absent"
        body = api.ResolveEffect(
            key=key, run_id=run_id, finding=finding, result=result, reason=reason
        )
        return await self._call(OPERATOR, "effect_resolve", body)

    async def letters(self, letter_id: int | None = None, *, limit: int = 100) -> Reply:
        """``{v, letters}``: dead letters, oldest first; with an id, that one and its payload."""
        return await self._call(OPERATOR, "letters", api.Letters(id=letter_id, limit=limit))

    async def retry_letter(self, letter_id: int) -> Reply:
        """Publish the task of a dead letter again as it was, and take the letter away."""
        return await self._call(OPERATOR, "letter_retry", api.RetryLetter(id=letter_id))

    async def drop_letter(self, letter_id: int, *, reason: str) -> Reply:
        """Take a dead letter away for good."""
        body = api.DropLetter(id=letter_id, reason=reason)
        return await self._call(OPERATOR, "letter_drop", body)

    async def checkup(self) -> Reply:
        """``{v, at, checks: [{name, ok, detail, hint}]}`` as the gateway sees the system."""
        return await self._call(OPERATOR, "checkup", api.Empty())
