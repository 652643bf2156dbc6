"""Calling one read by hand, as a run like any other (docs/decisions/0018).

``treadle tools call`` may not go round the authoriser, and the authoriser knows runs only. So a
call is a run of an agent of our own whose "model" says what the person typed: it is validated,
authorised with the person's own scopes, executed under a grant and recorded, step by step, by the
very roles that serve every other run. The agent has the app's reads and no write.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from messages.agent import AgentSpec
from messages.parts import Block, JsonValue, Price, Usage
from runtime.agent import Agent, App
from runtime.declared import Budget
from runtime.model.port import Model, ModelAnswer, ModelRequest

AGENT: Final = "tools-call"
MODEL: Final = "by-hand"
_PRICE: Final = Price(date="2026-11-29")
"""A person's word costs nothing here."""
_BUDGET: Final = Budget(max_steps=2, max_tokens=10_000_000, max_seconds=300.0)
"""The call and the end; tokens bound the size of a result, and none are charged."""


class ByHand:
    """Says in its first turn what a person typed, and ends in its second (``Model``)."""

    async def attempt(self, request: ModelRequest) -> ModelAnswer:
        """The turn that is due, read off the conversation."""
        block = _ending(request) if request.turn or request.is_final else _asked(request.inputs)
        return ModelAnswer(
            content=(block,),
            stop_reason="tool_use" if block["type"] == "tool_use" else "end_turn",
            usage=Usage(),
            model=MODEL,
            request_id=f"{MODEL}-{request.turn + 1}",
        )


class Wider(NamedTuple):
    """An app with the agent of this module, its data and its model."""

    app: App
    agents: Mapping[str, AgentSpec]
    models: Mapping[str, Model]


def with_calls(app: App, agents: Mapping[str, AgentSpec], models: Mapping[str, Model]) -> Wider:
    """The same, and the agent that calls reads by hand. Reads the source of hooks.

    Unchanged where there is nothing to call, or the app has an agent of that name.

    Args:
        app: What the user declared.
        agents: As they run here.
        models: By name.
    """
    reads = [tool for tool in app.tools.values() if tool.spec().kind == "read"]
    if not reads or AGENT in app.agents:
        return Wider(app, agents, models)
    agent = Agent(
        AGENT,
        model=MODEL,
        instructions="Calls one read as a person asked; there is no model behind it.",
        tools=reads,
        budget=_BUDGET,
    )
    spec = replace(agent.spec(), price=_PRICE)
    return Wider(app.plus(agent), {**agents, AGENT: spec}, {**models, MODEL: ByHand()})


def calls_spec(agents: Mapping[str, AgentSpec]) -> AgentSpec | None:
    """The agent of this module among others; None where it is not, or is somebody else's."""
    spec = agents.get(AGENT)
    return spec if spec is not None and spec.model == MODEL else None


def inputs_of(tool: str, arguments: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The inputs of a run that calls this tool."""
    return {"tool": tool, "arguments": arguments}


def _asked(inputs: dict[str, JsonValue]) -> Block:
    return {
        "type": "tool_use",
        "id": "toolu_by_hand",
        "name": str(inputs.get("tool", "")),
        "input": inputs.get("arguments", {}),
    }


def _ending(request: ModelRequest) -> Block:
    """A finish after a result, a refusal to go on after anything else."""
    last: JsonValue = request.messages[-1]["content"] if request.messages else ()
    results = [block for block in last if block.get("type") == "tool_result"]
    if request.is_final or (results and not any(block.get("is_error") for block in results)):
        return {"type": "text", "text": "Called as asked."}
    why = {"why": "the call gave no result"}
    return {"type": "tool_use", "id": "toolu_by_hand_end", "name": "give_up", "input": why}
