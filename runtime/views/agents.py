"""What is registered: agents and their tools, from the specs alone."""

from collections.abc import Iterable

from messages.agent import AgentSpec, ToolSpec
from messages.canon import shown
from runtime.views.values import View, limits_view


def agent_row(spec: AgentSpec) -> View:
    """One agent; its instructions stay inside."""
    return {
        "name": spec.name,
        "code": shown(spec.code),
        "model": spec.model,
        "models": {role: use.model for role, use in spec.roles.items()},
        "is_priced": all(use.price is not None for use in spec.uses),
        "strategy": spec.strategy,
        "tools": [tool.name for tool in spec.tools],
        "limits": limits_view(spec.limits),
        "window_tokens": spec.context.window_tokens,
        "has_output": spec.output_schema is not None,
        "has_done": spec.has_done,
        "approval_ttl_seconds": spec.approval_ttl_s,
    }


def tool_rows(specs: Iterable[AgentSpec]) -> list[View]:
    """Every tool once, by name, with the agents that have it."""
    tools: dict[str, ToolSpec] = {}
    agents: dict[str, list[str]] = {}
    for spec in specs:
        for tool in spec.tools:
            tools.setdefault(tool.name, tool)
            agents.setdefault(tool.name, []).append(spec.name)
    return [_tool_row(tool, agents[name]) for name, tool in sorted(tools.items())]


def _tool_row(tool: ToolSpec, agents: list[str]) -> View:
    return {
        "name": tool.name,
        "kind": tool.kind,
        "description": tool.description,
        "parameters": tool.parameters,
        "scope": tool.scope,
        "source": tool.source,
        "key": "each_call" if tool.is_each_call else tool.key,
        "effect": tool.effect,
        "has_rule": tool.has_rule,
        "has_precondition": tool.has_precondition,
        "timeout_seconds": tool.timeout_s,
        "agents": agents,
    }
