"""A run as the model has seen it: messages as they are sent, and what they were rendered from."""

import msgspec
from msgspec.structs import replace

from messages.base import Part
from messages.canon import canonical
from messages.parts import JsonValue
from messages.state import LoopState
from runtime.model.sendable import Sent

MARGIN = 1.25
"""What is sent next may be denser than what was counted."""
_ROLE_BYTES = 32
_BLOCK_BYTES = 64
"""What a provider's own framing of a message and of a block may add, in tokens at most."""


class Conversation(Part, kw_only=True):
    """A run as the model has seen it, and the state it was rendered from."""

    state: LoopState
    messages: tuple[Sent, ...]
    size: int
    """Bytes of ``messages``."""
    most_tokens: int
    """That ``messages`` can have: what the provider counted of their beginning, where it did, and a
    token for each byte since."""
    density: float = 1.0
    """Tokens for each byte, as the provider last counted; a guess, so nothing is paid by it."""
    is_counted: bool = False
    """The provider has counted a beginning of these very messages."""
    turns: int = 0
    """Decisions so far."""
    answers: tuple[Sent, ...] = ()
    """What people said during the open turn; the provider wants its results first."""
    ids: frozenset[str] = frozenset()
    """Of every call so far, as they were sent back."""
    open_ids: tuple[str, ...] = ()
    """Of the calls of the open turn, in order."""
    model: str = ""
    """Who was asked last, by the name that the agent has for it."""
    agent_code: str = ""
    """Of the agent for which it was last sent."""
    first_version: int = 0
    """Of the journal, at which this conversation began."""
    heading: tuple[Sent, ...] = ()
    """Its first blocks: the task, and what stands for what is no longer sent."""
    said: tuple[Sent, ...] = ()
    """Everything that people said; none of it is lost with a turn."""
    memory: dict[str, JsonValue] = msgspec.field(default_factory=dict)
    """The newest notes and to-do list, by the tool that keeps them."""
    summary: str = ""
    """Of the turns that are no longer sent."""
    record: str = ""
    """What was done up to that summary."""
    unpaired: str = ""
    """What is wrong with the pairs of calls and results before the newest turn."""
    left_out: int = 0
    """Turns whose results, or which as a whole, are no longer sent."""

    @property
    def likely_tokens(self) -> float:
        """Of ``messages``; with a margin where nobody has counted them."""
        if self.is_counted:
            return self.most_tokens
        return min(self.most_tokens, self.size * self.density * MARGIN)

    @property
    def rounds(self) -> tuple[int, ...]:
        """Where each turn that is still sent begins among the messages."""
        return tuple(n for n, each in enumerate(self.messages) if each["role"] == "assistant")


def said(conversation: Conversation, role: str, blocks: list[Sent]) -> Conversation:
    """Append blocks; the provider wants roles to alternate, so a second user turn is joined."""
    messages = conversation.messages
    if not blocks:
        return conversation
    more = _ROLE_BYTES + sum(_size(block) for block in blocks)
    if messages and messages[-1]["role"] == role:
        *messages, last = messages
        blocks = [*last["content"], *blocks]
    return replace(
        conversation,
        messages=(*messages, {"role": role, "content": blocks}),
        size=conversation.size + more,
        most_tokens=conversation.most_tokens + more,
    )


def size_of(messages: tuple[Sent, ...]) -> int:
    """Bytes of messages, an upper bound of their tokens."""
    return sum(_ROLE_BYTES + sum(_size(block) for block in each["content"]) for each in messages)


def _size(block: Sent) -> int:
    """Bytes of what a block says: the tokeniser sees text, not the escapes of its JSON."""
    text = block.get("text") or block.get("content")
    if isinstance(text, str):
        return len(text.encode()) + len(str(block.get("tool_use_id", ""))) + _BLOCK_BYTES
    return len(canonical(block)) + _BLOCK_BYTES
