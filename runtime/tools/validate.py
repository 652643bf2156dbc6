"""Is one call well-formed? From a proposed call to the canonical action, or what is wrong with it.

Pure over the call and the app's declarations.
"""

import difflib
from typing import Any

from messages.canon import action_hash
from messages.parts import Action, Call, Problem
from runtime.agent import Agent
from runtime.loop.keys import key_of
from runtime.loop.strategies.loop import unreadable
from runtime.tools.tool import RESERVED, Tool


def action_of(agent: Agent[Any], call: Call, *, origin: str, step: int) -> Action | Problem:
    """The canonical action of a call.

    Args:
        agent: whose tools count.
        call: as proposed.
        origin: run of origin, for ``each_call`` keys.
        step: that proposed it.

    Returns:
        What is hashed, shown, granted and run: arguments decoded strictly and encoded again, with
        the key of a write; or the first problem, with a hint that helps the model.
    """
    if call.tool in RESERVED:
        return Problem(
            code="CONTROL_NOT_ALONE",
            message=f"{call.tool} was called together with other tools and was not done",
            hint=f"call {call.tool} alone, after you have seen the other results",
        )
    tool = _tool(agent, call.tool)
    if isinstance(tool, Problem):
        return tool
    if call.unreadable:
        return unreadable(call.tool, call.unreadable)
    decoded = tool.decode(call.arguments)
    if isinstance(decoded, Problem):
        return decoded
    arguments = decoded.canonical
    key = key_of(tool.spec(), arguments, origin=origin, step=step, ordinal=call.ordinal)
    if isinstance(key, Problem):
        return key
    return Action(
        ordinal=call.ordinal,
        tool=tool.name,
        arguments=arguments,
        key=key,
        action_hash=action_hash(tool.name, arguments, key),
        is_polling=tool.spec().is_polling,
    )


def _tool(agent: Agent[Any], name: str) -> Tool[..., Any] | Problem:
    tools = {tool.name: tool for tool in agent.tools}
    if name in tools:
        return tools[name]
    near = difflib.get_close_matches(name, tools, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return Problem(
        code="UNKNOWN_TOOL",
        message=f"no such tool: {name[:80]!r}",
        hint=f"{meant}the tools are: {', '.join(tools) or 'none'}",
    )
