"""Step 6: runs tools under grants. It has no authority of its own.

The order around a write: verify the grant over the bytes in hand, Claim, the effect under its
deadline, Settle, reply. A definite error is told as such only if the ledger says that it proves
that nothing happened; everything else that is not a result is unknown.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from messages.authority import GrantedAction, Purpose
from messages.base import Message, Request
from messages.canon import action_hash
from messages.errors import BadGrant, NotFound, Transient, TreadleError
from messages.execution import Execute, Finding, Outcome, Recheck, RecheckVerdict, Reconcile
from messages.ledger import Claim, Claimed, Settle
from messages.parts import Evidence, Problem
from runtime.actor import Actor
from runtime.artifacts import keep_if_large
from runtime.asking import Asking, GiveUp
from runtime.breakers import Breakers
from runtime.bus.port import Bus, Work
from runtime.clock import Clock, Ids
from runtime.faults import fault
from runtime.log import Level, Line, log
from runtime.policy.grants import Verifier
from runtime.settings import Runtime
from runtime.tools.call import Caller
from runtime.tools.context import Ctx
from runtime.tools.outcome import NOT_STARTED, UNAVAILABLE, Called, heard, unavailable
from runtime.tools.registry import Registry
from runtime.tools.tool import Tool

CLAIM_MARGIN_S = 2.0
"""A Claimed that arrives later than this after Claim was sent is not used (DESIGN.md section 6);
nor is one that arrives when the tool's deadline is over, which counts from the same moment."""
_NOT_MADE = frozenset({NOT_STARTED, UNAVAILABLE})
_NO_ANSWER = _NOT_MADE | {Transient.code}
"""Errors without a word of the other side: the call was not made, or did not get through."""


class Executor(Actor):
    """Runs tools, preconditions and lookups.

    Receives: Execute, Recheck, Reconcile, per tool.
    Replies: Outcome, RecheckVerdict, Finding.
    Guarantees: nothing of the user's starts without a grant for exactly these bytes; a write starts
    only after its claim and at most once per claim; it is brought to its end or its deadline
    whether or not its run still waits; what it did is settled before it replies.
    """

    role = "executor"
    is_slow = True

    def __init__(  # noqa: PLR0913 - what running a tool takes
        self,
        bus: Bus,
        *,
        registry: Registry,
        serves: tuple[str, ...],
        open_deps: Callable[[], AbstractAsyncContextManager[Any]],
        verifier: Verifier,
        asking: Asking,
        clock: Clock,
        ids: Ids,
        caller: Caller,
        times: Runtime,
    ) -> None:
        """Args: serves: names of the tools; open_deps: what they get as ``ctx.deps``."""
        super().__init__(bus)
        self._registry = registry
        self._serves = serves
        self._open_deps = open_deps
        self._deps: Any = None
        self._verifier = verifier
        self._asking = asking
        self._clock = clock
        self._ids = ids
        self._times = times
        self._caller = caller
        self._breakers = Breakers(clock, serves)

    def tools(self) -> tuple[str | None, ...]:
        """One subject set per tool."""
        return self._serves

    def breakers(self, tool: str | None) -> dict[str, str]:
        """See ``Actor``."""
        return {name: state for name, state in self._breakers.states().items() if name == tool}

    @asynccontextmanager
    async def prepared(self) -> AsyncGenerator[None]:
        """The app's dependencies are open while tools can be called."""
        async with self._open_deps() as deps:
            self._deps = deps
            yield

    async def handle(self, request: Request[object], work: Work) -> Message:
        """Do one thing under its grant."""
        match request:
            case Execute():
                granted = self._verify(request, "execute")
                if request.action.key is None:
                    return await self._read(request)
                return await self._write(request, granted, work)
            case Recheck():
                _ = self._verify(request, "recheck")
                return await self._recheck(request)
            case Reconcile():
                _ = self._verify(request, "lookup")
                return await self._look_up(request)
            case _:
                raise NotFound("verb", f"executor.{request.verb}")

    # ------------------------------------------------------------------ authority
    def _verify(self, request: Execute | Recheck | Reconcile, purpose: Purpose) -> GrantedAction:
        """Check the grant against the bytes that would run.

        Raises:
            BadGrant: it is not for exactly this.
        """
        action = request.action
        computed = action_hash(action.tool, action.arguments, action.key)
        tool = self._registry.tool(action.tool)
        if (tool.kind == "write") != (action.key is not None):
            raise BadGrant("a write needs a key and a read has none")
        try:
            return self._verifier.verify(
                request.grant,
                tenant=request.tenant,
                run_id=request.run_id,
                step=request.step,
                ordinal=action.ordinal,
                tool=action.tool,
                action_hash=computed,
                key=action.key,
                purpose=purpose,
                now=max(request.now, self._clock.now() - self._times.skew_s),
                skew_s=self._times.skew_s,
            )
        except BadGrant as error:
            log(Line.GRANT_REFUSED, Level.WARNING, run_id=request.run_id, why=error.message)
            raise

    def _ctx(self, request: Execute | Recheck | Reconcile) -> Ctx[Any]:
        return Ctx(
            deps=self._deps,
            idempotency_key=request.action.key or "",
            run_id=request.run_id,
            tenant=request.tenant,
            principal=request.principal,
        )

    # ------------------------------------------------------------------ reads and writes
    async def _read(self, request: Execute) -> Outcome:
        tool, values = self._values(request)
        fault("executor.before_read")
        called = await self._call(tool, request, values, tool.options.timeout_s)
        return await self._outcome(request, called)

    async def _call(
        self, tool: Tool[..., Any], request: Execute, values: dict[str, object], timeout_s: float
    ) -> Called:
        with self._breakers.call(tool.name) as call:
            if call.wait_s:
                return unavailable(call.wait_s)
            ctx = self._ctx(request)
            called = await self._caller.call(tool, ctx, values, timeout_s=timeout_s)
            call.ended = heard(called)
            return called

    def _values(
        self, request: Execute | Recheck | Reconcile
    ) -> tuple[Tool[..., Any], dict[str, object]]:
        """The tool and its arguments, decoded from the very bytes that were granted.

        Raises:
            BadGrant: they do not decode any more, as after a change of the tool.
        """
        tool = self._registry.tool(request.action.tool)
        decoded = tool.decode(request.action.arguments)
        if isinstance(decoded, Problem):
            raise BadGrant(f"the granted arguments do not fit the tool: {decoded.message}")
        return tool, decoded.value

    async def _write(self, request: Execute, granted: GrantedAction, work: Work) -> Outcome:
        action = request.action
        tool, values = self._values(request)
        # A run that is cancelled, or takes us for dead, goes on without the outcome of a write that
        # may have started. Cutting it would make sure that nobody ever learns it.
        work.see_through()
        claim_id, sent = self._ids.new_id("clm"), self._clock.monotonic()
        fault("executor.before_claim")
        claimed = await self._asking.again(
            Claim(
                tenant=request.tenant,
                run_id=request.run_id,
                key=action.key or "",
                grant_id=request.grant.id,
                claim_id=claim_id,
                expires_at=request.grant.expires_at,
                is_replay=granted.is_replay,
            )
        )
        if not isinstance(claimed, Claimed):
            log(Line.GRANT_REFUSED, Level.WARNING, run_id=request.run_id, why=claimed.why)
            return _unknown("CLAIM_REFUSED", claimed.message or claimed.why)
        fault("executor.after_claim")
        waited = self._clock.monotonic() - sent
        if waited > min(CLAIM_MARGIN_S, tool.options.timeout_s):
            _ = await self._settle(request, claim_id, "not_started", None, None)
            return _unknown("CLAIM_LATE", "the claim came too late to be used")
        work.beat("running")
        called = await self._call(tool, request, values, tool.options.timeout_s - waited)
        fault("executor.after_effect")
        outcome = await self._outcome(request, called, claimed_at=claimed.at)
        if granted.is_replay and outcome.problem and outcome.problem.code in _NO_ANSWER:
            # Nothing came of this request; what became of the one before it nobody has said.
            if outcome.problem.code in _NOT_MADE:
                _ = await self._settle(request, claim_id, "not_started", None, None)
            return _unknown(outcome.problem.code, outcome.problem.message)
        return await self._settled(request, claim_id, outcome)

    async def _settled(self, request: Execute, claim_id: str, outcome: Outcome) -> Outcome:
        """Record what happened before anybody is told; an error that proves nothing is unknown."""
        if outcome.kind == "unknown":
            return outcome
        try:
            is_proof = await self._settle(
                request, claim_id, outcome.kind, outcome.evidence, outcome.problem
            )
        except (TreadleError, GiveUp) as failure:
            error = failure.cause if isinstance(failure, GiveUp) else failure
            log(Line.EFFECT_UNKNOWN, Level.WARNING, run_id=request.run_id, code=error.code)
            return outcome if outcome.kind == "ok" else _unknown(error.code, error.message)
        fault("executor.after_settle")
        if outcome.kind == "error" and not is_proof:
            return _unknown("NO_PROOF", "an earlier request of this key may still arrive")
        return outcome

    async def _settle(
        self,
        request: Execute,
        claim_id: str,
        kind: str,
        evidence: Evidence | None,
        problem: Problem | None,
    ) -> bool:
        settled = await self._asking.again(
            Settle(
                tenant=request.tenant,
                run_id=request.run_id,
                key=request.action.key or "",
                grant_id=request.grant.id,
                claim_id=claim_id,
                outcome=kind,  # pyright: ignore[reportArgumentType] - ok, error or not_started
                evidence=evidence,
                problem=problem,
            )
        )
        return settled.is_proof

    # ------------------------------------------------------------------ hooks
    async def _recheck(self, request: Recheck) -> RecheckVerdict:
        tool, values = self._values(request)
        fault("executor.before_recheck")
        return await self._caller.precondition(tool, self._ctx(request), values)

    async def _look_up(self, request: Reconcile) -> Finding:
        tool, values = self._values(request)
        fault("executor.before_lookup")
        found = await self._caller.lookup(tool, self._ctx(request), values)
        if found.kind != "ok":
            return Finding(kind="undecidable", problem=found.problem)
        if not found.is_there:
            return Finding(kind="absent")
        return Finding(kind="happened", evidence=await self._evidence(request, found))

    # ------------------------------------------------------------------ evidence
    async def _outcome(
        self, request: Execute, called: Called, *, claimed_at: float | None = None
    ) -> Outcome:
        evidence = await self._evidence(request, called) if called.kind == "ok" else None
        return Outcome(
            kind=called.kind,
            evidence=evidence,
            problem=called.problem,
            attempts=called.attempts,
            claimed_at=claimed_at,
            duration_s=called.duration_s,
        )

    async def _evidence(self, request: Execute | Reconcile, called: Called) -> Evidence:
        tool = self._registry.tool(request.action.tool)
        payload, ref = await keep_if_large(self._asking, request.tenant, called.value)
        return Evidence(
            id=request.evidence_id,
            tool=tool.name,
            request_id=called.request_id,
            fetched_at=called.started_at + called.duration_s,
            duration_s=round(called.duration_s, 6),
            source=tool.options.source or tool.name,
            payload=payload,
            ref=ref,
            notes=called.notes,
        )


def _unknown(code: str, message: str) -> Outcome:
    return Outcome(kind="unknown", problem=Problem(code=code, message=message))
