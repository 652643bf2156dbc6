"""A run as it happens: its events as they are recorded, and waiting for where it comes to rest."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

import anyio

from messages.status import Status
from treadle.cli.failures import DONE, ENDED_OTHERWISE, NEEDS_PERSON, TimedOutError
from treadle.cli.format import Row, clipped, clock_text, plain, short_json
from treadle.cli.session import Api, Reply, Source

_REST: Final = frozenset({Status.AWAITING_APPROVAL, Status.AWAITING_HUMAN})
_HIDDEN: Final = frozenset({"v", "run_id", "version", "at", "kind", "step"})


async def follow(source: Source, run_id: str, *, after: int = -1) -> AsyncGenerator[Row]:
    """Every event later than ``after``; live until the run has ended, else what is recorded.

    Args:
        source: who is asked.
        run_id: which run.
        after: the last version that is not wanted.
    """
    if source.live is not None:
        async with aclosing(source.live.events(run_id, after=after).follow()) as events:
            async for event in events:
                yield event
        return
    is_complete = False
    while not is_complete:
        page = await source.reader.events(run_id, after=after)
        for event in page["events"]:
            yield event
            after = max(after, event["version"])
        is_complete = after >= page["version"] or not page["events"]


async def come_to_rest(
    api: Api,
    run_id: str,
    *,
    timeout_s: float | None = None,
    on_event: Callable[[Row], None] = lambda _: None,
) -> Reply:
    """Wait until a run has ended or waits for a person.

    Returns:
        The run, as ``show`` gives it.

    Raises:
        TimedOutError: it is still under way after ``timeout_s`` seconds.
    """
    with anyio.move_on_after(timeout_s):
        async with aclosing(follow(Source(api, api), run_id)) as events:
            async for event in events:
                on_event(event)
                if event["kind"] == "suspended" and event.get("status") in _REST:
                    run = await api.show(run_id)
                    if _waits_for_a_person(run):
                        return run
        return await api.show(run_id)
    raise TimedOutError(
        f"run {run_id} is still under way after {timeout_s:g} s",
        hint=f"it goes on: treadle watch {run_id}",
    )


def _waits_for_a_person(run: Row) -> bool:
    """Not while a decision is on its way: the run is about to go on."""
    if run["status"] != Status.AWAITING_APPROVAL:
        return run["status"] in _REST
    approval = run.get("approval")
    return approval is None or approval.get("state", "pending") == "pending"


def exit_code_of(run: Row) -> int:
    """0, 5 or 6 for the status of an awaited run."""
    match Status(run["status"]):
        case Status.SUCCEEDED:
            return DONE
        case Status.AWAITING_APPROVAL | Status.AWAITING_HUMAN | Status.NEEDS_INPUT:
            return NEEDS_PERSON
        case _:
            return ENDED_OTHERWISE


def event_text(event: Row) -> str:
    """One line of ``watch``: time, version, step, what happened."""
    step = "-" if event.get("step") is None else plain(event["step"])
    head = f"{clock_text(event['at'])} {plain(event['version']):>4} {step:>4}  "
    return f"{head}{plain(event['kind']):<20} {details(event)}".rstrip()


def details(event: Mapping[str, Any]) -> str:
    """What an event says beside its kind: the fields that say something."""
    words = [
        f"{name}={_value(value)}"
        for name, value in event.items()
        if name not in _HIDDEN and value not in (None, "", [], {}, False)
    ]
    return clipped(" ".join(words), 160)


def _value(value: object) -> str:
    return plain(value if isinstance(value, str) else short_json(value))
