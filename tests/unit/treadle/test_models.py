"""Which model an agent gets: by name, by table, or an error that says what to write."""

import subprocess
import sys
from pathlib import Path

import pytest

from messages.errors import ConfigError
from runtime.model.scripted import ScriptedModel
from runtime.settings import Model, Settings
from treadle import Agent, App, Budget
from treadle.models import models_of
from treadle.testing import say

SCRIPT = [say("hi")]


def app(model: str, *, script: object = SCRIPT) -> App:
    return App(Agent("a", model=model, instructions="Do it."), script=script)


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)


def test_the_agents_own_model_unless_another_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-x")
    agents, models = models_of(app("claude-opus-5-5"), Settings(), None)
    assert agents["a"].model == "claude-opus-5-5"
    assert agents["a"].price is not None
    assert type(models["claude-opus-5-5"]).__name__ == "AnthropicModel"
    agents, models = models_of(app("claude-opus-5-5"), Settings(), "scripted")
    assert agents["a"].model == "scripted"
    assert isinstance(models["scripted"], ScriptedModel)


def test_agents_of_one_model_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-x")
    two = App(*[Agent(name, model="claude-opus-5", instructions="x") for name in ("a", "b")])
    _, models = models_of(two, Settings(), None)
    assert list(models) == ["claude-opus-5"]


def test_a_role_may_have_a_model_of_its_own_unless_another_is_named() -> None:
    roles = App(Agent("a", model="claude-opus-5", models={"final": "tiny"}, instructions="x"))
    table = Settings(models={"tiny": Model(input_usd_per_mtok="1", output_usd_per_mtok="2")})
    agents, _ = models_of(roles, table, None, is_asking=False)
    final = agents["a"].use("final")
    assert (final.model, final.price and final.price.input_microusd) == ("tiny", 1_000_000)
    assert agents["a"].use().model == "claude-opus-5"
    agents, _ = models_of(roles, table, "claude-opus-5-5", is_asking=False)
    assert {use.model for use in agents["a"].uses} == {"claude-opus-5-5"}


def test_without_a_key_the_error_says_which_variable() -> None:
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY: is not set"):
        models_of(app("claude-opus-5-5"), Settings(), None)
    table = Settings(models={"fast": Model(id="claude-haiku-5-5", api_key_env="OTHER_KEY")})
    with pytest.raises(ConfigError, match="OTHER_KEY: is not set"):
        models_of(app("fast"), table, None)


def test_a_key_may_lie_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text("sk-x\n")
    monkeypatch.setenv("ANTHROPIC_API_KEY_FILE", str(tmp_path / "key"))
    _, models = models_of(app("claude-opus-5-5"), Settings(), None)
    assert "claude-opus-5-5" in models


def test_a_process_that_asks_no_model_needs_no_key() -> None:
    agents, models = models_of(app("claude-opus-5-5"), Settings(), None, is_asking=False)
    assert agents["a"].price is not None
    assert models == {}


def test_a_name_that_nobody_has_says_what_to_write() -> None:
    with pytest.raises(ConfigError, match=r"\[models.opus\]"):
        models_of(app("opus"), Settings(), None)


def test_a_table_may_play_the_script() -> None:
    table = Settings(models={"fake": Model(provider="scripted")})
    _, models = models_of(app("fake"), table, None)
    assert isinstance(models["fake"], ScriptedModel)
    with pytest.raises(ConfigError, match="ships no script"):
        models_of(app("fake", script=None), table, None)


def test_an_unpriced_model_is_data_and_no_error() -> None:
    limited = Agent("a", model="claude-fable-5-2", instructions="x", budget=Budget(max_usd="1"))
    agents, _ = models_of(App(limited), Settings(), None, is_asking=False)
    assert agents["a"].price is None


def test_nothing_imports_the_sdk_before_a_real_model_is_built() -> None:
    program = (
        "import sys, treadle, treadle.models, treadle.daemon;"
        "assert not {'anthropic', 'httpx2', 'pydantic'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
