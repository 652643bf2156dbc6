"""A thousand runs that get somewhere, none of which is stopped (GUARANTEES.md G21).

Each is put together at random from what sound agents do: looking things up, paging, polling,
reading again after a write, however its outcome became known, looking a second time, asking again
after an error, a finish that was turned down once.
"""

from collections.abc import Callable
from random import Random

import pytest

from messages.events import Assessed, CompletionRejected, ProgressFlagged
from messages.parts import JsonValue, Problem
from messages.state import LoopState
from runtime.loop import monitor
from tests.unit.runtime.loop.tales import (
    SPEC,
    accepted,
    authorised,
    born,
    decided,
    observed,
    reconciled,
    reserved,
    text,
    told,
    use,
)

TRACES = 1_000
Step = list[tuple[str, str, str, JsonValue]]
"""Calls of one turn: tool, argument, kind of result, payload. Empty: a finish turned down."""


def _distinct(rng: Random) -> list[Step]:
    """Many records, some of them equal."""
    return [[("look", f"r{rng.randrange(10**6)}", "ok", rng.randrange(3 * 10**5))] for _ in "abcde"]


def _pages(rng: Random) -> list[Step]:
    """Page after page of a list, the last one empty."""
    name = f"list{rng.randrange(10**6)}"
    pages: list[Step] = [[("scan", f"{name} {n}", "ok", f"{name}{n}")] for n in range(4)]
    return [*pages, [("scan", f"{name} 4", "ok", [])]]


def _polls(rng: Random) -> list[Step]:
    """The same answer many times, then another."""
    job = f"job{rng.randrange(10**6)}"
    return [*([[("poll", job, "ok", "pending")]] * rng.randrange(3, 9)), [("poll", job, "ok", job)]]


def _verifies(rng: Random) -> list[Step]:
    """Write and read again, over and over: what is read may not show it at once."""
    steps: list[Step] = []
    for _ in range(4):
        steps += [[("mail", f"m{rng.randrange(10**6)}", "ok", rng.randrange(10**6))]]
        steps += [[("look", "status", "ok", "the same")]]
    return steps


def _verifies_late(rng: Random) -> list[Step]:
    """The same where it was unknown at first what became of each write."""
    return [
        [(tool, argument, "reconciled" if tool == "mail" else kind, payload)]
        for [(tool, argument, kind, payload)] in _verifies(rng)
    ]


def _polls_between(rng: Random) -> list[Step]:
    """Reads that find nothing yet, and between them how far a job is."""
    job = f"job{rng.randrange(10**6)}"
    steps: list[Step] = []
    for n in range(4):
        steps += [[("poll", job, "ok", f"{job}: {n}")], [("scan", f"{job} {n}", "ok", [])]]
    return steps


def _looks_twice(rng: Random) -> list[Step]:
    """Some things once more, because the first time was long ago."""
    one = f"t{rng.randrange(10**6)}"
    return [[("look", one, "ok", one)], *_pages(rng)[:2], [("look", one, "ok", one)]]


def _stumbles(rng: Random) -> list[Step]:
    """An error, then the same call again."""
    one = f"e{rng.randrange(10**6)}"
    return [[("look", one, "error", None)], [("look", one, "ok", one)]]


def _at_once(rng: Random) -> list[Step]:
    """Several calls in one turn."""
    return [[("look", f"p{rng.randrange(10**6)}", "ok", rng.random()) for _ in range(3)]]


def _too_early(rng: Random) -> list[Step]:
    """A finish before the evidence was in, then what was missing."""
    return [[], *_distinct(rng)[:2]]


HABITS: tuple[Callable[[Random], list[Step]], ...] = (
    *(_distinct, _pages, _polls, _polls_between, _verifies, _verifies_late),
    *(_looks_twice, _stumbles, _at_once, _too_early),
)


def played(state: LoopState, number: int, step: Step) -> LoopState:
    """One step through the fold and the monitor, as the orchestrator takes it."""
    state = reserved(state, number) if number > 1 else state
    if not step:
        state = told(state, decided(text("Done."), step=number, stop_reason="end_turn"))
        problem = Problem(code="COMPLETION_REJECTED", message="not yet")
        state = told(state, CompletionRejected(step=number, problem=problem))
    else:
        uses = [use(place, tool, x=argument) for place, (tool, argument, _, _) in enumerate(step)]
        state = accepted(told(state, decided(*uses, step=number)))
        assert state.turn is not None
        assert not monitor.refusals(state, SPEC.progress, state.turn.calls)
        state = authorised(state, *["allow"] * len(step))
        for place, (_, _, kind, payload) in enumerate(step):
            if kind == "reconciled":
                state = reconciled(state, place, payload)
            else:
                state = observed(state, place, kind=kind, payload=payload)
    for flag in monitor.assess(monitor.question(state, SPEC.progress)):
        assert flag.level == "warn", flag
        said = ProgressFlagged(
            step=number, ordinal=flag.ordinal, kind=flag.kind, level="warn", message=flag.message
        )
        state = told(state, said)
    return told(state, Assessed(step=number))


@pytest.mark.parametrize("batch", range(10))
def test_no_sound_run_is_stopped(batch: int) -> None:
    warned = 0
    for seed in range(batch * TRACES // 10, (batch + 1) * TRACES // 10):
        rng, state = Random(seed), born()
        steps = [step for _ in range(4) for step in rng.choice(HABITS)(rng)]
        for number, step in enumerate(steps, start=1):
            state = played(state, number, step)
        warned += bool(state.seen.flagged)
    assert warned <= TRACES // 10 // 20, "nor are many of them warned"
