"""How much of a result the model is shown; what is longer is cut, and how to get more is said."""

from typing import NamedTuple, cast

import msgspec

from messages.agent import AgentSpec
from messages.canon import canonical
from messages.parts import Evidence, JsonValue
from runtime.loop.budget import room_of
from runtime.loop.strategies.loop import MEMORY, READ_RESULT
from runtime.model.cut import cut_for_json

NEWEST = 0.3
"""Of the room: what the results of one turn may take together."""
_LEAST_BYTES = 200
_ENVELOPE_BYTES = 400
"""Provenance and the words about the cut."""


class Shown(NamedTuple):
    """The limit of one result.

    Attributes:
        most: Bytes of its data.
        has_reader: The model has the tool that reads results further.
    """

    most: int
    has_reader: bool

    @classmethod
    def of(cls, agent: AgentSpec, calls: int) -> "Shown":
        """The limit of each result of a turn with so many calls."""
        share = int(NEWEST * room_of(agent)) // max(calls, 1) - _ENVELOPE_BYTES
        return cls(max(share, _LEAST_BYTES), agent.tool(READ_RESULT) is not None)

    def of_evidence(self, evidence: Evidence) -> dict[str, JsonValue]:
        """The data, or its beginning and what is said of the rest."""
        if evidence.tool in MEMORY:
            return {"kept": True}  # the model has just said it
        whole = evidence.payload
        if evidence.ref is None and len(data := canonical(whole)) <= self.most:
            return {"data": msgspec.Raw(data)}
        text, characters = _beginning(evidence)
        kept = cut_for_json(text, self.most)
        more = f"artifact {evidence.ref}" if evidence.ref else "in the record of the run"
        if self.has_reader:
            more = f"{READ_RESULT}(evidence={evidence.id!r}, offset={len(kept)})"
        cut = f"the first {len(kept)} of {characters} characters are shown; more: {more}"
        return {"data": kept, "cut": cut}


def text_of(payload: JsonValue) -> str:
    """A result as text: itself, or its JSON."""
    return payload if isinstance(payload, str) else canonical(payload).decode()


def _beginning(evidence: Evidence) -> tuple[str, int]:
    """As much as the journal holds of a result, and how much there is."""
    if evidence.ref is None:
        text = text_of(evidence.payload)
        return text, len(text)
    preview = cast("dict[str, JsonValue]", evidence.payload)
    return str(preview["beginning"]), preview.get("characters", preview["bytes"])
