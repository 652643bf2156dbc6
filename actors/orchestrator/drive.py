"""One drive of one run: directive -> ask -> events, until there is nothing left to do.

The order of the eight steps is not here: it is read off ``next_directive``. A drive only performs
what that says, one small method per directive, and writes down what came of it.
"""

from typing import assert_never

from actors.orchestrator import effects, people, thinking
from runtime.asking import Asking
from actors.orchestrator.pen import Pen, Reloaded
from actors.orchestrator.report import Reporter
from messages import checks, execution
from messages import events as e
from messages.agent import AgentSpec
from messages.authority import ApprovalUse, Authorise, Grant
from messages.errors import RemoteFailure
from messages.ledger import Release, Signal
from messages.parts import Call, Problem
from messages.state import CallState
from messages.status import Reason, Status
from runtime.clock import Clock, Ids
from runtime.loop import directives as d
from runtime.loop import progress
from runtime.loop.next import next_directive
from runtime.loop.summary import what_was_done
from runtime.settings import Runtime


class Drive:
    """Drives one run for as long as one take lasts."""

    def __init__(  # noqa: PLR0913 - what a drive works with, given once
        self,
        *,
        pen: Pen,
        agent: AgentSpec,
        asker: Asking,
        reporter: Reporter,
        clock: Clock,
        ids: Ids,
        times: Runtime,
        process: str,
        deaths: int = 0,
    ) -> None:
        """Args: pen: holds the taken run; deaths: owners that died without progress."""
        self.pen = pen
        self.agent = agent
        self.asker = asker
        self.reporter = reporter
        self.clock = clock
        self.ids = ids
        self.times = times
        self.process = process
        self.is_draining = False
        self.thinking = thinking.Interrupt()
        self._deaths = deaths
        self._grants: dict[str, Grant] = {}

    def hold(self, grant: Grant | None) -> None:
        """Keep a grant for as long as the drive lasts."""
        if grant is not None:
            self._grants[grant.id] = grant

    def grant(self, grant_id: str) -> Grant | None:
        """A grant this drive holds; one from an earlier drive is asked for again."""
        return self._grants.get(grant_id)

    # ------------------------------------------------------------------ the loop
    async def run(self) -> None:
        """Go round until the run ends, waits, is drained or lost.

        Raises:
            Lost: somebody else drives it now.
            GiveUp: a role did not answer for too long.
        """
        is_going = True
        while is_going:
            if self.is_draining:
                await self.let_go()
                return
            try:
                is_going = await self.step()
            except Reloaded:
                continue

    async def step(self) -> bool:
        """Perform one directive. False: the drive is over."""
        self._fold_signals()
        if self._is_poison():
            return await self.finish(
                d.Finish(
                    status=Status.FAILED,
                    reason=Reason.POISON,
                    why=f"{self._deaths} owners died while driving it",
                )
            )
        directive = next_directive(self.pen.state, self.agent, self.pen.moment())
        return await self.perform(directive)

    async def perform(self, directive: d.Directive) -> bool:  # noqa: C901, PLR0911, PLR0912 - one flat match over a closed union
        """Do what the loop asks for. False: the drive is over."""
        match directive:
            case d.Nothing():
                return False
            case d.LetGo():
                await self.let_go()
                return False
            case d.Record():
                self.pen.add(*directive.events)
                return True
            case d.Decide():
                return await thinking.decide(self, directive)
            case d.Validate():
                return await self.validate(directive)
            case d.Authorise():
                return await self.authorise(directive.ordinals)
            case d.Recheck():
                return await self.recheck(directive)
            case d.RequestApproval():
                return people.request_approval(self, directive)
            case d.AskPerson():
                return people.ask_person(self, directive)
            case d.Execute():
                return await effects.execute(self, directive)
            case d.Reconcile():
                return await effects.reconcile(self, directive)
            case d.Assess():
                return await self.assess()
            case d.Judge():
                return await self.judge(directive)
            case d.Suspend():
                return await self.suspend(directive)
            case d.Finish():
                return await self.finish(directive)
        assert_never(directive)

    # ------------------------------------------------------------------ signals
    def _fold_signals(self) -> None:
        """Turn what people and children said into events; control signals stay signals."""
        for signal in self.pen.pending():
            match signal.kind:
                case "decision":
                    self.pen.add(*people.resolution(self.pen.state, signal))
                case "answer":
                    self.pen.add(*people.answer(self.pen.state, signal))
                case "child":
                    self.pen.add(*people.child_ended(signal))
                case "cancel" | "pause" | "resume":
                    continue
            self.pen.name([signal])

    def name_control(self, *kinds: str) -> None:
        """The next entry deals with these control signals."""
        self.pen.name(s for s in self.pen.pending() if s.kind in kinds)

    def _is_poison(self) -> bool:
        turn = self.pen.state.turn
        is_open = turn is not None and any(c.phase in {"intended", "unknown"} for c in turn.calls)
        is_ended = self.pen.state.status.is_terminal
        return self._deaths >= self.times.poison_deaths and not is_open and not is_ended

    # ------------------------------------------------------------------ checks
    def call(self, ordinal: int) -> CallState:
        """One call of the open turn."""
        turn = self.pen.state.turn
        if turn is None:
            raise AssertionError("no open turn")
        return turn.calls[ordinal]

    @property
    def turn_step(self) -> int:
        """The step the open turn belongs to."""
        return self.pen.state.turn.step if self.pen.state.turn else self.pen.state.step_count

    async def validate(self, directive: d.Validate) -> bool:
        """Step 4: is the proposal well-formed?"""
        state, step = self.pen.state, self.turn_step
        proposal = state.turn.proposal if state.turn else None
        calls = [self.call(ordinal) for ordinal in directive.ordinals]
        answer = await self.asker.again(
            checks.Validate(
                tenant=state.tenant,
                run_id=state.run_id,
                agent=state.agent,
                origin=state.run_id,
                step=step,
                calls=tuple(
                    Call(
                        ordinal=call.ordinal,
                        tool_use_id=call.tool_use_id,
                        tool=call.tool,
                        # an approved call comes back with the bytes that were approved
                        arguments=call.action.arguments if call.action else call.arguments,
                    )
                    for call in calls
                ),
                is_finish=not directive.ordinals,
                output=proposal.output if proposal else None,
            )
        )
        if answer.output_problem is not None:
            self.pen.add(e.ProposalRejected(step=step, problem=answer.output_problem))
        for rejection in answer.rejections:
            self.pen.add(
                e.ProposalRejected(
                    step=step, ordinal=rejection.ordinal, problem=rejection.problem
                )
            )
        if answer.actions or (not directive.ordinals and answer.output_problem is None):
            self.pen.add(e.Accepted(step=step, actions=answer.actions))
        return True

    async def authorise(self, ordinals: tuple[int, ...], *, replays: tuple[int, ...] = ()) -> bool:
        """Step 5: may this run do this now?"""
        state, step = self.pen.state, self.turn_step
        calls = [self.call(ordinal) for ordinal in ordinals]
        answer = await self.asker.again(
            Authorise(
                tenant=state.tenant,
                run_id=state.run_id,
                agent=state.agent,
                version=state.version,
                step=step,
                actions=tuple(call.action for call in calls if call.action is not None),
                approvals=tuple(
                    ApprovalUse(ordinal=call.ordinal, approval_id=call.approval_id)
                    for call in calls
                    if call.approval_id is not None
                ),
                replays=replays,
                sent_at=self.pen.now(),
            )
        )
        self.pen.add(
            e.Authorised(
                step=step, verdicts=answer.verdicts, policy=answer.policy, grant=answer.grant
            )
        )
        self.hold(answer.grant)
        return True

    async def recheck(self, directive: d.Recheck) -> bool:
        """Preconditions, before a person is asked and again before anything runs."""
        state = self.pen.state
        for ordinal in directive.ordinals:
            call = self.call(ordinal)
            grant = self.grant(call.grant_id)
            if call.action is None or grant is None:
                return await self.authorise((ordinal,))
            try:
                verdict = await self.asker.again(
                    execution.Recheck(
                        tenant=state.tenant,
                        run_id=state.run_id,
                        principal=state.identity.principal,
                        agent=state.agent,
                        step=self.turn_step,
                        action=call.action,
                        grant=grant,
                        now=self.pen.now(),
                    ),
                    deadline_s=effects.deadline_of(self.agent, call.tool),
                )
            except RemoteFailure as failure:
                verdict = execution.RecheckVerdict(unmet=f"could not be checked: {failure.message}")
            unmet = verdict.problem.message if verdict.problem else verdict.unmet
            self.pen.add(e.Rechecked(step=self.turn_step, ordinal=ordinal, unmet=unmet))
        return True

    # ------------------------------------------------------------------ termination
    async def assess(self) -> bool:
        """Step 8, first half: is the run getting anywhere?"""
        state, turn = self.pen.state, self.pen.state.turn
        sightings = [progress.sighting(state, call) for call in turn.calls] if turn else []
        answer = await self.asker.again(
            checks.Assess(
                tenant=state.tenant,
                run_id=state.run_id,
                step=self.turn_step,
                spec=self.agent.progress,
                sightings=tuple(
                    s for s in sightings if s is not None and not self._is_polling(s.tool)
                ),
                recent=state.seen.recent[-self.agent.progress.window :],
                stalled=progress.stalled_after(state),
                flagged=state.seen.flagged,  # pyright: ignore[reportArgumentType] - kinds only
            )
        )
        for flag in answer.flags:
            self.pen.add(
                e.ProgressFlagged(
                    step=self.turn_step,
                    ordinal=flag.ordinal,
                    kind=flag.kind,
                    level=flag.level,
                    message=flag.message,
                )
            )
        self.pen.add(e.Assessed(step=self.turn_step))
        return True

    def _is_polling(self, tool: str) -> bool:
        spec = self.agent.tool(tool)
        return spec is not None and spec.is_polling

    async def judge(self, directive: d.Judge) -> bool:
        """Step 8, second half: does recorded evidence bear out that the task is done?"""
        turn = self.pen.state.turn
        output = turn.proposal.output if turn and directive.has_output else None
        if not self.agent.has_done:
            reason = Reason.UNVERIFIED
            return await self.finish(
                d.Finish(status=Status.SUCCEEDED, reason=reason, output=output)
            )
        verdict = await self.asker.again(
            checks.Judge(
                tenant=self.pen.state.tenant,
                run_id=self.pen.state.run_id,
                agent=self.agent.name,
                version=self.pen.state.version,
                pending=self.pen.buffered,
                has_output=directive.has_output,
                output=output,
            )
        )
        unmet = verdict.problem.message if verdict.problem else verdict.unmet
        if unmet is None:
            return await self.finish(
                d.Finish(status=Status.SUCCEEDED, reason=Reason.VERIFIED, output=output)
            )
        if directive.has_output:
            problem = Problem(code="COMPLETION_REJECTED", message=f"completion rejected: {unmet}")
            self.pen.add(e.CompletionRejected(step=self.turn_step, problem=problem))
        else:
            self.pen.add(e.Judged(step=self.turn_step, unmet=unmet))
        return True

    async def suspend(self, directive: d.Suspend) -> bool:
        """Wait without a worker; the ledger keeps the run until a signal or ``until``."""
        if self.pen.state.reservation is not None and not self.pen.may_use_reservation:
            self.pen.lose_step("the run was suspended")
        self.pen.add(
            e.Suspended(
                status=directive.status, reason=directive.reason, until=directive.until
            )
        )
        self.name_control("pause", "resume")
        await self.commit()
        return bool(self.pen.signals)

    async def finish(self, directive: d.Finish) -> bool:
        """End the run; its result is published by whoever is asked to (``Due``)."""
        signal: Signal | None = directive.signal
        self.pen.add(
            e.Finished(
                status=directive.status,
                reason=directive.reason,
                signal_id=signal.id if signal else None,
                person=signal.person if signal else None,
                why=directive.why,
                output=directive.output,
                summary=what_was_done(self.pen.state),
            )
        )
        self.pen.name(self.pen.pending())
        await self.commit()
        return False

    # ------------------------------------------------------------------ writing
    async def commit(self) -> None:
        """Make what is known durable, then visible."""
        await self.pen.flush()
        await self.reporter.events(self.pen.state, self.pen.take_written())

    async def let_go(self) -> None:
        """Write what is known, then give the run back."""
        if self.pen.is_dirty:
            self.name_control("resume")
            await self.commit()
        state = self.pen.state
        if state.status.is_terminal:
            return
        await self.asker.ledger(
            Release(
                tenant=state.tenant,
                run_id=state.run_id,
                version=state.version,
                process=self.process,
                take_id=self.pen.take_id,
                is_clean=self.pen.releases_cleanly,
            )
        )
