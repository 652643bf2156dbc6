"""The proof before every request: what it finds, and that what was proved need not be again."""

from typing import Any

import pytest

from messages.errors import ModelError
from runtime.model.pairs import refuse_unpaired, unpaired


def user(*ids: str, text: str = "") -> dict[str, Any]:
    results = [{"type": "tool_result", "tool_use_id": each, "content": "x"} for each in ids]
    words = [{"type": "text", "text": text}] if text else []
    return {"role": "user", "content": results + words}


def model(*ids: str) -> dict[str, Any]:
    calls = [{"type": "tool_use", "id": each, "name": "t"} for each in ids]
    return {"role": "assistant", "content": [{"type": "text", "text": "so"}, *calls]}


SOUND = (user(text="go"), model("a", "b"), user("a", "b", text="and"), model(), user(text="on"))


def test_a_sound_conversation_is_let_through() -> None:
    assert unpaired(SOUND) == ""
    assert unpaired(SOUND[1:]) == ""
    refuse_unpaired("", SOUND)


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ((user("a"),), "results ['a'] for calls []"),
        ((SOUND[0], model("a")), "no results for calls ['a']"),
        ((SOUND[0], model("a"), user(text="on")), "results [] for calls ['a']"),
        ((SOUND[0], model("a", "b"), user("b", "a")), "results ['b', 'a'] for calls ['a', 'b']"),
        ((SOUND[0], model("a"), user("a", "a")), "results ['a', 'a'] for calls ['a']"),
        ((SOUND[0], model("a"), user("a"), model(), user("a")), "results ['a'] for calls []"),
    ],
)
def test_what_no_provider_takes_is_found(messages: tuple[Any, ...], problem: str) -> None:
    assert unpaired(messages) == problem
    with pytest.raises(ModelError, match="the request was not sent") as refused:
        refuse_unpaired("", messages)
    assert refused.value.is_free


def test_what_is_known_to_be_wrong_stays_so() -> None:
    with pytest.raises(ModelError, match="the old turn"):
        refuse_unpaired("the old turn", SOUND)
