"""Step 3 of a drive: a reservation, then one inference, whatever becomes of it."""

from typing import TYPE_CHECKING

import anyio

from messages import events as e
from messages.decision import Decide, Decision, ModelFailed, NeedsReservation
from messages.errors import BusError, Busy, NoResponders, RemoteFailure, TooLarge
from messages.status import Reason, Status
from runtime.loop import budget
from runtime.loop import directives as d

if TYPE_CHECKING:
    from actors.orchestrator.drive import Drive

_DECIDE_S = 600.0
"""The longest a model may think, retries included."""


class Interrupt:
    """Lets a signal cut a model call short."""

    def __init__(self) -> None:
        """Nothing is being thought about."""
        self._scope: anyio.CancelScope | None = None

    def fire(self) -> None:
        """Cut the call in flight, if there is one."""
        if self._scope is not None:
            self._scope.cancel()

    def __enter__(self) -> anyio.CancelScope:
        """Begin a call that may be cut."""
        self._scope = anyio.CancelScope()
        return self._scope.__enter__()

    def __exit__(self, *exc: object) -> bool | None:
        """The call is over or was cut."""
        scope, self._scope = self._scope, None
        return scope.__exit__(*exc) if scope else None  # pyright: ignore[reportArgumentType]


async def decide(drive: "Drive", directive: d.Decide) -> bool:
    """Pay, ask, and note the answer or the loss."""
    pen = drive.pen
    if directive.reserve is not None:
        pen.add(e.StepReserved(reservation=directive.reserve))
        await drive.commit()
        return True
    reservation = pen.state.reservation
    if reservation is None or not pen.may_use_reservation:
        pen.lose_step("it was used and no decision is known")
        return True
    if pen.is_dirty:
        await drive.commit()
        return True
    answer = await _ask(drive)
    match answer:
        case None:
            pass
        case Decision():
            pen.may_use_reservation = False
            pen.add(answer.decided)
        case NeedsReservation():
            return await _widen(drive, answer)
        case ModelFailed():
            pen.lose_step(answer.message, charged=answer.charged)
            reason = Reason(answer.reason)
            return await drive.finish(
                d.Finish(status=Status.FAILED, reason=reason, why=answer.message)
            )
    return True


async def _ask(drive: "Drive") -> Decision | NeedsReservation | ModelFailed | None:
    """One ask under the open reservation; None: it was lost, or a signal cut it short."""
    pen = drive.pen
    state = pen.state
    reservation = state.reservation
    if reservation is None:
        return None
    request = Decide(
        tenant=state.tenant,
        run_id=state.run_id,
        agent=state.agent,
        version=state.version,
        tail=pen.tail,
        reservation=reservation,
    )
    answer: Decision | NeedsReservation | ModelFailed | None = None
    pen.may_use_reservation = False
    try:
        with drive.thinking:
            answer = await drive.asker.bus.ask(request, deadline_s=_DECIDE_S)
    except (NoResponders, Busy, TooLarge):
        # the planner never saw it: nothing was spent
        pen.may_use_reservation = True
        await drive.clock.sleep(0.2)
    except BusError as error:
        pen.lose_step(error.message)
    except RemoteFailure as error:
        pen.lose_step(f"the planner failed: {error.message}")
    if answer is None and drive.pen.state.reservation is not None:
        await pen.read_signals()
    return answer


async def _widen(drive: "Drive", needs: NeedsReservation) -> bool:
    """The planner did not ask the model; a larger reservation, or the end of the budget."""
    pen = drive.pen
    reservation = pen.state.reservation
    if reservation is None:
        return True
    wider = budget.widened(pen.state, reservation, needs.most, needs.output_tokens)
    if isinstance(wider, budget.Exhausted):
        return await drive.finish(
            d.Finish(
                status=Status.BUDGET_EXHAUSTED,
                reason=wider.reason,
                why="the next request does not fit the budget",
            )
        )
    pen.add(e.StepReserved(reservation=wider))
    await drive.commit()
    return True
