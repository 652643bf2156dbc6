"""What may go wrong around a conversation that is shortened: pauses, failures, odd reads."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from messages import events as e
from messages.errors import ModelError
from messages.ledger import Fetch, Missing
from messages.parts import JsonValue, Usage
from messages.status import Reason, Status
from runtime.model.port import FailureReason, ModelAnswer, ModelRequest
from runtime.model.retry import ATTEMPTS
from runtime.model.scripted import Playable
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
from tests.flow.desk import LOST, Desk, agent, look, post
from tests.flow.stage import Listening, Stage
from treadle.memory import keep_notes, keep_todo, read_result
from treadle.testing import call, finish, turn

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}}
THOUGHT = {"type": "thinking", "thinking": "long", "signature": "sig:4"}
NO_SUMMARY = "Nothing was summed up."
UNHEARD_OF = 100
"""Bytes of a token: such a count is not believed, so it is as if there were none."""


class Pausing(Listening):
    """Pauses its second turn in a search of its own."""

    async def attempt(self, request: ModelRequest) -> ModelAnswer:
        answer = await super().attempt(request)
        if request.turn != 1:
            return answer
        return replace(answer, content=(SEARCH,), stop_reason="pause_turn")


class Summing(Listening):
    """Sums up as it is told: what is other than usual, or how it fails; then as usual."""

    def __init__(self, script: Playable, *told: ModelError | dict[str, Any]) -> None:
        super().__init__(script)
        self._told = list(told)

    async def attempt(self, request: ModelRequest) -> ModelAnswer:
        answer = await super().attempt(request)
        if not request.is_summary or not self._told:
            return answer
        other = self._told.pop(0)
        if isinstance(other, ModelError):
            raise other
        return replace(answer, **other)


class Wordy(Counting):
    """Its summaries are longer than there is room for."""

    async def attempt(self, request: ModelRequest) -> ModelAnswer:
        answer = await super().attempt(request)
        long = {"type": "text", "text": "so it went, and " * 1_000}
        return replace(answer, content=(long,)) if request.is_summary else answer


def summing(*told: ModelError | dict[str, Any], steps: int = 12) -> Stage:
    """A run of so many long results whose summaries are odd."""
    on = telling(talks(steps=steps))
    on.model = Summing(talks(steps=steps), *told)
    return on


def results_of(request: ModelRequest) -> list[dict[str, Any]]:
    """The results in the newest message."""
    blocks = request.messages[-1]["content"]
    return [json.loads(block["content"]) for block in blocks if block["type"] == "tool_result"]


async def test_a_paused_turn_after_results_goes_on() -> None:
    script = [call(look, key="a"), finish("unused"), finish("ok")]
    on = Stage(agent(), script=script, deps=Desk())
    on.model = Pausing(script)
    await on.create()
    assert (await on.play()).status is Status.SUCCEEDED
    assert [message["role"] for message in check(on)[-1]["messages"]] == [
        *("user", "assistant", "user", "assistant")
    ]


# ------------------------------------------------------------------ results, read further
async def test_parts_that_are_read_in_one_turn_are_shown_whole() -> None:
    """What next_offset says was shown has been shown."""
    whole = "".join(f"{n:05d}," for n in range(4_000))
    offsets = (0, 8_000)
    on = telling(
        talks(
            call(look, key="a"),
            turn(*[call(read_result, evidence="ev-1", offset=offset) for offset in offsets]),
            steps=0,
        ),
        Desk(answers={"look": [whole]}),
    )
    await on.create(limits=RICH)
    assert (await on.play()).status is Status.SUCCEEDED
    shown = results_of(on.model.requests[2])
    assert [result.get("cut") for result in shown] == [None, None]
    for offset, part in zip(offsets, (result["data"] for result in shown), strict=True):
        assert part["text"] == whole[offset : part["next_offset"]] != ""


async def test_an_odd_offset_ends_as_a_result_or_as_rejected_arguments() -> None:
    offsets: tuple[JsonValue, ...] = (10**12, 2**62, 10**25, -1)
    reads = [call(read_result, evidence="ev-1", offset=offset) for offset in offsets]
    on = telling(talks(call(look, key="a"), *reads, steps=0), Desk())
    await on.create(limits=RICH)
    state = await on.play()
    assert state.status is Status.SUCCEEDED
    outcomes = [line.outcome for line in state.tool_history if line.tool == "read_result"]
    assert outcomes == ["ok", "ok", "rejected", "rejected"]
    check(on)


async def test_an_artifact_that_is_gone_is_an_error_of_the_call() -> None:
    on = telling(
        talks(call(look, key="a"), call(read_result, evidence="ev-1"), steps=0),
        Desk(answers={"look": ["x" * 300_000]}),
    )
    on.ledger.answers = lambda op: (
        Missing(kind="artifact", name="x") if isinstance(op, Fetch) else None
    )
    await on.create(limits=RICH)
    state = await on.play()
    assert (state.status, state.step_count) == (Status.SUCCEEDED, 3)
    assert [line.outcome for line in state.tool_history] == ["ok", "error"]
    [shown] = results_of(on.model.requests[-1])
    assert shown["error"] == "NOT_FOUND"


async def test_reading_a_cleared_result_again_is_no_lack_of_progress() -> None:
    """Each new conversation may send the model back to what it no longer sees."""
    again = call(read_result, evidence="ev-1")
    said = [again if n % 8 == 7 else call(look, key=f"k{n}") for n in range(40)]
    on = telling(talks(*said, steps=0))
    await on.create(limits=RICH)
    state = await on.play()
    assert (state.status, state.step_count) == (Status.SUCCEEDED, 41)
    assert not [event for event in await on.events() if isinstance(event, e.ProgressFlagged)]
    check(on)


async def test_the_status_may_be_read_after_each_write_that_had_to_be_reconciled() -> None:
    """The answer stays the same, but what was asked about does not."""
    said = [
        asked for n in range(3) for asked in (call(post, key=f"k{n}"), call(look, key="status"))
    ]
    desk = Desk(faults={"post afterwards": [LOST] * 3}, answers={"look": ["the same"] * 3})
    on = Stage(agent(), script=talks(*said, steps=0), deps=desk)
    await on.create(limits=RICH)
    state = await on.play()
    assert state.status is Status.SUCCEEDED
    events = await on.events()
    assert sum(isinstance(event, e.Reconciled) for event in events) == 3
    assert not [event for event in events if isinstance(event, e.ProgressFlagged)]


# ------------------------------------------------------------------ the worst that the shares allow
async def laden(
    model: type[Counting], token_bytes: int, *, goal: int, notes: int, items: int
) -> tuple[int, int, int]:
    """A run with so much to carry: tokens of its largest request, its summaries, its steps."""
    todo: list[JsonValue] = [{"text": "t" * 100}] * items
    kept = turn(call(keep_notes, text="n" * notes), call(keep_todo, items=todo))
    looks = [turn(call(look, key=f"a{n}"), call(look, key=f"b{n}")) for n in range(39)]
    script = talks(kept, *looks, steps=0)
    on = telling(script, Desk(answers={"look": [*lorem(100)]}))
    on.model = model(script, token_bytes)
    await on.create(limits=RICH, goal="g" * goal)
    state = await on.play()
    assert state.status is Status.SUCCEEDED
    assert not [line for line in state.tool_history if line.outcome != "ok"]
    assert all(result["kept"] for result in results_of(on.model.requests[1])), "not said twice"
    counted = 1 if token_bytes == UNHEARD_OF else token_bytes
    largest = max(size_of(body, counted) for body in check(on))
    summaries = sum(request.is_summary for request in on.model.requests)
    return largest, summaries, state.step_count


@pytest.mark.parametrize("token_bytes", [COUNTED, UNHEARD_OF])
@pytest.mark.parametrize("goal", [100, 6_000])
@pytest.mark.parametrize(("notes", "items"), [(10, 1), (2_000, 30)])
async def test_no_request_is_larger_than_the_window(
    token_bytes: int, goal: int, notes: int, items: int
) -> None:
    """Nor is there more than one summary for four steps."""
    largest, summaries, steps = await laden(
        Counting, token_bytes, goal=goal, notes=notes, items=items
    )
    assert WINDOW // 2 < largest <= WINDOW
    assert 0 < summaries <= steps / 4


@pytest.mark.parametrize("token_bytes", [COUNTED, UNHEARD_OF])
@pytest.mark.parametrize(("goal", "notes", "items"), [(100, 10, 1), (6_000, 2_000, 30)])
async def test_nor_is_it_with_the_longest_summaries(
    token_bytes: int, goal: int, notes: int, items: int
) -> None:
    """Of which there are more: at most one for three steps."""
    largest, summaries, steps = await laden(Wordy, token_bytes, goal=goal, notes=notes, items=items)
    assert WINDOW // 2 < largest <= WINDOW
    assert 0 < summaries <= steps / 3


# ------------------------------------------------------------------ summaries that are none
async def test_a_summary_over_its_reservation_ends_the_run() -> None:
    """As a step does (GUARANTEES.md G4)."""
    on = summing({"usage": Usage(input_tokens=5_000_000, output_tokens=10)})
    await on.create(limits=RICH)
    state = await on.play()
    assert (state.status, state.reason) == (Status.BUDGET_EXHAUSTED, Reason.MAX_TOKENS)
    events = await on.events()
    [place] = [n for n, event in enumerate(events) if isinstance(event, e.Consulted)]
    assert sum(isinstance(event, e.Decided) for event in events[place:]) <= 1, "the last words"
    assert state.spent.tokens > 5_000_000, "it is charged in full"


@pytest.mark.parametrize("stop_reason", ["end_turn", "max_tokens"])
async def test_who_only_thought_leaves_the_earlier_summary_as_it_is(stop_reason: str) -> None:
    only_thought = {"content": (THOUGHT,), "stop_reason": stop_reason}
    first = {"content": ({"type": "text", "text": "the first summary"},)}
    on = summing(first, *[only_thought] * 9, steps=24)
    await on.create(limits=RICH)
    assert (await on.play()).status is Status.SUCCEEDED
    summaries = [event.text for event in await on.events() if isinstance(event, e.Consulted)]
    assert summaries[:2] == ["the first summary", ""]
    assert "the first summary" in heading(on)
    check(on)


async def test_a_run_goes_on_without_any_summary() -> None:
    on = summing(*[{"content": (THOUGHT,), "stop_reason": "max_tokens"}] * 9)
    await on.create(limits=RICH)
    assert (await on.play()).status is Status.SUCCEEDED
    assert NO_SUMMARY in heading(on)
    check(on)


async def test_a_summary_that_was_cut_off_says_so() -> None:
    words = {"type": "text", "text": "first this, then"}
    on = summing(*[{"content": (THOUGHT, words), "stop_reason": "max_tokens"}] * 9)
    await on.create(limits=RICH)
    assert (await on.play()).status is Status.SUCCEEDED
    assert "first this, then (cut off)" in heading(on)
    check(on)


# ------------------------------------------------------------------ a provider that is away
@pytest.mark.parametrize(
    ("reason", "times", "retry_after_s"),
    [("overloaded", ATTEMPTS - 1, None), ("rate_limited", 2, 0.1)],
)
async def test_a_summary_is_asked_for_again_after_a_failure(
    reason: FailureReason, times: int, retry_after_s: float | None
) -> None:
    """Each attempt is charged to the run and is no step of it."""
    on = summing(*[ModelError(reason, "no", retry_after_s=retry_after_s)] * times)
    await on.create(limits=RICH)
    state = await on.play()
    assert (state.status, state.step_count) == (Status.SUCCEEDED, 13)
    events = await on.events()
    charged = [event.charged.tokens for event in events if isinstance(event, e.AttemptFailed)]
    assert len(charged) == times
    assert state.spent.tokens == state.usage.tokens + sum(charged)
    check(on)


async def test_a_summary_that_nobody_writes_ends_the_run() -> None:
    on = summing(*[ModelError("overloaded", "no")] * 9)
    await on.create(limits=RICH)
    state = await on.play()
    assert (state.status, state.reason) == (Status.FAILED, Reason.MODEL_UNAVAILABLE)
    assert sum(request.is_summary for request in on.model.requests) == ATTEMPTS


# ------------------------------------------------------------------ budgets
async def test_no_budget_is_passed_whatever_a_summary_costs() -> None:
    ends: set[tuple[Status, bool]] = set()
    for most in range(60_000, 200_001, 10_000):
        on = telling(talks())
        on.model = Counting(talks(steps=14), token_bytes=1)
        await on.create(limits=replace(RICH, max_tokens=most))
        state = await on.play()
        assert state.spent.tokens <= most
        ends.add((state.status, any(request.is_summary for request in on.model.requests)))
    assert ends == {
        (Status.BUDGET_EXHAUSTED, False),
        (Status.BUDGET_EXHAUSTED, True),
        (Status.SUCCEEDED, True),
    }


async def test_no_summary_is_bought_for_a_step_that_there_is_none_of() -> None:
    free = telling(talks())
    await free.create(limits=RICH)
    await free.play()
    asked = [request.is_summary for request in free.model.requests]
    steps = asked.index(True)  # before the first summary
    on = telling(talks())
    await on.create(limits=replace(RICH, max_steps=steps))
    state = await on.play()
    assert (state.status, state.reason) == (Status.BUDGET_EXHAUSTED, Reason.MAX_STEPS)
    assert (state.step_count, state.output) == (steps, "too late")
    assert not any(request.is_summary for request in on.model.requests)
