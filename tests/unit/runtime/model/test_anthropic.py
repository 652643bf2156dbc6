"""The real SDK against a local server: what it sends, and what becomes of each failure."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest

from messages.errors import ModelError
from runtime.model.anthropic import AnthropicModel
from runtime.model.port import ModelRequest
from tests.fakes.provider import KEY, FakeProvider, Refuse, Reply, Say, provider, text, use

pytestmark = pytest.mark.anyio

TOOL = {"name": "look", "description": "Look.", "input_schema": {"type": "object"}}
GO = {"role": "user", "content": [text("go")]}


def request(**changes: Any) -> ModelRequest:
    given: dict[str, Any] = {"system": "Do it.", "tools": (TOOL,), "messages": (GO,), **changes}
    return ModelRequest(model="asked", max_output_tokens=500, **given)


@asynccontextmanager
async def asking(
    *replies: Reply, key: str = KEY, **options: Any
) -> AsyncGenerator[tuple[AnthropicModel, FakeProvider]]:
    async with provider(*replies) as fake:
        model = await anyio.to_thread.run_sync(
            lambda: AnthropicModel("claude-x", api_key=key, base_url=fake.url, **options)
        )
        try:
            yield model, fake
        finally:
            await model.close()


async def failure(reply: Reply, *, key: str = KEY, **options: Any) -> ModelError:
    async with asking(reply, key=key, **options) as (model, fake):
        with pytest.raises(ModelError) as caught:
            await model.attempt(request())
        assert len(fake.requests) == 1, "one attempt, whatever the SDK thinks"
    assert KEY not in str(caught.value)
    return caught.value


# ------------------------------------------------------------------ what is sent
async def test_a_request_is_sent_as_it_was_rendered() -> None:
    async with asking(Say(blocks=[text("x")])) as (model, fake):
        answer = await model.attempt(request())
    assert fake.requests == [
        {
            "model": "claude-x",
            "system": "Do it.",
            "tools": [TOOL],
            "messages": [GO],
            "max_tokens": 500,
            "stream": True,
            "cache_control": {"type": "ephemeral"},
        }
    ]
    assert answer.parameters == {"cache_control": {"type": "ephemeral"}}
    assert fake.headers[0]["authorization"] == f"Bearer {KEY}"
    assert "traceparent" not in fake.headers[0]
    assert answer.request_id == "req_01"


async def test_the_final_turn_sends_no_tools_and_caches_nothing() -> None:
    async with asking(Say(blocks=[text("x")])) as (model, fake):
        await model.attempt(request(tools=(), system="", is_final=True))
    assert set(fake.requests[0]) == {"model", "messages", "max_tokens", "stream"}


async def test_a_connection_is_used_again() -> None:
    async with asking(*[Say(blocks=[text("x")])] * 3) as (model, fake):
        for _ in range(3):
            await model.attempt(request())
        assert fake.connections == 1


async def test_no_more_than_so_many_calls_run_at_a_time() -> None:
    async with asking(*[Say(stall=True)] * 3, max_concurrent=2) as (model, fake):
        with anyio.move_on_after(0.3):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(model.attempt, request())
        assert len(fake.requests) == 2


# ------------------------------------------------------------------ what fails
WORDS = [text("x")]


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Refuse(status=400, type="invalid_request_error"), "bad_request"),
        (Refuse(status=401, type="authentication_error"), "authentication"),
        (Refuse(status=403, type="permission_error"), "authentication"),
        (Refuse(status=404, type="not_found_error"), "unknown_model"),
        (Refuse(status=409, type="conflict_error"), "provider_error"),
        (Refuse(status=413, type="invalid_request_error"), "bad_request"),
        (Refuse(status=429, type="rate_limit_error"), "rate_limited"),
        (Refuse(status=500, type="api_error"), "provider_error"),
        (Refuse(status=502, body="<html>bad gateway</html>"), "provider_error"),
        (Refuse(status=504, type="timeout_error"), "timeout"),
        (Refuse(status=529, type="overloaded_error"), "overloaded"),
        (Refuse(status=200, body='{"type":"message","content":[]}'), "incomplete"),
        (Say(blocks=WORDS, error="overloaded_error"), "overloaded"),
        (Say(blocks=WORDS, error="api_error"), "provider_error"),
        (Say(blocks=WORDS, cut=-30), "incomplete"),
        (Say(blocks=WORDS, cut=300, is_rude=True), "connection"),
        (Say(blocks=WORDS, garbage='{"type": '), "garbled"),
        (Say(blocks=WORDS, garbage="[" * 5000), "garbled"),
        (Say(blocks=WORDS, garbage='{"type":"content_block_delta","index":7}'), "garbled"),
        (Say(blocks=WORDS, garbage='{"type":"content_block_delta","index":"x"}'), "garbled"),
    ],
    ids=repr,
)
async def test_every_failure_is_one_error_with_a_reason(reply: Reply, reason: str) -> None:
    error = await failure(reply)
    assert error.reason == reason
    assert error.request_id == "req_01"


async def test_a_rate_limit_says_how_long_to_wait_and_a_spend_limit_is_none() -> None:
    limited = Refuse(status=429, type="rate_limit_error", headers={"retry-after": "7"})
    assert (await failure(limited)).retry_after_s == 7.0
    spent = Refuse(status=429, type="rate_limit_error", code="enforced_spend_limit_reached")
    error = await failure(spent)
    assert (error.reason, error.retry_after_s) == ("spend_limit", None)


async def test_a_wrong_key_is_named_as_such() -> None:
    error = await failure(Say(blocks=WORDS), key="sk-wrong")
    assert error.reason == "authentication"
    assert "401" in str(error)


async def test_our_key_in_the_providers_words_is_left_out() -> None:
    error = await failure(Refuse(status=400, type="invalid_request_error", message=f"no {KEY}"))
    assert "no …" in str(error)


@pytest.mark.parametrize("reply", [Say(stall=True), Say(blocks=[text("x" * 900)], trickle_s=0.05)])
async def test_one_deadline_covers_the_whole_answer(reply: Reply) -> None:
    with anyio.fail_after(5):
        error = await failure(reply, timeout_s=0.4)
    assert error.reason == "timeout"


async def test_a_provider_that_falls_silent_is_given_up_long_before_the_deadline() -> None:
    error = await failure(Say(stall=True), timeout_s=600.0, idle_s=0.2)
    assert (error.reason, error.is_free) == ("timeout", False)
    assert "0.2 s" in error.message


async def test_an_answer_may_take_longer_than_a_silence() -> None:
    slow = Say(blocks=[text("x" * 300)], trickle_s=0.05)
    async with asking(slow, idle_s=0.5) as (model, _):
        began = anyio.current_time()
        assert (await model.attempt(request())).content == (text("x" * 300),)
        assert anyio.current_time() - began > 0.5


async def test_nobody_there_is_a_connection_that_failed() -> None:
    async with asking() as (model, fake):
        pass
    gone = await anyio.to_thread.run_sync(
        lambda: AnthropicModel("claude-x", api_key=KEY, base_url=fake.url)
    )
    with pytest.raises(ModelError) as caught:
        await gone.attempt(request())
    await gone.close()
    await model.close()
    assert (caught.value.reason, caught.value.is_free) == ("connection", True)


async def test_a_cancelled_call_lets_go_at_once() -> None:
    async with asking(Say(stall=True), Say(blocks=[text("x")])) as (model, _):
        with anyio.move_on_after(0.2) as limit:
            await model.attempt(request())
        assert limit.cancelled_caught
        assert (await model.attempt(request())).content == (text("x"),)


async def test_arguments_that_are_no_json_are_kept_as_text() -> None:
    cut = {**use("look", "t1"), "input": '{"key": "a'}
    async with asking(Say(blocks=[cut], stop_reason="max_tokens")) as (model, _):
        answer = await model.attempt(request())
    [said] = answer.content
    assert "Unterminated string" in said.pop("unreadable")
    assert said == cut
