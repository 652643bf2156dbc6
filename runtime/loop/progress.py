"""What counts as progress: fingerprints of actions, results and state (seeds/a, "no progress").

Folded into the state beside everything else (``Seen``); never read off the model's prose. Tools
that are declared ``polling`` leave no trace here but new payloads. What is made of it stands in
``runtime.loop.monitor``.
"""

import re
from typing import cast

from msgspec.structs import replace

from messages.canon import digest
from messages.checks import Sighting
from messages.parts import JsonValue, Problem
from messages.state import CallState, LoopState, Outstanding, Seen
from runtime.loop.strategies.loop import MEMORY

_WINDOW_CAP = 32
"""More recent actions than any agent's window are not kept."""
REPEATED = "REPEATED_CALL"
"""Code of the problem that a call is refused with because it would bring nothing new."""
_OBSERVED = frozenset({"ok", "error"})
_NO_WORD = re.compile(r"[\W_]+")
_LEADING_ZEROS = re.compile(r"\b0+(?=\d)")


# ------------------------------------------------------------------ fingerprints
def fingerprint(call: CallState) -> str:
    """The action fingerprint of a call: tool and canonical arguments."""
    return digest({"tool": call.tool, "args": _arguments(call)})[:16]


def likeness(call: CallState) -> str:
    """The same of arguments whose form is taken away, so that "8472" and " 08472" are one."""
    return digest({"tool": call.tool, "args": _plain(_arguments(call))})[:16]


def _arguments(call: CallState) -> dict[str, JsonValue]:
    return call.action.arguments if call.action else call.arguments


def _plain(value: JsonValue) -> JsonValue:
    """Values without case, spaces, punctuation, leading zeros and the type of a number."""
    if isinstance(value, dict):
        named = cast("dict[str, JsonValue]", value)
        return {key: _plain(each) for key, each in named.items()}
    if isinstance(value, list):
        return [_plain(each) for each in cast("list[JsonValue]", value)]
    if not isinstance(value, str):
        return value if isinstance(value, bool) or value is None else str(value)
    return _LEADING_ZEROS.sub("", _NO_WORD.sub(" ", value.casefold()).strip())


def payload_hash(payload: JsonValue) -> str:
    """The hash of an observation's content, whatever its id, time or request."""
    return digest(payload)


def state_fingerprint(seen: Seen, outstanding: tuple[Outstanding, ...]) -> str:
    """What counts as progress: distinct payloads and the life of side effects.

    Evidence ids are left out, since every observation adds one (REQUIREMENTS.md A23).
    """
    return digest([len(seen.payloads), [(o.key, o.status) for o in outstanding]])[:16]


# ------------------------------------------------------------------ folding
def note(seen: Seen, call: CallState, payload_hash: str) -> Seen:
    """``seen`` after one more observation."""
    if call.tool in MEMORY:
        return seen  # words about words
    brief = payload_hash[:16]
    is_new = brief not in seen.payloads
    seen = replace(seen, payloads=(*seen.payloads, brief)) if is_new else seen
    if _is_polling(call):
        return seen
    result = _result(seen, call, brief)
    pair, alike = f"{fingerprint(call)}:{result}", f"{likeness(call)}:{result}"
    return replace(
        _counted(seen, pair),
        alike={**seen.alike, alike: seen.alike.get(alike, 0) + 1},
        recent=(*seen.recent, pair)[-_WINDOW_CAP:],
        writes=seen.writes + (0 if _is_read(call) else 1),
    )


def _result(seen: Seen, call: CallState, brief: str) -> str:
    """What a call brought; a read that came after another write was a different question."""
    return f"{brief}:{seen.writes}" if _is_read(call) else brief


def _counted(seen: Seen, pair: str) -> Seen:
    times = seen.pairs.get(pair, 0) + 1
    return replace(seen, pairs={**seen.pairs, pair: times}, most=max(seen.most, times))


def turn_down(seen: Seen, call: CallState, problem: Problem | None) -> Seen:
    """``seen`` after a call that was rejected or refused, once more."""
    if problem is not None and problem.code == REPEATED:
        pair = last_pair(seen, call)
        return _counted(seen, pair) if pair else seen
    action = fingerprint(call)
    times = seen.rejections.get(action, 0) + 1
    return replace(seen, rejections={**seen.rejections, action: times})


def last_pair(seen: Seen, call: CallState) -> str:
    """The newest (action, result) of this very action that still means something; or nothing."""
    action = fingerprint(call)
    found = next((pair for pair in reversed(seen.recent) if pair.startswith(action)), "")
    is_stale = _is_read(call) and not found.endswith(f":{seen.writes}")
    return "" if is_stale else found


def close_step(state: LoopState) -> Seen:
    """``state.seen`` at the end of a step."""
    seen, now = state.seen, state_fingerprint(state.seen, state.outstanding)
    if not _is_judged(state):
        return seen  # what it brought is the next judged step's progress
    return replace(seen, stalled=stalled_after(state), fingerprint=now)


def stalled_after(state: LoopState) -> int:
    """Consecutive steps without change, the open one included."""
    seen = state.seen
    if not _is_judged(state):
        return seen.stalled
    now = state_fingerprint(seen, state.outstanding)
    return seen.stalled + 1 if now == seen.fingerprint else 0


def _is_judged(state: LoopState) -> bool:
    """A step that observed something, or that called nothing, as one that restates a plan."""
    if state.turn is None:
        return False
    return not state.turn.calls or any(_is_seen(call) for call in state.turn.calls)


def _is_seen(call: CallState) -> bool:
    is_run = call.result is not None and call.result.kind in _OBSERVED
    return is_run and not _is_polling(call)


def _is_read(call: CallState) -> bool:
    return call.action is None or call.action.key is None


def _is_polling(call: CallState) -> bool:
    return call.action is not None and call.action.is_polling


# ------------------------------------------------------------------ what the monitor is shown
def sighting(state: LoopState, call: CallState) -> Sighting | None:
    """How the monitor sees one call of the open turn; None if there is nothing to compare."""
    if not _is_seen(call):
        return None
    seen, action = state.seen, fingerprint(call)
    pair = next((pair for pair in reversed(seen.recent) if pair.startswith(action)), "")
    if not pair:
        return None
    times = seen.pairs.get(pair, 0)
    has_alike = len(seen.alike) != len(seen.pairs)  # else no two actions are alike, nor is this one
    return Sighting(
        ordinal=call.ordinal,
        tool=call.tool,
        action=action,
        times=times,
        alike=seen.alike.get(pair.replace(action, likeness(call), 1), 0) if has_alike else times,
    )
