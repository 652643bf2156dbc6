"""The progress monitor's rules: repeats, near duplicates, stalls, oscillation.

The response is graduated (REQUIREMENTS.md A24): a pattern is first told to the model, inside the
result it is looking at; equal calls after that are refused unexecuted; the same pattern again stops
the run. Thresholds are the agent's (CONTRACT.md section 3); source of the patterns: seeds/a,
ProgressMonitor.
"""

from collections.abc import Iterable

from messages import events as e
from messages.agent import ProgressSpec
from messages.checks import Assess, Flag, Sighting
from messages.events.step import FlagKind
from messages.parts import Problem
from messages.state import CallState, LoopState
from runtime.loop.progress import REPEATED, last_pair, sighting, stalled_after
from runtime.loop.strategies.loop import MEMORY


def question(state: LoopState, spec: ProgressSpec) -> Assess:
    """What the monitor is asked at the end of a step.

    Args:
        state: folded; every call of its turn has its result.
        spec: the agent's thresholds.
    """
    turn = state.turn
    calls = turn.calls if turn is not None else ()
    sightings = [sighting(state, call) for call in calls]
    return Assess(
        tenant=state.tenant,
        run_id=state.run_id,
        step=turn.step if turn is not None else state.step_count,
        spec=spec,
        sightings=tuple(seen for seen in sightings if seen is not None),
        recent=state.seen.recent[-spec.window :],
        stalled=stalled_after(state),
        is_idle=all(call.tool in MEMORY for call in calls),
        flagged=state.seen.flagged,  # pyright: ignore[reportArgumentType] - kinds only
    )


def assess(request: Assess) -> tuple[Flag, ...]:
    """What stands out in the step that just ended; nothing in one that only polled or waited."""
    if not request.sightings and not request.is_idle:
        return ()
    if flags := [flag for s in request.sightings if (flag := _repeat(request, s)) is not None]:
        return tuple(flags)
    spec = request.spec
    if request.stalled >= spec.stall_at:
        text = f"Nothing has changed for {request.stalled} steps. Try something else or finish."
        return (_graduated(request, "no_state_change", text),)
    if _is_oscillation(request.recent[-spec.window :]) and not request.is_idle:
        text = "You repeat the same few actions in turn, with the same results."
        return (_graduated(request, "oscillation", text),)
    return ()


def _repeat(request: Assess, seen: Sighting) -> Flag | None:
    """The same call, or one whose arguments differ in form only, brought the same once more."""
    if seen.times >= request.spec.warn_at:
        text = (
            f"You called {seen.tool} with these arguments {seen.times} times and got the same"
            " result. Propose a different action, or finish."
        )
        return _counted(request, seen, "repeated_action", seen.times, text)
    if seen.alike >= request.spec.warn_at:
        text = (
            f"You called {seen.tool} {seen.alike} times with arguments that differ in form only,"
            " and got the same result. Propose a different action, or finish."
        )
        return _counted(request, seen, "near_duplicate", seen.alike, text)
    return None


def _counted(request: Assess, seen: Sighting, kind: FlagKind, times: int, text: str) -> Flag:
    """Stopped at the threshold; calls of one turn may reach it before anybody was warned."""
    is_over = times >= request.spec.stop_at and kind in request.flagged
    level = "stop" if is_over else "warn"
    return Flag(kind=kind, level=level, ordinal=seen.ordinal, message=text)


def _is_oscillation(recent: tuple[str, ...]) -> bool:
    """The newest actions are a round of two or more, gone twice: A-B-A-B, A-B-C-A-B-C."""
    for length in range(2, len(recent) // 2 + 1):
        rounds = recent[-2 * length :]
        if rounds[:length] == rounds[length:] and len(set(rounds)) > 1:
            return True
    return False


def _graduated(request: Assess, kind: FlagKind, text: str) -> Flag:
    level = "stop" if kind in request.flagged else "warn"
    last = request.sightings[-1].ordinal if request.sightings else None
    return Flag(kind=kind, level=level, ordinal=last, message=text)


# ------------------------------------------------------------------ before it is done
def refusals(
    state: LoopState, spec: ProgressSpec, accepted: Iterable[CallState]
) -> tuple[e.Observed, ...]:
    """Repeats that are not worth being executed: more than warned of, fewer than the stop.

    Args:
        state: folded; its turn is open.
        spec: the agent's thresholds.
        accepted: well-formed calls; one that was asked about, or has begun, goes on.
    """
    if state.seen.most < spec.warn_at:
        return ()
    step = state.turn.step if state.turn else 0
    return tuple(
        e.Observed(step=step, ordinal=call.ordinal, kind="refused", problem=_refused(call, times))
        for call in accepted
        if call.intents == 0 and call.approval_id is None
        for times in (state.seen.pairs.get(last_pair(state.seen, call), 0),)
        if spec.warn_at <= times < spec.stop_at - 1
    )


def _refused(call: CallState, times: int) -> Problem:
    return Problem(
        code=REPEATED,
        message=f"{call.tool} gave the same result for these arguments {times} times; it was not"
        " called again",
        hint="propose a different action, or finish with what is known",
    )
