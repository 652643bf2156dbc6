"""Step 6: runs tools under grants. It has no authority of its own.

The order around a write: verify the grant over the bytes in hand, Claim, the effect under its
deadline, Settle, reply. A definite error is told as such only if the ledger says that it proves
that nothing happened; everything else that is not a result is unknown.
"""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from messages.authority import GrantedAction, Purpose
from messages.base import Message, Request
from messages.canon import action_hash
from messages.errors import BadGrant, NotFound, TreadleError
from messages.execution import Execute, Finding, Outcome, Recheck, RecheckVerdict, Reconcile
from messages.ledger import Claim, Claimed, Settle, Settled
from messages.parts import Evidence, Problem
from runtime.actor import Actor
from runtime.artifacts import keep_if_large
from runtime.asking import Asking
from runtime.bus.port import Bus, Work
from runtime.clock import Chance, Clock, Ids
from runtime.log import Level, Line, log
from runtime.policy.grants import Verifier
from runtime.settings import Runtime
from runtime.tools.call import Caller, Ran
from runtime.tools.context import Ctx
from runtime.tools.registry import Registry

CLAIM_MARGIN_S = 2.0
"""A Claimed that arrives later than this after Claim was sent is not used (DESIGN.md section 6)."""


class Executor(Actor):
    """Runs tools, preconditions and lookups.

    Receives: Execute, Recheck, Reconcile, per tool.
    Replies: Outcome, RecheckVerdict, Finding.
    Guarantees: nothing of the user's starts without a grant for exactly these bytes; a write starts
    only after its claim and at most once per claim; what it did is settled before it replies.
    """

    role = "executor"

    def __init__(  # noqa: PLR0913 - what running a tool takes
        self,
        bus: Bus,
        registry: Registry,
        deps: AbstractAsyncContextManager[object],
        verifier: Verifier,
        asking: Asking,
        clock: Clock,
        ids: Ids,
        chance: Chance,
        times: Runtime,
    ) -> None:
        """Args: registry: the app's tools; deps: what tools get as ``ctx.deps``, opened here."""
        super().__init__(bus, grace_s=times.grace_s)
        self._registry = registry
        self._deps_source = deps
        self._deps: object = None
        self._verifier = verifier
        self._asking = asking
        self._clock = clock
        self._ids = ids
        self._times = times
        self._caller = Caller(clock=clock, ids=ids, chance=chance)

    def tools(self) -> tuple[str | None, ...]:
        """One subject set per tool."""
        return tuple(self._registry.names) or (None,)

    @asynccontextmanager
    async def prepared(self) -> AsyncGenerator[None]:
        """The app's dependencies are open while tools can be called."""
        async with self._deps_source as deps:
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
        tool = self._registry.get(action.tool)
        if tool.is_write != (action.key is not None):
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

    def _ctx(self, request: Execute | Recheck | Reconcile) -> Ctx[object]:
        return Ctx(
            deps=self._deps,
            idempotency_key=request.action.key or "",
            run_id=request.run_id,
            tenant=request.tenant,
            principal=request.principal,
        )

    # ------------------------------------------------------------------ reads and writes
    async def _read(self, request: Execute) -> Outcome:
        tool = self._registry.get(request.action.tool)
        ran = await self._caller.read(tool, self._ctx(request), request.action.arguments)
        return await self._outcome(request, ran)

    async def _write(self, request: Execute, granted: GrantedAction, work: Work) -> Outcome:
        action, tool = request.action, self._registry.get(request.action.tool)
        claim_id, sent = self._ids.new_id("clm"), self._clock.monotonic()
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
        waited = self._clock.monotonic() - sent
        if waited > CLAIM_MARGIN_S:
            _ = await self._settle(request, claim_id, "not_started", None, None)
            return _unknown("CLAIM_LATE", "the claim came too late to be used")
        work.beat("running")
        ran = await self._caller.write(
            tool, self._ctx(request), action.arguments, deadline_s=tool.timeout_s - waited
        )
        outcome = await self._outcome(request, ran, claimed_at=claimed.at)
        return await self._settled(request, claim_id, outcome)

    async def _settled(self, request: Execute, claim_id: str, outcome: Outcome) -> Outcome:
        """Record what happened before anybody is told; an error that proves nothing is unknown."""
        if outcome.kind == "unknown":
            return outcome
        try:
            is_proof = await self._settle(
                request, claim_id, outcome.kind, outcome.evidence, outcome.problem
            )
        except TreadleError as error:
            log(Line.EFFECT_UNKNOWN, Level.WARNING, run_id=request.run_id, code=error.code)
            return outcome if outcome.kind == "ok" else _unknown(error.code, error.message)
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
        return isinstance(settled, Settled) and settled.is_proof

    # ------------------------------------------------------------------ hooks
    async def _recheck(self, request: Recheck) -> RecheckVerdict:
        tool = self._registry.get(request.action.tool)
        checked = await self._caller.precondition(
            tool, self._ctx(request), request.action.arguments
        )
        if isinstance(checked, Problem):
            return RecheckVerdict(problem=checked)
        return RecheckVerdict(unmet=checked)

    async def _look_up(self, request: Reconcile) -> Finding:
        tool = self._registry.get(request.action.tool)
        ran = await self._caller.lookup(tool, self._ctx(request), request.action.arguments)
        if ran.kind == "absent":
            return Finding(kind="absent")
        if ran.kind != "ok":
            return Finding(kind="undecidable", problem=ran.problem)
        return Finding(kind="happened", evidence=await self._evidence(request, ran))

    # ------------------------------------------------------------------ evidence
    async def _outcome(
        self, request: Execute, ran: Ran, *, claimed_at: float | None = None
    ) -> Outcome:
        evidence = await self._evidence(request, ran) if ran.kind == "ok" else None
        kind = "unknown" if ran.kind == "unknown" else "ok" if ran.kind == "ok" else "error"
        return Outcome(
            kind=kind,
            evidence=evidence,
            problem=ran.problem,
            attempts=ran.attempts,
            claimed_at=claimed_at,
            duration_s=ran.duration_s,
        )

    async def _evidence(self, request: Execute | Reconcile, ran: Ran) -> Evidence:
        tool = self._registry.get(request.action.tool)
        payload, ref = await keep_if_large(self._asking, request.tenant, ran.payload)
        return Evidence(
            id=request.evidence_id,
            tool=tool.name,
            request_id=ran.request_id,
            fetched_at=ran.finished_at,
            duration_s=round(ran.duration_s, 6),
            source=tool.source or tool.name,
            payload=payload,
            ref=ref,
            notes=ran.notes,
        )


def _unknown(code: str, message: str) -> Outcome:
    return Outcome(kind="unknown", problem=Problem(code=code, message=message))
