"""Which model plays behind each agent: the scripted one, or a provider's."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from messages.agent import AgentSpec
from messages.errors import ConfigError
from runtime.agent import App
from runtime.clock import MachineClock
from runtime.config import read_secret
from runtime.log import Level, Line, log
from runtime.model import scripted
from runtime.model.port import Model
from runtime.model.pricing import price_of
from runtime.settings import Model as ModelSettings
from runtime.settings import Settings

_OURS: Final = "claude-"
"""How the names begin that need no table: there is one provider that has them."""


def models_of(
    app: App,
    settings: Settings,
    model: str | None,
    *,
    script: object = None,
    is_asking: bool = True,
) -> tuple[Mapping[str, AgentSpec], Mapping[str, Model]]:
    """The agents as they run here, and the models they ask, by name.

    Args:
        app: what the user declared.
        settings: models, their keys and prices.
        model: instead of the agents' own, in every role; ``scripted`` plays the app's script.
        script: instead of the app's.
        is_asking: False: this process has no planner, so no model is built and no key is needed.

    Raises:
        ConfigError: a model that cannot be had, a key that is not set, a price that is incomplete,
            or no script to play.
    """
    agents = {name: _priced(spec, settings, model) for name, spec in app.specs.items()}
    if not is_asking:
        return agents, {}
    played = script if script is not None else app.script
    wanted = {use.model for spec in agents.values() for use in spec.uses}
    return agents, {
        name: _model(name, settings.models.get(name), played) for name in sorted(wanted)
    }


def _priced(spec: AgentSpec, settings: Settings, model: str | None) -> AgentSpec:
    """With the price of each of its models; ``model`` instead plays every role."""
    if model is not None:
        spec = replace(spec, model=model, roles={})
    now = MachineClock.now()
    uses = [
        replace(use, price=price_of(use.model, settings.models.get(use.model), now=now))
        for use in spec.uses
    ]
    for use in uses:
        if use.price is None and spec.limits.max_cost_microusd is not None:
            hint = _no_price(use.model)
            log(Line.CONFIG_WARNING, Level.WARNING, agent=spec.name, model=use.model, hint=hint)
    return replace(spec, price=uses[0].price, roles=dict(zip(spec.roles, uses[1:], strict=True)))


def _no_price(name: str) -> str:
    return (
        f"no price is known, so its runs end unpriced_model: set input_usd_per_mtok and"
        f" output_usd_per_mtok in [models.{name}], or declare the agent without max_usd"
    )


def _model(name: str, table: ModelSettings | None, script: Any) -> Model:
    if name == scripted.NAME or (table is not None and table.provider == "scripted"):
        if script is None:
            problem = "the app ships no script to play; write App(agent, script=[...])"
            raise ConfigError("model", problem)
        return scripted.ScriptedModel(script)
    if table is None and not name.startswith(_OURS):
        raise ConfigError(
            "model",
            f"nobody is known to have {name!r}: use a claude-… model, --model scripted, or write"
            f" [models.{name}] with a provider and the provider's id of it",
        )
    return _anthropic(name, table or ModelSettings())


def _anthropic(name: str, table: ModelSettings) -> Model:
    key = (read_secret(table.api_key_env) or "").strip()
    if not key:
        raise ConfigError(
            table.api_key_env,
            f"is not set and {name!r} needs it; set it (or {table.api_key_env}_FILE), or use"
            " --model scripted, which needs no key",
        )
    # seconds and 76 MB, which nothing but a real model is worth
    from runtime.model.anthropic import AnthropicModel  # noqa: PLC0415 -- see above

    return AnthropicModel(
        table.id or name,
        api_key=key,
        base_url=table.base_url,
        timeout_s=table.timeout_s,
        idle_s=table.idle_s,
        max_concurrent=table.max_concurrent,
    )
