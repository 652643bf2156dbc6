"""The proof before every request: each call has its one result, in order, in the next message.

A conversation only grows, so it is proved pair by pair as it does: what was proved stays so, and a
request costs the same early and late in a run.
"""

from collections.abc import Sequence

from messages.errors import ModelError
from runtime.model.sendable import Sent


def unpaired(messages: Sequence[Sent]) -> str:
    """The first thing that is wrong with the pairs in messages; empty: nothing.

    Args:
        messages: a whole conversation, or the end of one from a turn of the model on.
    """
    asked: list[str] = []
    for message in messages:
        given = _ids(message, "tool_result", "tool_use_id")
        if given != asked:
            return f"results {given} for calls {asked}"
        asked = _ids(message, "tool_use", "id")
    return f"no results for calls {asked}" if asked else ""


def refuse_unpaired(known: str, messages: Sequence[Sent]) -> None:
    """Refuse a request that no provider takes, before anything is spent on it.

    Args:
        known: what is known to be wrong with all but the newest turn.
        messages: of the request.

    Raises:
        ModelError: something is wrong.
    """
    if problem := known or unpaired(newest(messages)):
        raise ModelError("bad_request", f"the request was not sent: {problem}", is_free=True)


def newest(messages: Sequence[Sent]) -> Sequence[Sent]:
    """The end of a conversation from its newest turn of the model on; all before was proved."""
    is_paused = bool(messages) and messages[-1]["role"] == "assistant"
    return messages[-1:] if is_paused else messages[-2:]


def _ids(message: Sent, kind: str, key: str) -> list[str]:
    return [block[key] for block in message["content"] if block.get("type") == kind]
