"""``Draft``: what an agent's ``done`` may look at, the recorded results and the proposed output.

Completion is judged on what was recorded, not on the model's words; so a draft offers nothing but
the evidence of calls that ended ok, decoded to the types the tools return.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from msgspec.structs import replace

from messages.parts import Evidence, JsonValue
from messages.state import LoopState
from runtime.loop.strategies.loop import MEMORY
from runtime.tools.tool import Tool

OutputT_co = TypeVar("OutputT_co", covariant=True)
R = TypeVar("R")

Fetch = Callable[[str], JsonValue]
"""From the hash of an artifact to its decoded JSON."""


@dataclass(frozen=True)
class Draft(Generic[OutputT_co]):
    """Recorded evidence and the output that the agent proposes.

    Attributes:
        output: Of the finish proposal, decoded to the agent's ``output=``; None for an agent
            without one.
        evidence: Of every call that ended ok, oldest first.
    """

    output: OutputT_co
    evidence: tuple[Evidence, ...] = ()

    @overload
    def results(self, tool: Tool[..., R], /) -> list[R]: ...
    @overload
    def results(self, tool: str, /) -> list[JsonValue]: ...
    def results(self, tool: Tool[..., Any] | str, /) -> list[Any]:
        """What the calls of a tool returned, oldest first.

        Args:
            tool: The tool, which decodes the results to its return type; or its name.

        Raises:
            ValueError: A recorded result does not fit the tool's return type.
        """
        name = tool if isinstance(tool, str) else tool.name
        payloads = [each.payload for each in self.evidence if each.tool == name]
        if isinstance(tool, str):
            return payloads
        return [tool.decode_result(payload) for payload in payloads]

    @overload
    def latest(self, tool: Tool[..., R], /) -> R | None: ...
    @overload
    def latest(self, tool: str, /) -> JsonValue: ...
    def latest(self, tool: Tool[..., Any] | str, /) -> Any:
        """What the last call of a tool returned; None if there is none. Raises as ``results``."""
        results = self.results(tool)
        return results[-1] if results else None

    def executed(self, tool: Tool[..., Any] | str, /) -> bool:
        """Whether a call of the tool ended ok."""
        name = tool if isinstance(tool, str) else tool.name
        return any(each.tool == name for each in self.evidence)


def draft_of(state: LoopState, output: OutputT_co, fetch: Fetch | None = None) -> Draft[OutputT_co]:
    """The draft of a folded run.

    Args:
        state: The run.
        output: The proposed output, decoded.
        fetch: Reads a payload that was too large for the journal.

    Raises:
        LookupError: A payload is in the artifacts and there is no ``fetch``.
    """
    ok = {
        line.evidence_id
        for line in state.tool_history
        if line.outcome == "ok" and line.tool not in MEMORY
    }
    return Draft(output, tuple(_whole(each, fetch) for each in state.evidence if each.id in ok))


def _whole(evidence: Evidence, fetch: Fetch | None) -> Evidence:
    if evidence.ref is None:
        return evidence
    if fetch is None:
        message = f"evidence {evidence.id} is in the artifacts and nothing here can read them"
        raise LookupError(message)
    return replace(evidence, payload=fetch(evidence.ref), ref=None)
