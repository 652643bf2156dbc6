"""Who a run acts for and the most it may use: configuration decides, a task may only lower."""

from collections.abc import Iterable
from typing import TypeVar

from msgspec.structs import replace

from messages.agent import AgentSpec
from messages.errors import BadTask, NotAllowed, UsageError
from messages.parts import Limits
from messages.task import TaskLimits
from runtime.money import microusd, usd
from runtime.settings import Budgets, Settings

NumberT = TypeVar("NumberT", int, float)


def scopes_of(
    settings: Settings, agents: Iterable[AgentSpec], tenant: str, principal: str
) -> tuple[str, ...]:
    """What a principal's runs may touch; without ``[tenants]`` every scope the app names.

    Raises:
        NotAllowed: Tenants are configured and this tenant or principal is not among them.
    """
    if not settings.tenants:
        named = {tool.scope for spec in agents for tool in spec.tools if tool.scope}
        return tuple(sorted(named))
    known = settings.tenants.get(tenant)
    if known is None:
        raise NotAllowed(f"no tenant is called {tenant!r}", hint="see [tenants] in treadle.toml")
    granted = known.principals.get(principal)
    if granted is None:
        where = f"see [tenants.{tenant}.principals] in treadle.toml"
        raise NotAllowed(f"{principal!r} may not submit for tenant {tenant!r}", hint=where)
    return known.scopes if granted.scopes is None else granted.scopes


def ceiling_of(spec: AgentSpec, settings: Settings, tenant: str) -> Limits:
    """The agent's limits, lowered by the configured budgets; nothing here can raise one."""
    known = settings.tenants.get(tenant)
    limits = lowered(spec.limits, settings.budgets)
    return lowered(limits, known.budgets) if known is not None else limits


def lowered(limits: Limits, budgets: Budgets) -> Limits:
    """The smaller of both, budget by budget."""
    cost = None if budgets.max_usd is None else microusd(budgets.max_usd)
    return replace(
        limits,
        max_steps=_least(limits.max_steps, budgets.max_steps),
        max_tokens=_least(limits.max_tokens, budgets.max_tokens),
        max_cost_microusd=cost
        if limits.max_cost_microusd is None
        else _least(limits.max_cost_microusd, cost),
        max_seconds=_least(limits.max_seconds, budgets.max_seconds),
    )


def effective_limits(ceiling: Limits, asked: TaskLimits) -> Limits:
    """The ceiling with what the task lowers.

    Raises:
        BadTask: A limit is zero, negative or no number.
        NotAllowed: A limit is above the ceiling.
    """
    cost = None if asked.max_usd is None else _cost(asked.max_usd)
    top = ceiling.max_cost_microusd
    if cost is not None and top is not None and cost > top:
        raise _too_high("max_usd", asked.max_usd or "", usd(top))
    return replace(
        ceiling,
        max_steps=_lower("max_steps", ceiling.max_steps, asked.max_steps),
        max_tokens=_lower("max_tokens", ceiling.max_tokens, asked.max_tokens),
        max_cost_microusd=top if cost is None else cost,
        max_seconds=_lower("max_seconds", ceiling.max_seconds, asked.max_seconds),
    )


def _least(ceiling: NumberT, other: NumberT | None) -> NumberT:
    return ceiling if other is None else min(ceiling, other)


def _lower(name: str, ceiling: NumberT, asked: NumberT | None) -> NumberT:
    if asked is None:
        return ceiling
    if not asked > 0:
        raise BadTask(f"limits.{name} must be more than 0")
    if asked > ceiling:
        raise _too_high(name, f"{asked:g}", f"{ceiling:g}")
    return asked


def _cost(asked: str) -> int:
    try:
        cost = microusd(asked)
    except UsageError as error:
        raise BadTask(f"limits.max_usd: {error.message}", hint=error.hint) from error
    if cost == 0:
        raise BadTask("limits.max_usd must be more than 0")
    return cost


def _too_high(name: str, asked: str, ceiling: str) -> NotAllowed:
    text = f"limits.{name} is {asked}, this agent's ceiling is {ceiling}"
    return NotAllowed(text, hint="a task may lower a limit, not raise it")
