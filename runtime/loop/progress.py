"""The progress monitor's rules: repeats, stalls, oscillation (seeds/a, "no progress").

Detection works on fingerprints, never on the model's prose. What was seen is folded into the state
(``note`` and ``close_step``); ``assess`` compares it with the agent's thresholds. The response is
graduated: the first flag of a kind warns the model, the same kind again stops the run.
"""

from msgspec.structs import replace

from messages.canon import digest
from messages.checks import Assess, Flag, Sighting
from messages.events.step import FlagKind
from messages.parts import JsonValue
from messages.state import CallState, LoopState, Outstanding, Seen

_WINDOW_CAP = 32
"""More recent actions than any agent's window are not kept."""
_ABAB = 4


def pair_of(action: str, payload_hash: str) -> str:
    """The fingerprint of one (action, result)."""
    return f"{action}:{payload_hash[:16]}"


def note(seen: Seen, action: str, payload_hash: str) -> Seen:
    """``seen`` after one more observation."""
    pair = pair_of(action, payload_hash)
    payloads = seen.payloads
    if payload_hash[:16] not in payloads:
        payloads = (*payloads, payload_hash[:16])
    return replace(
        seen,
        pairs={**seen.pairs, pair: seen.pairs.get(pair, 0) + 1},
        recent=(*seen.recent, pair)[-_WINDOW_CAP:],
        payloads=payloads,
    )


def turn_down(seen: Seen, call: CallState) -> Seen:
    """``seen`` after a call that was rejected or refused, once more."""
    action = fingerprint(call)
    times = seen.rejections.get(action, 0) + 1
    return replace(seen, rejections={**seen.rejections, action: times})


def payload_hash(payload: JsonValue) -> str:
    """The hash of an observation's content, whatever its id, time or request."""
    return digest(payload)


def state_fingerprint(seen: Seen, outstanding: tuple[Outstanding, ...]) -> str:
    """What counts as progress: distinct payloads and the life of side effects.

    Evidence ids are left out, since every observation adds one (REQUIREMENTS.md A23).
    """
    return digest([len(seen.payloads), [(o.key, o.status) for o in outstanding]])[:16]


def stalled_after(state: LoopState) -> int:
    """Consecutive steps without change, the open one included."""
    return _stalled(state.seen, state_fingerprint(state.seen, state.outstanding))


def _stalled(seen: Seen, now: str) -> int:
    return seen.stalled + 1 if now == seen.fingerprint else 0


def close_step(state: LoopState, *, is_judged: bool) -> Seen:
    """``state.seen`` at the end of a step; one without results does not count as stalled."""
    seen, now = state.seen, state_fingerprint(state.seen, state.outstanding)
    stalled = _stalled(seen, now) if is_judged else seen.stalled
    return replace(seen, stalled=stalled, fingerprint=now)


def sighting(state: LoopState, call: CallState) -> Sighting | None:
    """How the monitor sees one call of the open turn; None if it brought no observation."""
    result = call.result
    if call.action is None or result is None or result.kind not in {"ok", "error"}:
        return None
    action = fingerprint(call)
    pairs = [p for p in state.seen.recent if p.startswith(action)]
    if not pairs:
        return None
    return Sighting(
        ordinal=call.ordinal,
        tool=call.tool,
        action=action,
        times=state.seen.pairs.get(pairs[-1], 0),
    )


def fingerprint(call: CallState) -> str:
    """The action fingerprint of a call: tool and canonical arguments."""
    arguments = call.action.arguments if call.action else call.arguments
    return digest({"tool": call.tool, "args": arguments})[:16]


def assess(request: Assess) -> tuple[Flag, ...]:
    """What stands out in the step that just ended; nothing in one that only polled.

    Source: seeds/a, ProgressMonitor; thresholds of CONTRACT.md section 3.
    """
    if not request.sightings:
        return ()
    flags = [flag for s in request.sightings if (flag := _repeat(request, s)) is not None]
    if flags:
        return tuple(flags)
    spec = request.spec
    if request.stalled >= spec.stall_at:
        text = f"Nothing has changed for {request.stalled} steps. Try something else or finish."
        return (_graduated(request, "no_state_change", text),)
    recent = request.recent[-spec.window :]
    if _is_oscillation(recent):
        text = "You alternate between the same two actions with the same results."
        return (_graduated(request, "oscillation", text),)
    return ()


def _repeat(request: Assess, seen: Sighting) -> Flag | None:
    spec = request.spec
    if seen.times < spec.warn_at:
        return None
    text = (
        f"You called {seen.tool} with these arguments {seen.times} times and got the same result."
        " Propose a different action, or finish."
    )
    level = "stop" if seen.times >= spec.stop_at else "warn"
    return Flag(kind="repeated_action", level=level, ordinal=seen.ordinal, message=text)


def _is_oscillation(recent: tuple[str, ...]) -> bool:
    if len(recent) < _ABAB:
        return False
    a, b, c, d = recent[-_ABAB:]
    return a == c and b == d and a != b


def _graduated(request: Assess, kind: FlagKind, text: str) -> Flag:
    level = "stop" if kind in request.flagged else "warn"
    last = request.sightings[-1].ordinal if request.sightings else None
    return Flag(kind=kind, level=level, ordinal=last, message=text)
