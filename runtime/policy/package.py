"""What an approver is shown. Pure.

Everything comes from the action that was hashed, from declared code and from policy.toml; no word
of the model's own prose is in it, since the model may have read something that wants to be
approved. Characters that a screen would hide or reorder are written as escapes.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from messages.authority import Verdict
from messages.base import Timestamp
from messages.canon import canonical, shown
from messages.parts import Action, EffectClass, JsonValue
from runtime.tools.context import Policy
from runtime.tools.tool import Tool

Package = dict[str, JsonValue]

_IF_REPLY_LOST: dict[EffectClass, str] = {
    "read": "nothing is changed by it",
    "replay": "it is sent again with the same key, which the receiving system does not repeat",
    "lookup": "the receiving system is asked by key whether it happened, before anything else",
    "blind": "nobody can find out whether it happened: the run ends and a person has to check",
}


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Whose action it is, and until when it may be approved."""

    tenant: str
    run_id: str
    agent: str
    principal: str
    goal: str
    """The submitter's words; shown as such."""
    expires_at: Timestamp


def approval_package(
    origin: Origin,
    tool: Tool[..., Any],
    action: Action,
    verdict: Verdict,
    policy: Policy,
    limits: Iterable[str],
) -> Package:
    """The package, as JSON that is kept by content hash.

    Args:
        origin: Whose action it is.
        tool: Its tool.
        action: Exactly what will run.
        verdict: Why it is asked.
        policy: The limits in force.
        limits: Names of those that the rule read.
    """
    effect = tool.spec().effect
    return {
        "v": 1,
        "requested": {
            "tenant": origin.tenant,
            "by": origin.principal,
            "agent": origin.agent,
            "run_id": origin.run_id,
            "goal": visible(origin.goal),
        },
        "action": {
            "tool": tool.name,
            "does": tool.description,
            "target": tool.options.source or tool.name,
            "arguments": action.arguments,
            "shown": rendered_arguments(action),
            "key": action.key,
            "effect": effect,
            "hash": action.action_hash,
            "hash_shown": shown(action.action_hash),
        },
        "decision": {
            "rule": verdict.rule,
            "why": visible(verdict.why),
            "group": verdict.group,
            "size": verdict.size,
            "limits": [_limit(policy, name) for name in limits],
            "policy": policy.version,
        },
        "expires_at": origin.expires_at,
        "next": {
            "approve": "this exact action runs once, after its preconditions are checked again",
            "deny": "it does not run, and the agent is told the reason you give",
            "nobody decides": "it does not run, and the agent is told so",
            "reply lost": _IF_REPLY_LOST[effect],
        },
    }


def rendered_arguments(action: Action) -> list[str]:
    """One line per argument, ``name = value``, read back from the bytes that were hashed."""
    arguments = msgspec.json.decode(canonical(action.arguments))
    return [f"{name} = {visible(_text(value))}" for name, value in arguments.items()]


def visible(text: str) -> str:
    """``text`` with every character escaped that a screen would hide, reorder or break at."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def _text(value: JsonValue) -> str:
    return canonical(value).decode()


def _limit(policy: Policy, name: str) -> Package:
    limit = policy.limits.get(name)
    if limit is None:
        return {"name": name, "value": None, "source": "not set"}
    return {"name": name, "value": limit.value, "source": limit.source}
