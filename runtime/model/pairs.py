"""The check before every request: each call has its one result, in order, in the next message."""

from collections.abc import Sequence

from messages.errors import ModelError
from runtime.model.sendable import Sent


def check_pairs(messages: Sequence[Sent]) -> None:
    """Refuse a conversation that no provider takes, before anything is spent on it.

    Raises:
        ModelError: a call without its result, a result without its call, or another order.
    """
    asked: list[str] = []
    for message in messages:
        given = _ids(message, "tool_result", "tool_use_id")
        if given != asked:
            problem = f"results {given} for calls {asked}"
            raise ModelError("bad_request", f"the request was not sent: {problem}", is_free=True)
        asked = _ids(message, "tool_use", "id")
    if asked:
        problem = f"no results for calls {asked}"
        raise ModelError("bad_request", f"the request was not sent: {problem}", is_free=True)


def _ids(message: Sent, kind: str, key: str) -> list[str]:
    return [block[key] for block in message["content"] if block.get("type") == kind]
