"""The events of one streamed answer -> the answer. Pure: no SDK, no I/O.

Read off the text of the events, not off the SDK's objects: those turn an unknown block into a text
block without text, replace a tool's half-sent arguments by whatever parses of them, and take an
answer that stops early for a whole one. Here a block stays the object that came, with its deltas
joined; blocks of a kind nobody knows yet are kept, such deltas and events passed over.

Source: research/sdk-facts.md 1.4 and 1.5.
"""

from typing import Final, cast

import msgspec

from messages.errors import ModelError
from messages.parts import UNREADABLE, Arguments, Block, JsonValue, Usage
from runtime.model.arguments import Unreadable, read_arguments
from runtime.model.failures import failure_of
from runtime.model.port import ModelAnswer
from runtime.model.usage import counted
from runtime.tools.clean import Cleaned, clean

_STREAM_STATUS: Final = 200
_GROWING: Final = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("partial_json", "input"),
}
"""Deltas whose texts are joined: where the text is in the delta, where it goes in the block."""


class _Begun(msgspec.Struct):
    model: str = ""
    usage: dict[str, JsonValue] | None = None


class _Event(msgspec.Struct):
    """The parts of any event that are looked at."""

    type: str
    index: int = -1
    message: _Begun | None = None
    content_block: Block | None = None
    delta: dict[str, JsonValue] = {}
    usage: dict[str, JsonValue] | None = None
    error: JsonValue = None
    request_id: str | None = None


_DECODER = msgspec.json.Decoder(_Event)


class Reading:
    """One answer while it comes in.

    Attributes:
        is_complete: ``message_stop`` was seen. Anything less is no answer.
    """

    def __init__(self) -> None:
        self.is_complete = False
        self._model = ""
        self._stop_reason = ""
        self._usage: dict[str, JsonValue] = {}
        self._is_output_counted = False
        self._blocks: dict[int, Block] = {}
        self._texts: dict[tuple[int, str], list[str]] = {}

    def take(self, data: str) -> None:
        """One event, as the text of its ``data`` lines.

        Raises:
            ModelError: the provider reports a failure in the middle of its answer.
            ValueError: it is no event of this protocol.
        """
        if not data:
            return
        try:
            event = _DECODER.decode(data)
            self._note(event)
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"an event without what it needs: {type(error).__name__}") from error

    def answer(self, asked: str, request_id: str) -> ModelAnswer:
        """What was said, once all of it is here.

        Args:
            asked: the model that was asked, in case the answer does not name one.
            request_id: of the HTTP answer.

        Raises:
            ModelError: it ended early.
            ValueError: a block cannot be kept as JSON.
        """
        if not self.is_complete or not self._stop_reason:
            raise ModelError("incomplete", "the stream ended before the answer did")
        return ModelAnswer(
            content=tuple(self._block(index) for index in sorted(self._blocks)),
            stop_reason=self._stop_reason,
            usage=self._counted(),
            model=self._model or asked,
            request_id=request_id,
        )

    # ------------------------------------------------------------------ events
    def _note(self, event: _Event) -> None:
        match event.type:
            case "message_start" if event.message is not None:
                self._model = event.message.model
                self._count(event.message.usage)
            case "content_block_start" if event.content_block is not None:
                self._blocks[event.index] = event.content_block
            case "content_block_delta":
                self._grow(event.index, event.delta)
            case "message_delta":
                self._stop_reason = str(event.delta.get("stop_reason") or self._stop_reason)
                self._is_output_counted |= "output_tokens" in (event.usage or {})
                self._count(event.usage)
            case "message_stop":
                self.is_complete = True
            case "error":
                body = {"error": event.error, "request_id": event.request_id}
                raise failure_of(_STREAM_STATUS, body, {})
            case _:
                pass  # ping, the end of a block, and what a later version may add

    def _count(self, usage: dict[str, JsonValue] | None) -> None:
        """Counts are totals: a later one replaces an earlier one, an absent one does not."""
        self._usage |= {name: count for name, count in (usage or {}).items() if count is not None}

    def _grow(self, index: int, delta: dict[str, JsonValue]) -> None:
        block = self._blocks[index]
        match delta.get("type"):
            case "text_delta" | "thinking_delta" | "input_json_delta" as kind:
                source, target = _GROWING[kind]
                self._texts.setdefault((index, target), []).append(delta[source])
            case "signature_delta":
                block["signature"] = delta["signature"]
            case "citations_delta":
                block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
            case _:
                pass

    # ------------------------------------------------------------------ the whole
    def _block(self, index: int) -> Block:
        block = self._blocks[index]
        for target in ("text", "thinking"):
            if texts := self._texts.get((index, target)):
                block[target] = "".join([block.get(target) or "", *texts])
        if written := "".join(self._texts.get((index, "input"), ())):
            block |= _input(read_arguments(written))
        cleaned = clean(block)
        if not isinstance(cleaned, Cleaned):
            raise ValueError(f"a content block: {cleaned.message}")  # noqa: TRY004 - no type of ours
        return cast("Block", cleaned.value)

    def _counted(self) -> Usage | None:
        """What was used in all; None where a count is missing: what is guessed is not paid for."""
        if not self._is_output_counted:
            return None
        return counted(self._usage)


def _input(read: Arguments | Unreadable) -> Block:
    """Arguments in their block; a text that is none is kept as text, with the reason."""
    if isinstance(read, Unreadable):
        return {"input": read.text, UNREADABLE: read.why}
    return {"input": read}
