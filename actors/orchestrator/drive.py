"""One drive of one run: directive -> ask -> events, until there is nothing left to do.

The order of the eight steps is not here: it is read off ``next_directive``. A drive only performs
what that says, one function per directive, and writes down what came of it.
"""

from collections.abc import Callable
from typing import assert_never

from actors.orchestrator import checks, execute, people, reconcile, thinking, verify
from actors.orchestrator.hand import Hand
from actors.orchestrator.pen import Reloaded
from messages.status import Reason, Status
from runtime.loop import directives as d
from runtime.loop.calls import OPEN_PHASES
from runtime.loop.next import next_directive


class Drive:
    """Drives one run for as long as one take lasts."""

    def __init__(
        self, hand: Hand, *, deaths: int = 0, on_progress: Callable[[], None] | None = None
    ) -> None:
        """Start with the taken run.

        Args:
            hand: of the run.
            deaths: owners that died without progress.
            on_progress: called once the run has made some.
        """
        self.hand = hand
        self._deaths = deaths
        self._on_progress = on_progress

    # ------------------------------------------------------------------ the loop
    async def run(self) -> None:
        """Go round until the run ends, waits, is drained or lost.

        Raises:
            Lost: somebody else drives it now.
            GiveUp: a role did not answer for too long.
        """
        is_going = True
        while is_going:
            try:
                if self.hand.is_draining:
                    await self.hand.let_go()
                    return
                is_going = await self.step()
                self._tell_progress()
            except Reloaded:
                continue

    def _tell_progress(self) -> None:
        if self._on_progress is not None and self.hand.pen.has_progressed:
            self._on_progress()
            self._on_progress = None

    async def step(self) -> bool:
        """Perform one directive. False: the drive is over."""
        hand = self.hand
        if hand.interrupt.is_heard:
            hand.interrupt.is_heard = False
            await hand.pen.read_signals()
        if hand.pen.signals:
            self._fold_signals()
        if self._deaths and self._is_poison():
            return await hand.finish(
                d.Finish(
                    status=Status.FAILED,
                    reason=Reason.POISON,
                    why=f"{self._deaths} owners died while driving it",
                )
            )
        moment = hand.pen.moment(hand.times.skew_s)
        return await self.perform(next_directive(hand.pen.state, hand.agent, moment))

    async def perform(self, directive: d.Directive) -> bool:  # noqa: C901, PLR0912 - one flat match over a closed union
        """Do what the loop asks for. False: the drive is over."""
        hand = self.hand
        match directive:  # what every step needs comes first
            case d.Decide():
                return await thinking.decide(hand, directive)
            case d.Validate():
                return await checks.validate(hand, directive)
            case d.Authorise():
                return await checks.authorise(hand, directive.ordinals)
            case d.Execute():
                return await execute.execute(hand, directive)
            case d.Assess():
                return await checks.assess(hand)
            case d.Nothing():
                return False
            case d.LetGo():
                await self.hand.let_go()
                return False
            case d.Record():
                self.hand.pen.add(*directive.events)
                return True
            case d.Recheck():
                return await checks.recheck(hand, directive)
            case d.RequestApproval():
                return people.request_approval(hand, directive)
            case d.AskPerson():
                return people.ask_person(hand, directive)
            case d.Reconcile():
                return await reconcile.reconcile(hand, directive)
            case d.Judge():
                return await checks.judge(hand, directive)
            case d.Verify():
                return await verify.verify(hand, directive)
            case d.Suspend():
                return await hand.suspend(directive)
            case d.Finish():
                return await self.hand.finish(directive)
        assert_never(directive)

    # ------------------------------------------------------------------ signals
    def _fold_signals(self) -> None:
        """Turn what people and children said into events; control signals stay signals."""
        for signal in self.hand.pen.pending():
            match signal.kind:
                case "decision":
                    self.hand.pen.add(*people.resolution(self.hand.pen.state, signal))
                case "answer":
                    self.hand.pen.add(*people.answer(self.hand.pen.state, signal))
                case "child":
                    self.hand.pen.add(*people.child_ended(signal))
                case "cancel" | "pause" | "resume":
                    continue
            self.hand.pen.name([signal])

    def _is_poison(self) -> bool:
        if self._deaths < self.hand.times.poison_deaths:
            return False
        turn = self.hand.pen.state.turn
        is_open = turn is not None and any(c.phase in OPEN_PHASES for c in turn.calls)
        return not is_open and not self.hand.pen.state.status.is_terminal
