"""Settling by hand what nobody else could find out: effects of unknown outcome."""

from actors.gateway.entitlement import check_operator
from actors.gateway.runs import App, Runs
from messages import api
from messages.errors import BadTask, Conflict, NotAllowed, NotFound, UsageError
from messages.ledger import (
    EffectRow,
    ListEffects,
    Missing,
    Refused,
    ResolveEffect,
)
from messages.parts import Evidence, JsonValue, Problem
from messages.state import LoopState
from messages.status import Reason
from messages.subjects import ApiAddress
from runtime.artifacts import keep_if_large
from runtime.asking import Asking, GiveUp
from runtime.bus.port import Bus
from runtime.intake import continued_run_id
from runtime.log import Level, Line, log
from runtime.tools.clean import clean
from runtime.views import effect_row
from runtime.views.reading import Reader
from runtime.views.values import View

CALL = "call:"
"""How the key of an ``each_call`` write begins."""
_MOST = 500
_CONTINUED = "effects"
"""Names the continuation among those that answers to questions start."""


class Effects:
    """The verb effect_resolve.

    Guarantees: only a flagged key is settled, by an operator, and the first finding stands; saying
    the same again is answered the same, so that a lost reply or a crash in between harms nothing.
    """

    def __init__(self, bus: Bus, app: App, runs: Runs) -> None:
        self._bus = bus
        self._app = app
        self._runs = runs
        self._asking = Asking(bus, app.clock, deadline_s=3.0, patience_s=0.0)

    async def resolve(self, sender: ApiAddress, body: api.ResolveEffect) -> View:
        """Write down what became of an effect; the work of a run that ended over it goes on."""
        check_operator(self._app.settings, sender)
        if body.finding == "absent" and body.result is not None:
            raise UsageError("what did not happen has no result")
        row = await self._row(sender, body.key)
        answer = await self._bus.ask(
            ResolveEffect(
                tenant=sender.tenant,
                key=row.key,
                run_id=body.run_id or row.run_id,
                finding=body.finding,
                person=sender.principal,
                evidence=await self._evidence(sender, row, body),
                why=body.reason,
            )
        )
        if isinstance(answer, Missing):
            raise NotFound("key", body.key)
        row = await self._row(sender, body.key) if isinstance(answer, Refused) else answer.effect
        ended = await self._ended(sender, row.run_id)
        if isinstance(answer, Refused):
            if not _is_known_already(row, body, is_over_it=ended is not None):
                words = answer.message if answer.why == "TOO_EARLY" else _taken(row)
                raise Conflict(words, why=answer.why, hint="treadle effects show KEY")
        else:
            _note(sender, body)
        run_id, problem = await self._go_on(sender, ended)
        return {"v": 1, "effect": effect_row(row), "run_id": run_id, "problem": problem}

    async def _row(self, sender: ApiAddress, key: str) -> EffectRow:
        found = await self._bus.ask(ListEffects(tenant=sender.tenant, keys=(key,)))
        for row in found.rows:
            return row
        raise NotFound("key", key, hint="treadle effects ls --unresolved")

    async def _evidence(
        self, sender: ApiAddress, row: EffectRow, body: api.ResolveEffect
    ) -> Evidence | None:
        """The result as an observation whose source is the person."""
        if body.finding == "absent":
            return None
        cleaned = clean(body.result)
        if isinstance(cleaned, Problem):
            raise UsageError(f"the result cannot be kept: {cleaned.message}", hint=cleaned.hint)
        try:
            payload, ref = await keep_if_large(self._asking, sender.tenant, cleaned.value)
        except GiveUp as error:
            raise error.cause from error
        return Evidence(
            id="",
            tool=row.tool,
            request_id="",
            fetched_at=self._app.clock.now(),
            source=f"person:{sender.principal}",
            payload=payload,
            ref=ref,
            notes=cleaned.notes,
        )

    async def _go_on(
        self, sender: ApiAddress, state: LoopState | None
    ) -> tuple[str | None, str | None]:
        """The linked run, once nothing of the ended one is unknown any more; or why there is none.

        A write declared ``each_call`` is another effect in another run, so a run that has done one
        is never done again by itself: a person submits what is left.
        """
        if state is None:
            return None, None
        query = ListEffects(tenant=sender.tenant, run_id=state.run_id, limit=_MOST)
        rows = (await self._bus.ask(query)).rows
        if any(row.is_flagged or row.state == "unknown" for row in rows):
            return None, None
        if len(rows) == _MOST or any(r.key.startswith(CALL) and r.state == "done" for r in rows):
            return None, "it has done writes that another run would do again; submit what is left"
        told: dict[str, JsonValue] = {"effects": [_told(row) for row in rows]}
        try:
            run_id = continued_run_id(state.run_id, _CONTINUED)
            return (await self._runs.go_on(state, told, run_id)).run_id, None
        except (BadTask, NotAllowed, NotFound) as error:
            return None, error.message

    async def _ended(self, sender: ApiAddress, run_id: str) -> LoopState | None:
        """The run, if what was unknown is what ended it."""
        reader = Reader(self._bus.ask, sender.tenant, self._app.clock.now)
        state = (await reader.history(run_id)).fold()
        is_over_it = state.status.is_terminal and state.reason == Reason.UNKNOWN_EFFECT
        return state if is_over_it else None


def _note(sender: ApiAddress, body: api.ResolveEffect) -> None:
    log(
        Line.CONTROL,
        Level.WARNING,
        verb="effect_resolve",
        key=body.key,
        finding=body.finding,
        person=sender.principal,
        reason=body.reason,
    )


def _is_known_already(row: EffectRow, body: api.ResolveEffect, *, is_over_it: bool) -> bool:
    """Somebody found the same, or it settled itself late; saying so makes the work go on."""
    wanted = "done" if body.finding == "happened" else "free"
    is_same_run = body.run_id in {None, row.run_id}
    return row.state == wanted and is_same_run and (bool(row.person) or is_over_it)


def _taken(row: EffectRow) -> str:
    by = f", as {row.person} found out" if row.person else ""
    return f"the effect {row.key} is {row.state}{by}; only an unknown one is resolved by hand"


def _told(row: EffectRow) -> dict[str, JsonValue]:
    """What the run that goes on is told; it proposes the write again and is given the result."""
    return {
        "key": row.key,
        "tool": row.tool,
        "finding": "happened" if row.state == "done" else "did not happen",
    }
