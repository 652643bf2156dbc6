"""Claude through the real SDK: one request, one streamed answer, no retries.

The only import of anthropic and of its transport, httpx2. It costs seconds and 76 MB, so this
module is imported when the first real model is built and not before.

What is left to the SDK: headers, credentials, the connection, the framing of the stream. What is
not: retries (the planner owns them), tracing (it would send our trace to the provider), and the
meaning of the stream's events (``runtime.model.stream``).
"""

from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import httpx2
from anthropic import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    AsyncAnthropic,
    AsyncStream,
    Timeout,
)

from messages.errors import ModelError
from messages.parts import JsonValue
from runtime.clock import MachineClock
from runtime.model.failures import failure_of
from runtime.model.port import ModelAnswer, ModelRequest
from runtime.model.stream import Reading
from runtime.secrets import remember

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_CONNECT_S: Final = 10.0
_END_S: Final = 0.5
"""How long the end of a stream is waited for, so that its connection can be used again."""
_CACHED: Final = {"type": "ephemeral"}
"""The provider marks the last block of each request; a conversation only grows, so the next one
reads it back. The default time to live is five minutes, and that is the price the list knows."""


class AnthropicModel:
    """One model of one provider account."""

    def __init__(
        self,
        model: str,
        *,
        api_key: str,
        base_url: str = "",
        timeout_s: float = 300.0,
        idle_s: float = 60.0,
        max_concurrent: int = 8,
    ) -> None:
        """Prepare to ask; nothing is sent yet.

        Args:
            model: The provider's name of it.
            api_key: Sent as it is; kept out of every error.
            base_url: Of the API or of a gateway; empty: ``ANTHROPIC_BASE_URL``, else the SDK's own.
            timeout_s: From sending to the last event, all in all.
            idle_s: Between two events, and before the first.
            max_concurrent: Calls at a time; a further one waits, before its time begins.
        """
        self._model = model
        remember(api_key)
        self._timeout_s = timeout_s
        self._idle_s = idle_s
        self._places = anyio.Semaphore(max_concurrent)
        self._client = AsyncAnthropic(
            api_key=api_key,
            base_url=base_url or None,
            max_retries=0,
            timeout=Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s)),
            open_telemetry=False,
        )

    async def attempt(self, request: ModelRequest) -> ModelAnswer:
        """See ``Model``."""
        async with self._places:
            with anyio.move_on_after(self._timeout_s), anyio.CancelScope() as awake:
                try:
                    return await self._ask(request, awake)
                except ModelError:
                    raise
                except Exception as error:
                    raise self._wrapped(error) from error
        if awake.cancelled_caught:
            raise ModelError("timeout", f"nothing came from the provider for {self._idle_s:g} s")
        raise ModelError("timeout", f"no whole answer within {self._timeout_s:g} s")

    async def close(self) -> None:
        """Let the connections go."""
        await self._client.close()

    async def _ask(self, request: ModelRequest, awake: anyio.CancelScope) -> ModelAnswer:
        """``awake`` is what a silence ends."""
        awake.deadline = anyio.current_time() + self._idle_s
        parameters = _parameters(request)
        stream: AsyncStream[Any] = await self._client.messages.create(
            model=self._model,
            messages=cast("Any", request.messages),
            max_tokens=request.max_output_tokens,
            stream=True,
            **parameters,
        )
        request_id = str(stream.response.headers.get("request-id", ""))
        async with stream:
            try:
                reading = await self._read(stream, awake)
                answer = reading.answer(self._model, request_id)
            except ModelError as error:
                error.request_id = error.request_id or request_id
                raise
            except Exception as error:
                raise self._wrapped(error, request_id) from error
        shown = {name: parameters[name] for name in parameters if name not in {"system", "tools"}}
        return ModelAnswer(
            content=answer.content,
            stop_reason=answer.stop_reason,
            usage=answer.usage,
            model=answer.model,
            request_id=answer.request_id,
            parameters=shown,
        )

    async def _read(self, stream: AsyncStream[Any], awake: anyio.CancelScope) -> Reading:
        """Every event up to ``message_stop``."""
        reading = Reading()
        raw = AsyncStream.raw_events(stream.response)
        async with aclosing(cast("AsyncGenerator[Any]", raw)) as events:
            async for event in events:
                awake.deadline = anyio.current_time() + self._idle_s
                reading.take(event.data)
                if reading.is_complete:
                    break
            else:
                return reading
            with suppress(Exception), anyio.move_on_after(_END_S):
                async for (
                    _
                ) in events:  # the answer is here; what the connection does now is its own
                    pass
        return reading

    def _wrapped(self, error: Exception, request_id: str = "") -> ModelError:
        """Any failure as the one error that the planner knows."""
        match error:
            case APIStatusError():
                request_id = error.request_id or request_id
                return failure_of(
                    error.status_code,
                    error.body,
                    error.response.headers,
                    request_id=request_id,
                    now=MachineClock.now(),
                )
            case APITimeoutError() | httpx2.TimeoutException():
                return ModelError("timeout", _told("reached in time", error), request_id=request_id)
            case APIConnectionError() | httpx2.HTTPError():
                return ModelError(
                    "connection",
                    _told("reached", error),
                    request_id=request_id,
                    is_free=isinstance(error.__cause__ or error, httpx2.ConnectError),
                )
            case _:
                return ModelError("garbled", _told("understood", error), request_id=request_id)


def _told(what: str, error: Exception) -> str:
    """The kind of an error and of its cause; the words of the SDK may quote what was sent."""
    cause = error.__cause__
    kinds = [type(error).__name__, *([type(cause).__name__] if cause else [])]
    return f"the provider could not be {what}: {', '.join(kinds)}"


def _parameters(request: ModelRequest) -> dict[str, JsonValue]:
    """What is sent beside model, messages and size; an empty value is left out.

    The final turn is a conversation of its own without any tool_use, so it needs no tools either.
    Nothing will ever read it, or a summary, back from the cache.
    """
    parameters: dict[str, JsonValue] = {}
    if request.system:
        parameters["system"] = request.system
    if request.tools:
        parameters["tools"] = list(request.tools)
    if request.is_summary:
        parameters["tool_choice"] = {"type": "none"}
    if not (request.is_final or request.is_summary):
        parameters["cache_control"] = _CACHED
    return parameters
