"""The run in hand: what one drive holds, and the few things that every step of it does.

Pen, agent, the way to ask, the grants of this drive, and the ends: commit, suspend, finish, let go.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from actors.orchestrator.interrupt import Interrupt
from actors.orchestrator.pen import Pen
from actors.orchestrator.report import Reporter
from messages import events as e
from messages.agent import AgentSpec
from messages.authority import Grant
from messages.ledger import Release, Signal
from messages.parts import Action
from messages.state import CallState
from messages.status import Status
from runtime.asking import Asking
from runtime.clock import Clock, Ids
from runtime.loop import directives as d
from runtime.loop.interrupted import left_over
from runtime.loop.summary import what_was_done
from runtime.settings import Runtime

OrderT = TypeVar("OrderT")


@dataclass(kw_only=True)
class Hand:
    """One taken run, for as long as its take lasts.

    Attributes:
        pen: Holds the folded state and what is not durable yet.
        interrupt: Lets a cancel cut short a model call or tool calls.
        is_draining: The process stops: let go at the next directive.
        grants: Of this drive, by id; one from an earlier drive is asked for again.
    """

    pen: Pen
    agent: AgentSpec
    asking: Asking
    reporter: Reporter
    clock: Clock
    ids: Ids
    times: Runtime
    process: str
    interrupt: Interrupt = field(default_factory=Interrupt)
    is_draining: bool = False
    grants: dict[str, Grant] = field(default_factory=dict)

    def hold(self, grant: Grant | None) -> None:
        """Keep a grant for as long as the drive lasts."""
        if grant is not None:
            self.grants[grant.id] = grant

    def grant(self, grant_id: str) -> Grant | None:
        """A grant this drive holds."""
        return self.grants.get(grant_id)

    def call(self, ordinal: int) -> CallState:
        """One call of the open turn."""
        turn = self.pen.state.turn
        if turn is None:
            raise AssertionError("no open turn")
        return turn.calls[ordinal]

    def order(
        self,
        kind: Callable[..., OrderT],
        action: Action,
        grant: Grant,
        *,
        step: int | None = None,
        **more: object,
    ) -> OrderT:
        """A request to an executor about one action under its grant; of the open turn's step."""
        state = self.pen.state
        return kind(
            tenant=state.tenant,
            run_id=state.run_id,
            principal=state.identity.principal,
            agent=state.agent,
            step=self.turn_step if step is None else step,
            action=action,
            grant=grant,
            now=self.pen.now(),
            **more,
        )

    @property
    def turn_step(self) -> int:
        """The step the open turn belongs to."""
        return self.pen.state.turn.step if self.pen.state.turn else self.pen.state.step_count

    def _name_controls(self) -> None:
        """The next entry deals with every pause and resume that is pending."""
        self.pen.name(_controls(self.pen.pending()))

    def _name_resumed(self) -> None:
        """It deals with each resume and what that undid; a pause that came later is still to come.

        To name the resume alone would let the pause before it take effect afterwards.
        """
        controls = _controls(self.pen.pending())
        while controls and controls[-1].kind == "pause":
            _ = controls.pop()
        self.pen.name(controls)

    async def suspend(self, directive: d.Suspend) -> bool:
        """Wait without a worker; the ledger keeps the run until a signal or ``until``."""
        self._close_reservation("the run was suspended")
        is_answer = directive.status is Status.PAUSED or self.pen.state.status.is_suspended
        self.pen.add(
            e.Suspended(status=directive.status, reason=directive.reason, until=directive.until)
        )
        if is_answer:
            self._name_controls()
        else:  # a pause that came in the meantime is not answered by this wait
            self._name_resumed()
        await self.commit()
        return bool(self.pen.signals)

    async def finish(self, directive: d.Finish) -> bool:
        """End the run; its result is published by whoever is asked to (``Due``)."""
        signal = directive.signal
        if self.pen.state.status.is_suspended:
            self.pen.add(e.Resumed(why=directive.reason))  # what waits runs again before it ends
        self._close_reservation("the run ended")
        self.pen.add(*left_over(self.pen.state))
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

    def _close_reservation(self, why: str) -> None:
        """A reservation that was used and brought no decision is paid for."""
        if self.pen.state.reservation is not None and not self.pen.may_use_reservation:
            self.pen.lose_step(why)

    # ------------------------------------------------------------------ writing
    async def commit(self) -> None:
        """Make what is known durable, then visible."""
        await self.pen.flush()
        await self.reporter.events(self.pen.state, self.pen.take_written())

    async def let_go(self) -> None:
        """Write what is known, then give the run back."""
        if self.pen.is_dirty:
            self._name_resumed()
            await self.commit()
        state = self.pen.state
        if state.status.is_terminal:
            return
        await self.asking.ledger(
            Release(
                tenant=state.tenant,
                run_id=state.run_id,
                version=state.version,
                process=self.process,
                take_id=self.pen.take_id,
                is_clean=self.pen.releases_cleanly,
            )
        )


def _controls(signals: Iterable[Signal]) -> list[Signal]:
    """Pauses and resumes, oldest first; of these the last one wins."""
    return [signal for signal in signals if signal.kind in {"pause", "resume"}]
