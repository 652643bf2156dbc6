"""The gateway's part of ``treadle doctor``: what can only be seen from inside."""

from collections.abc import Awaitable, Callable

import anyio

from actors.gateway.letters import Letters
from actors.gateway.runs import App
from messages import subjects
from messages.errors import DeadlineExceeded, TreadleError
from messages.ledger import Due, ListEffects
from messages.subjects import ApiAddress
from runtime.bus.port import Bus
from runtime.views.actors import SUBJECT, WITHIN_S, actor_rows, missing_roles
from runtime.views.checkup import check, check_ledger, check_owners, due_runs, failed
from runtime.views.reading import Reader
from runtime.views.values import View, iso

CHECK_S = 6.0
"""A check that has not come to an end is a finding; below the 10 s that a client waits."""
_STREAMS = (subjects.TASKS_STREAM, subjects.RESULTS_STREAM, subjects.DEAD_STREAM)
_PROCESS = "doctor"
"""Owns nothing: asking Due under this name changes nothing."""

Checking = Callable[[ApiAddress], Awaitable[View]]


class Checkup:
    """The verb checkup: every check at once, each with a deadline, each failure a finding."""

    def __init__(self, bus: Bus, app: App) -> None:
        self._bus = bus
        self._app = app
        self._letters = Letters(bus, app)

    async def run(self, sender: ApiAddress) -> View:
        """``{v, at, checks}``."""
        checks: dict[str, Checking] = {
            "streams": self._streams,
            "ledger": self._ledger,
            "clock": self._clock,
            "actors": self._actors,
            "owners": self._owners,
            "effects": self._effects,
            "dead letters": self._dead,
        }
        found: dict[str, View] = {}

        async def make(name: str, checking: Checking) -> None:
            try:
                with anyio.fail_after(CHECK_S):
                    found[name] = await checking(sender)
            except TimeoutError:
                found[name] = failed(name, DeadlineExceeded(f"no answer within {CHECK_S:g} s"))
            except TreadleError as error:
                found[name] = failed(name, error)

        async with anyio.create_task_group() as tasks:
            for name, checking in checks.items():
                tasks.start_soon(make, name, checking)
        now = iso(self._app.clock.now())
        return {"v": 1, "at": now, "checks": [found[name] for name in checks]}

    async def _streams(self, _sender: ApiAddress) -> View:
        for stream in _STREAMS:
            await self._bus.stream_created(stream)
        return check("streams", f"{', '.join(_STREAMS)} are there")

    async def _ledger(self, sender: ApiAddress) -> View:
        reader = Reader(self._bus.ask, sender.tenant, self._app.clock.now)
        return await check_ledger(self._bus.ask, reader, sender.tenant)

    async def _clock(self, _sender: ApiAddress) -> View:
        """The ledger's clock is the one that counts; ours is compared with it."""
        before = self._app.clock.now()
        theirs = (await self._bus.ask(Due(process=_PROCESS, limit=1))).now
        after = self._app.clock.now()
        skew_s = max(before - theirs, theirs - after, 0.0)
        allowed_s = self._app.settings.runtime.skew_s
        return check(
            "clock",
            f"gateway and ledger differ by {skew_s:.3f} s at least, {allowed_s:g} s are allowed",
            is_ok=skew_s <= allowed_s,
            hint="keep the clocks of all hosts in step (NTP), or raise runtime.skew_s",
        )

    async def _actors(self, _sender: ApiAddress) -> View:
        rows = actor_rows(await self._bus.survey(SUBJECT, within_s=WITHIN_S))
        missing = missing_roles(rows)
        processes = len({row["process"] for row in rows})
        if missing:
            detail = f"nobody serves: {', '.join(missing)}"
            hint = "treadle up --roles … --join FILE starts what is missing"
            return check("actors", detail, is_ok=False, hint=hint)
        return check("actors", f"every role is served, over {processes} connections")

    async def _owners(self, sender: ApiAddress) -> View:
        first = await due_runs(self._bus.ask, sender.tenant, _PROCESS)
        if not first:
            return check_owners({}, {}, 0.0, 0.0)
        waited_s = 2 * self._app.settings.runtime.due_s + 0.5
        await self._app.clock.sleep(min(waited_s, CHECK_S / 2))
        second = await due_runs(self._bus.ask, sender.tenant, _PROCESS)
        return check_owners(first, second, self._app.clock.now(), waited_s)

    async def _effects(self, sender: ApiAddress) -> View:
        query = ListEffects(tenant=sender.tenant, is_unresolved_only=True)
        flagged = [row for row in (await self._bus.ask(query)).rows if row.is_flagged]
        return check(
            "effects",
            f"{len(flagged)} effects wait for a person to say what became of them",
            is_ok=not flagged,
            hint="treadle effects ls --unresolved",
        )

    async def _dead(self, sender: ApiAddress) -> View:
        count = await self._letters.count(sender)
        detail = f"{count} dead letters"
        return check("dead letters", detail, is_ok=not count, hint="treadle dlq ls")
