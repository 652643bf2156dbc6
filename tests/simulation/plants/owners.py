"""Defects of who owns a run, of what Due lists, and of what is told to an owner."""

# Private parts are replaced by what is simpler than their types.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportPrivateUsage=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from typing import Any

from msgspec.structs import replace

from messages.ledger import Due
from runtime.ledger.rules import append, queries, runs
from tests.simulation.plants.plant import Mix, Patch, Plant

LOSSY = Mix(faults={"loss": 2, "repeat": 2, "slow": 2, "kill": 2})


def owners_never_expire(patch: Patch) -> None:
    patch.put(runs, "is_alive", lambda _t, process, _now: bool(process))


def _due_without(patch: Patch, drops: Any) -> None:
    wants = patch.put(queries, "_wants_drive", None)

    def some(t: Any, head: Any, process: str, driving: Any, now: float) -> bool:
        return wants(t, head, process, driving, now) and not drops(t, head, process)

    patch.put(queries, "_wants_drive", some)


def due_no_open(patch: Patch) -> None:
    _due_without(patch, lambda _t, head, _p: not head.status.is_suspended)


def due_no_signals(patch: Patch) -> None:
    _due_without(
        patch,
        lambda t, head, _p: bool(t.signals(head.tenant, head.run_id)) and head.status.is_suspended,
    )


def due_no_timers(patch: Patch) -> None:
    _due_without(patch, lambda _t, head, _p: head.status.is_suspended and head.until is not None)


def due_not_own(patch: Patch) -> None:
    _due_without(patch, lambda _t, head, process: head.owner == process)


def due_no_results(patch: Patch) -> None:
    due = patch.put(queries, "due", None)
    patch.put(queries, "due", lambda t, op, now: due(t, _silent(op), now))


def _silent(op: Due) -> Due:
    return replace(op, stream="")


def published_once(patch: Patch) -> None:
    """What was published is never published again, whatever became of the stream."""
    patch.put(
        queries,
        "due",
        lambda t, op, now, due=queries.due: replace(
            (answer := due(t, op, now)),
            runs=tuple(r for r in answer.runs if not _was_published(t, r)),
        ),
    )


def _was_published(t: Any, run: Any) -> bool:
    head = t.run(run.tenant, run.run_id)
    return run.need == "publish" and bool(head.published)


def signals_read_once(patch: Patch) -> None:
    """Whoever is told of a signal has had it."""
    take, append_ = runs.take, append.append

    def drop(t: Any, op: Any) -> None:
        ids = [signal.id for signal in t.signals(op.tenant, op.run_id)]
        t.drop_signals(op.tenant, op.run_id, ids)

    def taken(t: Any, op: Any, now: float) -> Any:
        answer = take(t, op, now)
        drop(t, op)
        return answer

    def appended(t: Any, op: Any, now: float) -> Any:
        answer = append_(t, op, now)
        drop(t, op)
        return answer

    patch.put(runs, "take", taken)
    patch.put(append, "append", appended)


def owners_shared(patch: Patch) -> None:
    """A run may be taken although its owner lives, and every take may use the reservation."""
    own = patch.put(runs, "_own", None)

    def clean(t: Any, head: Any, op: Any, now: float, *, deaths: int) -> Any:
        return replace(own(t, head, op, now, deaths=deaths), is_clean=True)

    patch.put(runs, "_own", clean)


OWNERS = (
    Plant(
        name="dead owners keep their runs",
        shows=("wedged",),
        without="Take succeeds when the owner has expired",
        breaks=owners_never_expire,
        mix=Mix(faults={"kill": 2}, layouts=("split", "apart")),
    ),
    Plant(
        name="Due without open runs",
        shows=("wedged",),
        without="Due: open runs",
        breaks=due_no_open,
        mix=LOSSY,
    ),
    Plant(
        name="Due without signals",
        shows=("wedged",),
        without="Due: suspended runs with a signal",
        breaks=due_no_signals,
        mix=Mix(kinds=("approved",), faults={"hints": 2, "loss": 1}, job={"pause_s": 2.0}),
    ),
    Plant(
        name="Due without timers",
        shows=("wedged",),
        without="Due: until has passed",
        breaks=due_no_timers,
        mix=Mix(kinds=("approved",), job={"ignores": True}),
    ),
    Plant(
        name="Due without one's own",
        shows=("wedged",),
        without="Due: runs the asker owns and does not drive",
        breaks=due_not_own,
        mix=LOSSY,
    ),
    Plant(
        name="Due without results",
        shows=("unpublished",),
        without="Due: ended runs whose result is not published",
        breaks=due_no_results,
        mix=Mix(faults={"broker": 2, "loss": 2, "kill": 2}),
    ),
    Plant(
        name="published once and for all",
        shows=("unpublished",),
        without="`published` names the stream",
        breaks=published_once,
        mix=Mix(faults={"broker": 2}),
    ),
    Plant(
        name="signals are read once",
        shows=("wedged",),
        without="a signal stays until an entry names it",
        breaks=signals_read_once,
        mix=Mix(kinds=("approved",), faults={"loss": 2, "kill": 2}, job={"cancel_s": 3.0}),
    ),
    Plant(
        name="a dead owner's reservation is used again",
        shows=("asked_too_often",),
        without="a lost reservation counts",
        breaks=owners_shared,
        mix=Mix(kinds=("poor",), faults={"kill": 2, "freeze": 2, "provider": 1}),
    ),
)
