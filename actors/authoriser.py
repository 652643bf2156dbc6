"""Step 5: may this run do this now? The only holder of the signing key."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from messages.agent import AgentSpec
from messages.authority import Authorisation, Authorise, Grant, GrantedAction, Verdict
from messages.base import Message, Request
from messages.canon import canonical, sha256_hex
from messages.errors import NotFound
from messages.events import RunCreated
from messages.ledger import ApprovalRow, Keep, ListApprovals, Load, Loaded
from messages.parts import Action
from runtime.actor import Actor
from runtime.agent import Agent
from runtime.asking import Asking
from runtime.bus.port import Bus, Work
from runtime.clock import Ids
from runtime.policy.approvals import Groups, use_problem
from runtime.policy.grants import Signer
from runtime.policy.package import Origin, approval_package
from runtime.policy.rules import Judged, decide
from runtime.settings import Runtime
from runtime.tools.context import Policy

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
        self._ids = ids
        self._times = times
        self._creations: OrderedDict[tuple[str, str], RunCreated] = OrderedDict()

    async def handle(self, request: Request[object], work: Work) -> Message:
        """Decide one turn's actions and sign once."""
        del work
        if not isinstance(request, Authorise):
            raise NotFound("verb", f"authoriser.{request.verb}")
        agent = self._agents.get(request.agent)
        if agent is None:
            raise NotFound("agent", request.agent)
        created = await self._creation(request.tenant, request.run_id)
        approvals = await self._approvals(request)
        verdicts = tuple(
            [await self._decide(agent, created, a, request, approvals) for a in request.actions]
        )
        return Authorisation(
            verdicts=verdicts,
            policy=self._policy.version,
            grant=self._grant(agent, request, verdicts, approvals),
        )

    async def _creation(self, tenant: str, run_id: str) -> RunCreated:
        """Who the run acts for, as its journal says."""
        key = (tenant, run_id)
        if key in self._creations:
            return self._creations[key]
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

    async def _decide(
        self,
        agent: Agent[Any],
        created: RunCreated,
        action: Action,
        request: Authorise,
        approvals: Mapping[int, ApprovalRow],
    ) -> Verdict:
        tool = next((tool for tool in agent.tools if tool.name == action.tool), None)
        if tool is None:
            raise NotFound("tool", action.tool)
        judged = decide(tool, action, created.identity, self._policy, now=request.sent_at)
        verdict = judged.verdict
        if verdict.decision != "ask":
            return verdict
        if action.ordinal in request.replays:
            # it was approved once and may exist already: settling it needs no second approval
            return replace(verdict, decision="allow")
        problem = use_problem(
            approvals.get(action.ordinal),
            action,
            verdict,
            tenant=request.tenant,
            run_id=request.run_id,
            step=request.step,
            groups=self._groups,
            now=request.sent_at,
        )
        if problem is None:
            return replace(verdict, decision="allow")
        return await self._asking_people(agent, created, action, request, judged)

    async def _asking_people(
        self,
        agent: Agent[Any],
        created: RunCreated,
        action: Action,
        request: Authorise,
        judged: Judged,
    ) -> Verdict:
        """The verdict with the package a person will be shown, kept by its hash."""
        verdict = judged.verdict
        ttl_s = verdict.ttl_s
        if ttl_s is None:
            ttl_s = self._specs[agent.name].approval_ttl_s
        expires_at = request.sent_at + ttl_s
        package = approval_package(
            Origin(
                tenant=request.tenant,
                run_id=request.run_id,
                agent=request.agent,
                principal=created.identity.principal,
                goal=created.goal,
                expires_at=expires_at,
            ),
            next(tool for tool in agent.tools if tool.name == action.tool),
            action,
            verdict,
            self._policy,
            judged.limits,
        )
        data = canonical(package)
        shown = sha256_hex(data)
        _ = await self._asking.again(Keep(tenant=request.tenant, sha256=shown, data=data))
        return replace(verdict, expires_at=expires_at, package=shown)

    def _grant(
        self,
        agent: Agent[Any],
        request: Authorise,
        verdicts: tuple[Verdict, ...],
        approvals: Mapping[int, ApprovalRow],
    ) -> Grant | None:
        """One signature over everything that may be done now; asked ones may only be rechecked.

        Its life covers the preconditions that stand before the effects, and ends with the first of
        the approvals that it rests on.
        """
        allowed = {v.ordinal: v for v in verdicts if v.decision != "deny"}
        allows = {v.ordinal for v in verdicts if v.decision == "allow"}
        used = {ordinal: row for ordinal, row in approvals.items() if ordinal in allows}
        actions = tuple(
            GrantedAction(
                ordinal=action.ordinal,
                tool=action.tool,
                action_hash=action.action_hash,
                key=action.key,
                approval_id=used[action.ordinal].id if action.ordinal in used else None,
                purpose="recheck" if allowed[action.ordinal].decision == "ask" else request.purpose,
                is_replay=action.ordinal in request.replays,
            )
            for action in request.actions
            if action.ordinal in allowed
        )
        if not actions:
            return None
        slow = {t.name: t.options.timeout_s for t in agent.tools if t.precondition_hook is not None}
        recheck_s = sum(slow.get(action.tool, 0.0) for action in actions)
        ends = [used[a.ordinal].expires_at for a in actions if a.approval_id and not a.is_replay]
        return self._signer.sign(
            Grant(
                id=self._ids.new_id("gr"),
                tenant=request.tenant,
                run_id=request.run_id,
                step=request.step,
                actions=actions,
                expires_at=min([request.sent_at + self._times.grant_s + recheck_s, *ends]),
                policy=self._policy.version,
            )
        )
