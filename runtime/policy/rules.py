"""What policy says of one action: scopes, the tool's rule, and defaults. Pure.

Deny beats ask beats allow. Nothing that a model or a tool wrote can grant anything: the rule sees
decoded arguments, who asks, and the limits of policy.toml. Whatever goes wrong here is a deny.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple, cast

from messages.authority import Verdict
from messages.base import Timestamp
from messages.canon import action_hash, canonical
from messages.errors import TreadleError
from messages.parts import Action, Identity, Problem
from runtime.loop.keys import is_key_of
from runtime.tools.clean import MAX_MESSAGE, clean_text, error_text
from runtime.tools.context import Policy, Request
from runtime.tools.ruling import Ruling, allow, ask, deny
from runtime.tools.tool import Tool

DEFAULT_GROUP = "approvers"
"""Who is asked where no rule names a group."""

BAD_ACTION = "BAD_ACTION"
SCOPE_MISSING = "SCOPE_MISSING"
POLICY_DENIED = "POLICY_DENIED"
RULE_FAILED = "RULE_FAILED"

_RANK = {"allow": 0, "ask": 1, "deny": 2}


class Judged(NamedTuple):
    """A verdict and what it rests on.

    Attributes:
        verdict: What policy says.
        limits: Names of the limits that the rule read, for the package an approver sees.
    """

    verdict: Verdict
    limits: tuple[str, ...] = ()


class Opinion(NamedTuple):
    """A ruling and the name of what made it."""

    rule: str
    ruling: Ruling
    code: str = POLICY_DENIED


def decide(
    tool: Tool[..., Any], action: Action, identity: Identity, policy: Policy, *, now: Timestamp
) -> Judged:
    """What policy says of one action.

    Args:
        tool: The action's tool.
        action: As the validator made it.
        identity: For whom the run acts, as the ledger has it.
        policy: The limits in force.
        now: The ledger's clock.

    Returns:
        The strictest of: deny for an action that the validator would not have made, or without
        the tool's scope; the tool's rule; ask for a write without one; ask for a blind write.
    """
    refusal = _unsound(tool, action) or _scope(tool, identity)
    if refusal is not None:
        return Judged(_verdict(action, refusal))
    if tool.rule_hook is None:
        return Judged(_verdict(action, _default(tool)))
    request = Request(
        policy=policy,
        tenant=identity.tenant,
        principal=identity.principal,
        scopes=identity.scopes,
        now=now,
    )
    strictest = _strictest([_default(tool), _rule(tool, tool.rule_hook, action, request)])
    return Judged(_verdict(action, strictest), tuple(request.read))


def _strictest(opinions: Iterable[Opinion]) -> Opinion:
    """The strictest opinion; of equally strict ones the last, since a rule is more specific."""
    result = Opinion("default", allow())
    for opinion in opinions:
        if _RANK[opinion.ruling.decision] >= _RANK[result.ruling.decision]:
            result = opinion
    return result


def _unsound(tool: Tool[..., Any], action: Action) -> Opinion | None:
    """Refuse what did not come from the validator: an action reaches us over the bus."""
    decoded = tool.decode(action.arguments)
    if isinstance(decoded, Problem):
        return Opinion("action", deny(f"arguments: {decoded.message}"), BAD_ACTION)
    is_sound = (
        action.tool == tool.name
        and canonical(decoded.canonical) == canonical(action.arguments)
        and is_key_of(tool.spec(), action.key, action.arguments, ordinal=action.ordinal)
        and action.action_hash == action_hash(action.tool, action.arguments, action.key)
    )
    why = "its arguments, key or hash are not what the validator makes of it"
    return None if is_sound else Opinion("action", deny(why), BAD_ACTION)


def _scope(tool: Tool[..., Any], identity: Identity) -> Opinion | None:
    scope = tool.options.scope
    if not scope or scope in identity.scopes:
        return None
    return Opinion("scope", deny(f"{tool.name} needs the scope {scope!r}"), SCOPE_MISSING)


def _default(tool: Tool[..., Any]) -> Opinion:
    if tool.spec().effect == "blind":
        why = "its outcome could not be found out after a lost reply"
        return Opinion("blind-write", ask(DEFAULT_GROUP, why))
    if tool.kind == "write" and tool.rule_hook is None:
        return Opinion("write-without-rule", ask(DEFAULT_GROUP, "no rule allows this write"))
    return Opinion("default", allow())


def _rule(
    tool: Tool[..., Any], hook: Callable[..., Ruling], action: Action, request: Request
) -> Opinion:
    name = str(getattr(hook, "__name__", "rule"))
    decoded = tool.decode(action.arguments)
    if isinstance(decoded, Problem):
        return _failed(name, f"its arguments do not decode: {decoded.message}")
    try:
        ruling = cast("object", hook(request, **decoded.value))
    except TreadleError as error:
        return _failed(name, error.message)
    except Exception as error:  # noqa: BLE001 -- user code; whatever it raises denies
        return _failed(name, error_text(error))
    if not isinstance(ruling, Ruling):
        return _failed(name, f"it returned {type(ruling).__name__}, not allow(), ask() or deny()")
    return Opinion(name, replace(ruling, why=clean_text(ruling.why, MAX_MESSAGE)))


def _failed(rule: str, reason: str) -> Opinion:
    why = clean_text(f"rule {rule} failed: {reason}", MAX_MESSAGE)
    return Opinion(rule, deny(why), RULE_FAILED)


def _verdict(action: Action, opinion: Opinion) -> Verdict:
    ruling = opinion.ruling
    problem = None
    if ruling.decision == "deny":
        problem = Problem(code=opinion.code, message=ruling.why)
    return Verdict(
        ordinal=action.ordinal,
        decision=ruling.decision,
        rule=opinion.rule,
        why=ruling.why,
        group=ruling.group,
        size=ruling.size,
        ttl_s=None if ruling.ttl is None else ruling.ttl.total_seconds(),
        problem=problem,
    )
