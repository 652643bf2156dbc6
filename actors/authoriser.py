"""Step 5: may this run do this now? The only holder of the signing key."""

from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from messages.agent import AgentSpec
from messages.authority import Authorisation, Authorise, Grant, GrantedAction, Verdict
from messages.base import Message, Request
from messages.canon import canonical, sha256_hex
from messages.errors import NotFound
from messages.events import RunCreated
from messages.ledger import ApprovalRow, Keep, ListApprovals, ListEffects, Load, Loaded
from messages.parts import Action, Problem
from runtime.actor import Actor
from runtime.agent import Agent
from runtime.asking import Asking
from runtime.bus.port import Bus, Work
from runtime.clock import Ids
from runtime.faults import fault
from runtime.policy.approvals import Groups, use_problem
from runtime.policy.case import Case
from runtime.policy.grants import Signer
from runtime.policy.package import Origin, approval_package
from runtime.policy.rules import Judged, decide
from runtime.settings import Runtime
from runtime.tools.call import Caller
from runtime.tools.context import Policy
from runtime.tools.tool import Tool

_TIME_S = 1.0
"""The ledger's clock is read again when it was read longer ago than this: it may have been set."""
_CREATIONS = 4096
"""Runs whose creation is kept: it never changes."""


class Authoriser(Actor):
    """Decides and signs.

    Receives: Authorise.
    Replies: Authorisation: a verdict per action and one grant over what may be done now.
    Guarantees: tenant, principal, scopes and approvals are read from the ledger, never from the
    request; a grant ends no later than its approval; a rule that fails denies.
    """

    role = "authoriser"

    def __init__(  # noqa: PLR0913 - what authority rests on
        self,
        bus: Bus,
        agents: Mapping[str, Agent[Any]],
        specs: Mapping[str, AgentSpec],
        *,
        policy: Policy,
        groups: Groups | None,
        signer: Signer,
        asking: Asking,
        caller: Caller,
        ids: Ids,
        times: Runtime,
    ) -> None:
        """Args: policy: limits that rules read; groups: who may approve what; signer: the key."""
        super().__init__(bus)
        self._agents = agents
        self._specs = specs
        self._policy = policy
        self._groups = groups
        self._signer = signer
        self._asking = asking
        self._caller = caller
        self._ids = ids
        self._times = times
        self._creations: OrderedDict[tuple[str, str], RunCreated] = OrderedDict()

    def at_once(self, request: Request[object]) -> Message | None:
        """A turn of which all is known, and for which neither a rule nor a person is asked."""
        if not isinstance(request, Authorise) or request.approvals or request.replays:
            return None
        agent, created = self._agents.get(request.agent), self._known(request)
        if agent is None or created is None:
            return None
        now = self._asking.ledger_now
        case = Case(
            request=request,
            agent=agent,
            created=created,
            approvals={},
            settling=frozenset(),
            now=now,
        )
        tools = [case.tool(action.tool) for action in request.actions]
        if any(tool.rule_hook is not None for tool in tools):
            return None
        pairs = zip(tools, request.actions, strict=True)
        verdicts = tuple(self._by_policy(case, tool, action).verdict for tool, action in pairs)
        is_asking = any(verdict.decision == "ask" for verdict in verdicts)
        return None if is_asking else self._authorisation(case, verdicts)

    async def handle(self, request: Request[object], work: Work) -> Message:
        """Decide one turn's actions and sign once."""
        del work
        if not isinstance(request, Authorise):
            raise NotFound("verb", f"authoriser.{request.verb}")
        agent = self._agents.get(request.agent)
        if agent is None:
            raise NotFound("agent", request.agent)
        case = Case(
            request=request,
            agent=agent,
            created=await self._creation(request),
            approvals=await self._approvals(request),
            settling=await self._settling(request),
            now=self._asking.ledger_now,
        )
        verdicts = tuple([await self._decide(case, action) for action in request.actions])
        return self._authorisation(case, verdicts)

    def _authorisation(self, case: Case, verdicts: tuple[Verdict, ...]) -> Authorisation:
        fault("authoriser.before_answer")
        return Authorisation(
            verdicts=verdicts, policy=self._policy.version, grant=self._grant(case, verdicts)
        )

    def _known(self, request: Authorise) -> RunCreated | None:
        """Who the run acts for, where that was read and the ledger's time is known well enough."""
        if self._asking.ledger_age_s >= _TIME_S:
            return None
        return self._creations.get((request.tenant, request.run_id))

    async def _creation(self, request: Authorise) -> RunCreated:
        """Who the run acts for, as its journal says; reading it also tells the time."""
        known = self._known(request)
        if known is not None:
            return known
        tenant, run_id = key = (request.tenant, request.run_id)
        loaded = await self._asking.again(Load(tenant=tenant, run_id=run_id, upto=0))
        if not isinstance(loaded, Loaded) or not loaded.entries:
            raise NotFound("run", run_id)
        created = loaded.entries[0].events[0]
        if not isinstance(created, RunCreated):
            raise NotFound("run", run_id)
        self._creations[key] = created
        while len(self._creations) > _CREATIONS:
            _ = self._creations.popitem(last=False)
        return created

    async def _approvals(self, request: Authorise) -> dict[int, ApprovalRow]:
        """The approvals that are named, by ordinal, as the ledger has them."""
        if not request.approvals:
            return {}
        ids = tuple(use.approval_id for use in request.approvals)
        found = await self._asking.again(ListApprovals(tenant=request.tenant, ids=ids))
        rows = {row.id: row for row in found.rows}
        return {
            use.ordinal: rows[use.approval_id]
            for use in request.approvals
            if use.approval_id in rows
        }

    async def _settling(self, request: Authorise) -> frozenset[int]:
        """The actions whose key this run has really claimed: they may exist already."""
        actions = {a.key: a for a in request.actions if a.key and a.ordinal in request.replays}
        if not actions:
            return frozenset()
        found = await self._asking.again(
            ListEffects(tenant=request.tenant, run_id=request.run_id, keys=tuple(actions))
        )
        return frozenset(
            actions[row.key].ordinal
            for row in found.rows
            if row.claims and row.action_hash == actions[row.key].action_hash
        )

    async def _decide(self, case: Case, action: Action) -> Verdict:
        tool = case.tool(action.tool)
        judged = await self._judged(case, tool, action)
        verdict = judged.verdict
        if verdict.decision != "ask":
            return verdict
        if action.ordinal in case.settling:
            # it was approved once: finding out what became of it needs no second approval
            return replace(verdict, decision="allow")
        problem = use_problem(
            case.approvals.get(action.ordinal),
            action,
            verdict,
            tenant=case.request.tenant,
            run_id=case.request.run_id,
            step=case.request.step,
            groups=self._groups,
            now=case.now + self._times.skew_s,  # its grant would not be accepted any more
        )
        if problem is None:
            return replace(verdict, decision="allow")
        holder = await self._done_by(case, action)
        if holder:
            why = f"run {holder} did it already: its recorded result is given, nothing runs"
            return replace(verdict, decision="allow", why=why)
        return await self._asking_people(case, action, judged)

    async def _done_by(self, case: Case, action: Action) -> str:
        """The run that did exactly this, whose result an intent will be answered with; or nothing.

        Done is final, so no person need be asked: the ledger lets nobody start such a key again.
        """
        if action.key is None:
            return ""
        found = await self._asking.again(
            ListEffects(tenant=case.request.tenant, keys=(action.key,))
        )
        for row in found.rows:
            if row.state == "done" and row.action_hash == action.action_hash:
                return row.run_id
        return ""

    async def _judged(self, case: Case, tool: Tool[..., Any], action: Action) -> Judged:
        """What policy says; a rule is user code and runs in a thread, under a deadline."""
        if tool.rule_hook is None:
            return self._by_policy(case, tool, action)
        judged = await self._caller.pure(partial(self._by_policy, case, tool, action))
        if isinstance(judged, Problem):
            why = f"the rule of {tool.name} did not come to an end: {judged.message}"
            problem = Problem(code="RULE_FAILED", message=why)
            return Judged(
                Verdict(ordinal=action.ordinal, decision="deny", why=why, problem=problem)
            )
        return judged

    def _by_policy(self, case: Case, tool: Tool[..., Any], action: Action) -> Judged:
        return decide(tool, action, case.created.identity, self._policy, now=case.now)

    async def _asking_people(self, case: Case, action: Action, judged: Judged) -> Verdict:
        """The verdict with the package a person will be shown, kept by its hash."""
        request, verdict = case.request, judged.verdict
        ttl_s = verdict.ttl_s
        if ttl_s is None:
            ttl_s = self._specs[case.agent.name].approval_ttl_s
        expires_at = case.now + ttl_s
        package = approval_package(
            Origin(
                tenant=request.tenant,
                run_id=request.run_id,
                agent=request.agent,
                principal=case.created.identity.principal,
                goal=case.created.goal,
                expires_at=expires_at,
            ),
            case.tool(action.tool),
            action,
            verdict,
            self._policy,
            judged.limits,
        )
        data = canonical(package)
        shown = sha256_hex(data)
        _ = await self._asking.again(Keep(tenant=request.tenant, sha256=shown, data=data))
        return replace(verdict, expires_at=expires_at, package=shown)

    def _grant(self, case: Case, verdicts: tuple[Verdict, ...]) -> Grant | None:
        """One signature over everything that may be done now; asked ones may only be rechecked.

        It is accepted for ``grant_s`` on any clock within ``skew_s``, not counting the time that
        preconditions may take which stand before the effects, and ends with the first of the
        approvals that it rests on.
        """
        request = case.request
        allowed = {v.ordinal: v for v in verdicts if v.decision != "deny"}
        allows = {v.ordinal for v in verdicts if v.decision == "allow"}
        used = {ordinal: row for ordinal, row in case.approvals.items() if ordinal in allows}
        actions = tuple(
            GrantedAction(
                ordinal=action.ordinal,
                tool=action.tool,
                action_hash=action.action_hash,
                key=action.key,
                approval_id=used[action.ordinal].id if action.ordinal in used else None,
                purpose="recheck" if allowed[action.ordinal].decision == "ask" else request.purpose,
                is_replay=action.ordinal in case.settling,
            )
            for action in request.actions
            if action.ordinal in allowed
        )
        if not actions:
            return None
        slow = {
            t.name: t.options.timeout_s for t in case.agent.tools if t.precondition_hook is not None
        }
        recheck_s = sum(slow.get(action.tool, 0.0) for action in actions)
        life_s = self._times.grant_s + self._times.skew_s + recheck_s
        ends = [used[a.ordinal].expires_at for a in actions if a.approval_id and not a.is_replay]
        return self._signer.sign(
            Grant(
                id=self._ids.new_id("gr"),
                tenant=request.tenant,
                run_id=request.run_id,
                step=request.step,
                actions=actions,
                expires_at=min([case.now + life_s, *ends]),
                policy=self._policy.version,
            )
        )
