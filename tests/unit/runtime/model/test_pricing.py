"""Prices: dated, overridable, and never guessed."""

import pytest

from messages.errors import ConfigError
from messages.parts import Usage
from runtime.model.pricing import PRICES, price_of
from runtime.settings import Model

MILLION = 1_000_000


def test_a_listed_model_costs_what_the_list_says() -> None:
    price = price_of("claude-opus-5-5")
    assert price is not None
    assert price.date == "2026-11-29"
    assert price.cost(Usage(input_tokens=MILLION)) == 4_000_000
    assert price.cost(Usage(output_tokens=MILLION)) == 20_000_000
    assert price.cost(Usage(cache_read_tokens=MILLION)) == 200_000
    assert price.cost(Usage(cache_write_tokens=MILLION)) == 5_000_000


def test_in_every_listed_price_a_read_is_cheapest_and_an_answer_dearest() -> None:
    for name, price in PRICES.items():
        if name == "scripted":
            continue
        costs = (
            price.cache_read_microusd,
            price.input_microusd,
            price.cache_write_microusd,
            price.output_microusd,
        )
        assert list(costs) == sorted(costs), name


@pytest.mark.parametrize("name", ["claude-haiku-5-5", "claude-fable-5-2", "gpt-5"])
def test_what_is_not_listed_has_no_price(name: str) -> None:
    assert price_of(name) is None


def test_a_table_is_priced_by_the_providers_name_of_it() -> None:
    assert price_of("fast", Model(id="claude-sonnet-5-5")) == PRICES["claude-sonnet-5-5"]
    assert price_of("claude-sonnet-5-5", Model(timeout_s=5)) == PRICES["claude-sonnet-5-5"]


def test_a_configured_price_wins() -> None:
    price = price_of("claude-opus-5-5", Model(input_usd_per_mtok="1", output_usd_per_mtok="2"))
    assert price is not None
    assert (price.date, price.input_microusd, price.output_microusd) == (
        "configured",
        1_000_000,
        2_000_000,
    )


def test_half_a_price_is_none() -> None:
    with pytest.raises(ConfigError, match="output_usd_per_mtok"):
        price_of("fast", Model(input_usd_per_mtok="1"))
