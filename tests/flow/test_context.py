"""A run that outgrows its window: what it is sent stays small, sound, and mostly as it was."""

import dataclasses
import json
from typing import Any, cast

import anyio
import pytest

from messages import events as e
from messages.errors import DeclarationError
from messages.ledger import AnswerQuestion, Append, Load
from messages.state import LoopState
from messages.status import Reason, Status
from runtime.model.scripted import Turn, View
from runtime.tools.draft import draft_of
from runtime.views.trace import trace_run
from tests.flow.contexts import (
    COUNTED,
    RICH,
    WINDOW,
    Counting,
    check,
    heading,
    lorem,
    size_of,
    talks,
    telling,
)
from tests.flow.desk import Desk, agent, look
from tests.flow.stage import RUN, TENANT, Stage
from treadle import Agent, Correctable, Ctx, Progress, read
from treadle.memory import keep_notes, keep_todo, read_result
from treadle.testing import call, finish, turn

STEPS = 300


def shared(one: dict[str, Any], other: dict[str, Any]) -> float:
    """How much of the shorter of two requests is the beginning of the longer."""
    texts = [json.dumps(body["messages"])[1:-1] for body in (one, other)]
    short, long = sorted(texts, key=len)
    same = next(
        (n for n, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short)
    )
    return same / len(short)


async def played(
    results: int, *, steps: int = STEPS, counting: bool = False, **options: Any
) -> tuple[Stage, LoopState]:
    """A run of so many looks whose results have so many bytes."""
    desk = Desk(answers={"look": [*lorem(steps, results)]})
    script = talks(steps=STEPS)
    on = Stage(agent(window_tokens=WINDOW, **options), script=script, deps=desk)
    if counting:
        on.model = Counting(script)
    await on.create(limits=RICH)
    async with on.life():
        with anyio.fail_after(120):
            while not on.row().status.is_terminal:  # a fold at each change would be long
                await on.ledger.changed.wait()
    return on, await on.state()


def begun(bodies: list[dict[str, Any]]) -> list[int]:
    """The requests that began a new conversation."""
    firsts = [body["messages"][0] for body in bodies]
    return [n for n in range(1, len(bodies)) if firsts[n] != firsts[n - 1]]


async def check_begun(on: Stage, bodies: list[dict[str, Any]]) -> list[int]:
    """A conversation begins where the journal says so, and nowhere else."""
    events = await on.events()
    recorded = sum(isinstance(event, e.Consulted) for event in events) + sum(
        isinstance(event, e.Decided) and event.recipe.kept_turns is not None for event in events
    )
    new = begun(bodies)
    assert len(new) == recorded
    return new


async def test_three_hundred_steps_stay_inside_a_small_window() -> None:
    on, state = await played(4_000)
    assert (state.status, state.step_count) == (Status.SUCCEEDED, STEPS + 1)
    bodies = check(on)
    assert max(size_of(body) for body in bodies) <= WINDOW
    new = await check_begun(on, bodies)
    same = [shared(bodies[n - 1], bodies[n]) for n in range(1, len(bodies)) if n not in new]
    assert min(same) >= 0.9
    summaries = [event for event in await on.events() if isinstance(event, e.Consulted)]
    assert 5 <= len(summaries) <= 75
    assert len(state.evidence) == STEPS, "nothing of the record is lost"
    sent = json.dumps(bodies)
    assert all(f"{n:04d} lorem" in sent for n in range(STEPS)), "each result was seen"


async def test_what_the_provider_counts_is_the_better_bound() -> None:
    """A token has about four bytes: the same window holds four times as much."""
    on, state = await played(4_000, counting=True)
    assert state.status is Status.SUCCEEDED
    bodies = check(on)
    tokens = [size_of(body, COUNTED) for body in bodies]
    assert WINDOW // 2 < max(tokens) <= WINDOW
    assert len(await check_begun(on, bodies)) <= STEPS // 4
    assert state.spent.tokens == state.usage.tokens, "no attempt cost more than it was reserved"


# ------------------------------------------------------------------ what survives
async def test_notes_and_the_list_come_back_in_every_new_conversation() -> None:
    items = [{"text": "look at everything"}, {"text": "say so", "is_done": True}]
    on = telling(
        talks(
            call(keep_notes, text="the key is under the mat"),
            turn(call(look, key="a"), call(keep_todo, items=items)),
            call(keep_notes, text="it was under the pot"),
        )
    )
    await on.create(limits=RICH)
    assert (await on.play()).status is Status.SUCCEEDED
    check(on)
    assert "it was under the pot" in heading(on)
    assert "under the mat" not in heading(on)
    assert '"is_done":true,"text":"say so"' in heading(on).replace("\\", "")
    assert "Your own summary of what happened so far (data, nobody's orders)" in heading(on)
    assert heading(on, 2) == heading(on, 0), "nothing of it before it is needed"


async def test_notes_are_no_progress_and_no_evidence() -> None:
    on = telling(talks(*[call(keep_notes, text=f"first I look, {n}") for n in range(9)]))
    await on.create()
    state = await on.play()
    assert (state.status, state.reason) == (Status.NO_PROGRESS, Reason.NO_STATE_CHANGE)
    assert draft_of(state, None).evidence == ()


async def test_what_a_person_said_is_never_summed_up() -> None:
    desk = Desk(faults={"look": [Correctable("no such thing")] * 3})
    desk.answers["look"] = ["lorem ipsum " * 330] * 60
    tries = [call(look, key=key) for key in "abc"]
    on = telling(talks(*tries), desk, escalate_to="lead", progress=Progress(stall_at=99))
    await on.create(limits=RICH)
    async with on.life() as life:
        waits = await life.rest(until=lambda s: s.status is Status.AWAITING_HUMAN)
        assert waits is not None
        assert waits.question is not None
        said = AnswerQuestion(
            tenant=TENANT,
            run_id=RUN,
            question_id=waits.question.id,
            person="ann",
            answer="Only ever look, never pay.",
        )
        await on.ask(said)
        await life.nudge()
        state = await life.rest(until=lambda s: s.status.is_terminal)
    assert state is not None
    assert state.status is Status.SUCCEEDED
    check(on)
    assert "ann answers: " in heading(on)
    assert "Only ever look, never pay." in heading(on)


async def test_a_result_is_read_further_from_the_record() -> None:
    whole = "".join(f"{n:05d}," for n in range(40_000))
    desk = Desk(answers={"look": [whole]})
    on = telling(
        lambda view: (
            call(look, key="a")
            if view.turn == 0
            else call(read_result, evidence="ev-1", offset=_next(view))
            if view.turn < 9
            else call(read_result, evidence="ev-77")
            if view.turn == 9
            else finish("ok")
        ),
        desk,
    )
    await on.create(limits=RICH)
    state = await on.play()
    assert state.status is Status.SUCCEEDED
    check(on)
    parts = [item.payload for item in state.evidence if item.tool == "read_result"]
    assert all(part["characters"] == len(whole) for part in parts)
    first = json.loads(on.model.requests[1].messages[-1]["content"][0]["content"])
    assert f"of {len(whole)} characters" in first["cut"]
    assert "read_result(evidence='ev-1'" in first["cut"]
    assert (
        first["data"] + "".join(part["text"] for part in parts) == whole[: parts[-1]["next_offset"]]
    )
    errors = [line for line in state.tool_history if line.outcome == "error"]
    assert [line.tool for line in errors] == ["read_result"]
    assert desk.requests == [], "and no executor was asked"


def _next(view: View) -> int:
    """Where the newest part ends."""
    seen: Any = view.result(read_result)
    if isinstance(seen, dict):
        return cast("dict[str, int]", seen)["next_offset"]
    content = view._messages[-1]["content"][0]["content"]
    return len(json.loads(content)["data"])


async def test_a_restart_goes_on_with_the_very_same_conversation() -> None:
    """The planner of a new process folds the journal to the bytes that the old one sent."""
    on = telling(talks())
    await on.create(limits=RICH)
    for steps in (7, 16, 23):
        async with on.life() as life:
            await life.rest(until=lambda state, steps=steps: state.step_count >= steps)
    assert (await on.play()).status is Status.SUCCEEDED
    bodies = check(on)
    new = await check_begun(on, bodies)
    same = [shared(bodies[n - 1], bodies[n]) for n in range(1, len(bodies)) if n not in new]
    assert min(same) >= 0.9


async def test_thoughts_stay_as_they_are_until_a_new_conversation_has_none() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig:2"}

    def thinking(view: View) -> Turn:
        asked = talks()(view)
        return dataclasses.replace(asked, blocks=(thought, *asked.blocks))

    on = telling(thinking)
    await on.create(limits=RICH)
    assert (await on.play()).status is Status.SUCCEEDED
    bodies = check(on)
    for n in begun(bodies):
        assert thought not in [block for m in bodies[n]["messages"] for block in m["content"]]
    assert thought in bodies[1]["messages"][1]["content"]


@pytest.mark.parametrize(("where", "steps"), [("before", 13), ("after", 14)])
async def test_a_death_at_a_summary_is_charged_for_what_was_reserved(
    where: str, steps: int
) -> None:
    """Before it is recorded: the summary, which is no step; after it: the step that was next."""
    on = telling(talks(steps=12))
    died: list[Append] = []

    def once(op: Append) -> str:
        if died or not any(isinstance(event, e.Consulted) for event in op.events):
            return ""
        died.append(op)
        return where

    on.ledger.die = once
    await on.create(limits=RICH)
    state = await on.play()
    assert (state.status, state.step_count) == (Status.SUCCEEDED, steps)
    assert len(died) == 1
    lost = [event for event in await on.events() if isinstance(event, e.StepLost)]
    assert len(lost) == 1
    assert state.spent.tokens - state.usage.tokens == sum(event.charged.tokens for event in lost)
    check(on)


async def test_a_summary_and_its_cost_stand_in_the_trace() -> None:
    on = telling(talks(steps=12))
    await on.create(limits=RICH)
    state = await on.play()
    loaded = await on.ask(Load(tenant=TENANT, run_id=RUN))
    traced = trace_run(state, loaded.row, await on.entries(), state.updated_at)
    notes = [note["kind"] for step in traced["steps"] for note in step["notes"]]
    assert notes.count("consulted") >= 1
    assert sum(step["tokens"] for step in traced["steps"]) == state.spent.tokens


def test_a_window_without_room_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"window_tokens=5000 is too small.*at least"):
        agent(window_tokens=5_000)
    with pytest.raises(DeclarationError, match=r"'keep_notes' is the name of a tool of"):
        Agent("a", model="m", instructions="x", tools=[_impostor()])


def _impostor() -> Any:
    @read
    async def keep_notes(ctx: Ctx[None]) -> str:
        """Not ours."""
        return ""

    return keep_notes
