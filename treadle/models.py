"""Which model plays behind each agent: the scripted one, or a provider's."""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from messages.agent import AgentSpec
from messages.errors import ConfigError
from runtime.agent import App
from runtime.model import scripted
from runtime.model.port import Model
from runtime.model.pricing import price_of
from runtime.settings import Settings


def models_of(
    app: App, settings: Settings, model: str | None, *, script: object = None
) -> tuple[Mapping[str, AgentSpec], Mapping[str, Model]]:
    """The agents as they run here, and the model of each.

    Args:
        app: what the user declared.
        settings: prices.
        model: instead of the agents' own; ``scripted`` plays the app's script.
        script: instead of the app's.

    Raises:
        ConfigError: a model that cannot be had, or no script to play.
    """
    agents: dict[str, AgentSpec] = {}
    models: dict[str, Model] = {}
    for name, spec in app.specs.items():
        wanted = model or spec.model
        models[name] = _model(wanted, script if script is not None else app.script)
        price = price_of(wanted, settings.models.get(wanted))
        agents[name] = replace(spec, model=wanted, price=price)
    return agents, models


def _model(name: str, script: Any) -> Model:
    if name != scripted.NAME:
        raise ConfigError(
            "model",
            f"this version plays scripts only and cannot ask {name!r}; use --model scripted",
        )
    if script is None:
        raise ConfigError(
            "model", "the app ships no script to play; write App(agent, script=[...])"
        )
    return scripted.ScriptedModel(script)
