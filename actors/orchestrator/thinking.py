"""Step 3 of a hand: a reservation, then one inference, whatever becomes of it."""

from msgspec.structs import replace

from actors.orchestrator.hand import Hand
from messages import events as e
from messages.decision import (
    Consult,
    Consultation,
    Decide,
    Decision,
    ModelFailed,
    NeedsReservation,
    NotAsked,
)
from messages.errors import BusError, Busy, NoResponders, RemoteFailure, TooLarge, Unreachable
from messages.status import Reason, Status
from runtime.faults import fault
from runtime.loop import budget
from runtime.loop import directives as d
from runtime.loop.next import last_words

_DECIDE_S = 600.0
"""The longest one attempt of a model may take."""
_Answer = Decision | Consultation | NeedsReservation | ModelFailed | NotAsked


async def decide(hand: Hand, directive: d.Decide) -> bool:
    """Pay, ask, and note the answer or the loss."""
    pen = hand.pen
    if directive.reserve is not None:
        pen.add(e.StepReserved(reservation=directive.reserve))
        await hand.commit()
        return True
    reservation = pen.state.reservation
    if reservation is None or not pen.may_use_reservation:
        pen.lose_step("it was used and no decision is known")
        return True
    if pen.is_dirty:
        await hand.commit()
        return True
    return await _noted(hand, await _ask(hand))


async def _noted(hand: Hand, answer: _Answer | None) -> bool:
    pen = hand.pen
    match answer:
        case None:
            pass
        case Decision():
            pen.may_use_reservation = False
            pen.forget_tail()
            pen.add(answer.decided)
        case Consultation():
            pen.may_use_reservation = False
            pen.forget_tail()
            pen.add(answer.consulted)
        case NeedsReservation():
            pen.may_use_reservation = True  # the model was not asked
            return await _widen(hand, answer)
        case NotAsked():
            pen.may_use_reservation = True
            return await _until(hand, answer.retry_in_s)
        case ModelFailed():
            return await _failed(hand, answer)
    return True


async def _until(hand: Hand, seconds: float) -> bool:
    """Wait without a worker; a process that dies does not shorten it."""
    until = hand.pen.now() + seconds
    return await hand.suspend(
        d.Suspend(status=Status.WAITING, reason=Reason.RETRY_AFTER, until=until)
    )


async def _failed(hand: Hand, failed: ModelFailed) -> bool:
    """The attempt is paid for and recorded before anything else; then again later, or the end."""
    pen, pause_s = hand.pen, failed.retry_in_s
    reservation = pen.state.reservation
    if pause_s is None or reservation is None:
        pen.lose_step(failed.message, charged=failed.charged, attempts=failed.attempts)
        reason = Reason(failed.reason)
        return await hand.finish(d.Finish(status=Status.FAILED, reason=reason, why=failed.message))
    for attempt in failed.attempts:
        pen.add(e.AttemptFailed(step=reservation.step, charged=failed.charged, attempt=attempt))
    if failed.retry_after_s is not None:
        return await _until(hand, pause_s)
    await hand.commit()
    with hand.interrupt.cutting():
        await hand.clock.sleep(pause_s)
    return True


async def _ask(hand: Hand) -> _Answer | None:
    """One ask under the open reservation; None: it was lost, or a signal cut it short."""
    pen = hand.pen
    state = pen.state
    reservation = state.reservation
    if reservation is None:
        return None
    kind = Consult if reservation.is_summary else Decide
    request = kind(
        tenant=state.tenant,
        run_id=state.run_id,
        agent=state.agent,
        version=state.version,
        tail=pen.tail,
        reservation=reservation,
    )
    answer: _Answer | None = None
    pen.may_use_reservation = False
    fault("orchestrator.before_decide")
    try:
        with hand.interrupt.cutting():
            answer = await hand.asking.bus.ask(request, deadline_s=_DECIDE_S)
    except TooLarge:
        pen.may_use_reservation = True  # nothing was sent
        pen.forget_tail()
    except (NoResponders, Busy, Unreachable):
        # the planner never saw it: nothing was spent
        pen.may_use_reservation = True
        await hand.clock.sleep(0.2)
    except BusError as error:
        pen.lose_step(error.message)
    except RemoteFailure as error:
        pen.lose_step(f"the planner failed: {error.message}")
    fault("orchestrator.after_decide")
    if answer is None and hand.pen.state.reservation is not None:
        await pen.read_signals()
    return answer


async def _widen(hand: Hand, needs: NeedsReservation) -> bool:
    """The planner did not ask the model; a larger reservation, or the end of the budget."""
    pen = hand.pen
    reservation = pen.state.reservation
    if reservation is None:
        return True
    wider = budget.widened(
        pen.state,
        reservation,
        needs.most,
        needs.output_tokens,
        is_summary=needs.is_summary,
    )
    if isinstance(wider, budget.Exhausted):
        unpaid = replace(pen.state, reservation=None)  # the open one is given back for the end
        ending = last_words(unpaid, hand.agent, pen.moment(), wider.reason)
        return await (decide(hand, ending) if isinstance(ending, d.Decide) else hand.finish(ending))
    pen.add(e.StepReserved(reservation=wider))
    await hand.commit()
    return True
