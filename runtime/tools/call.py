"""``Caller``: runs tools, preconditions, lookups, rules and predicates for the actors.

The only retry layer of reads: one that raises ``Transient`` is tried twice more, each attempt under
a request id of its own, all of them within one deadline. Nobody retries a write.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from messages.checks import JudgeVerdict
from messages.errors import Transient
from messages.execution import RecheckVerdict
from messages.parts import Attempt, Problem
from runtime.clock import Chance, Clock, Ids
from runtime.tools.clean import MAX_MESSAGE, clean_text
from runtime.tools.context import Ctx
from runtime.tools.draft import Draft
from runtime.tools.ended import Ended, Raised, Returned
from runtime.tools.outcome import Called, Found, found, outcome, problem_of
from runtime.tools.ruling import Unmet
from runtime.tools.signature import Function
from runtime.tools.tool import Tool
from runtime.tools.workers import Workers

T = TypeVar("T")
CalledT = TypeVar("CalledT", bound=Called)

EXTRA_ATTEMPTS = 2
"""How often a read is tried again after ``Transient``."""
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 2.0
PURE_TIMEOUT_S = 5.0
"""Deadline of a rule or a predicate, which have nothing to wait for."""
HOOK_FAILED = "HOOK_FAILED"

Values = dict[str, object]
"""Decoded arguments by parameter name."""


class Caller:
    """Runs user code under deadlines; one per process."""

    def __init__(self, *, clock: Clock, ids: Ids, chance: Chance, workers: Workers) -> None:
        """Args: chance: randomness for the pauses between attempts; workers: shared slots."""
        self._clock = clock
        self._ids = ids
        self._chance = chance
        self._workers = workers

    async def call(
        self, tool: Tool[..., Any], ctx: Ctx[Any], values: Values, *, timeout_s: float | None = None
    ) -> Called:
        """Run a tool.

        Args:
            tool: What to run.
            ctx: What it is given.
            values: Its arguments, as ``tool.decode`` made them.
            timeout_s: What is left of its deadline; None: all of it.

        Returns:
            How it went; a tool never raises out of here. A result of more than the caller's inline
            limit (``size``) is the caller's to put aside.
        """
        limit = tool.options.timeout_s if timeout_s is None else timeout_s
        extra = EXTRA_ATTEMPTS if tool.kind == "read" else 0
        ended, attempts = await self._attempts(tool.function, ctx, values, limit, extra)
        return self._dated(outcome(tool.kind, ended), attempts)

    async def lookup(self, tool: Tool[..., Any], ctx: Ctx[Any], values: Values) -> Found:
        """Ask a write's ``lookup`` whether it happened; retried like a read.

        Raises:
            ValueError: The tool has none.
        """
        if tool.lookup_hook is None:
            message = f"{tool.what} has no lookup"
            raise ValueError(message)
        limit = tool.options.timeout_s
        ended, attempts = await self._attempts(tool.lookup_hook, ctx, values, limit, EXTRA_ATTEMPTS)
        return self._dated(found(ended), attempts)

    async def precondition(
        self, tool: Tool[..., Any], ctx: Ctx[Any], values: Values
    ) -> RecheckVerdict:
        """Ask a write's ``precondition``; it holds where there is none. Retried like a read."""
        if tool.precondition_hook is None:
            return RecheckVerdict()
        limit = tool.options.timeout_s
        ended, _ = await self._attempts(tool.precondition_hook, ctx, values, limit, EXTRA_ATTEMPTS)
        unmet = _condition(ended)
        if isinstance(unmet, Problem):
            return RecheckVerdict(problem=unmet)
        return RecheckVerdict(unmet=unmet)

    async def judge(
        self,
        done: Callable[[Draft[Any]], Unmet | None],
        draft: Draft[Any],
        *,
        timeout_s: float = PURE_TIMEOUT_S,
    ) -> JudgeVerdict:
        """Ask an agent's ``done``, in a thread, since it is user code that may not come back."""
        unmet = _condition(await self._workers.run(done, draft, timeout_s=timeout_s))
        if isinstance(unmet, Problem):
            return JudgeVerdict(problem=unmet)
        return JudgeVerdict(unmet=unmet)

    async def pure(
        self, function: Callable[[], T], *, timeout_s: float = PURE_TIMEOUT_S
    ) -> T | Problem:
        """Run what holds user code that does no I/O, such as ``decide``, in a thread."""
        ended = await self._workers.run(function, timeout_s=timeout_s)
        return cast("T", ended.value) if isinstance(ended, Returned) else problem_of(ended)

    async def _attempts(
        self, function: Function, ctx: Ctx[Any], values: Values, limit_s: float, extra: int
    ) -> tuple[Ended, tuple[Attempt, ...]]:
        end = self._clock.monotonic() + limit_s
        attempts: list[Attempt] = []
        while True:
            left_s = max(end - self._clock.monotonic(), 0.0)
            ended, attempt = await self._attempt(function, ctx, values, left_s)
            attempts.append(attempt)
            again = isinstance(ended, Raised) and isinstance(ended.error, Transient)
            if not again or len(attempts) > extra:
                return ended, tuple(attempts)
            pause_s = self._pause_s(len(attempts))
            if self._clock.monotonic() + pause_s >= end:
                return ended, tuple(attempts)
            await self._clock.sleep(pause_s)

    async def _attempt(
        self, function: Function, ctx: Ctx[Any], values: Values, timeout_s: float
    ) -> tuple[Ended, Attempt]:
        started_at, start = self._clock.now(), self._clock.monotonic()
        ended = await self._workers.run(function, ctx, timeout_s=timeout_s, **values)
        attempt = Attempt(
            request_id=self._ids.new_id("req"),
            started_at=started_at,
            duration_s=self._clock.monotonic() - start,
            error=None if isinstance(ended, Returned) else problem_of(ended),
        )
        return ended, attempt

    def _pause_s(self, attempts: int) -> float:
        longest = min(FIRST_PAUSE_S * 2 ** (attempts - 1), LONGEST_PAUSE_S)
        return self._chance() * longest

    def _dated(self, called: CalledT, attempts: tuple[Attempt, ...]) -> CalledT:
        first, last = attempts[0], attempts[-1]
        return replace(
            called,
            attempts=attempts,
            request_id=last.request_id,
            started_at=first.started_at,
            duration_s=last.started_at + last.duration_s - first.started_at,
        )


def _condition(ended: Ended) -> str | Problem | None:
    """The reason why a condition does not hold, None where it does, or why it cannot be told."""
    if not isinstance(ended, Returned):
        return problem_of(ended)
    match ended.value:
        case None:
            return None
        case Unmet(why):
            return clean_text(why, MAX_MESSAGE)
        case other:
            kind = type(other).__name__
            return Problem(code=HOOK_FAILED, message=f"it returned {kind}, not Unmet(...) or None")
