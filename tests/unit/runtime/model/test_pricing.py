"""Prices: dated, overridable, and never guessed."""

from datetime import UTC, datetime

import pytest

from messages.errors import ConfigError
from messages.parts import Price, Usage
from runtime.model.pricing import PRICES
from runtime.model.pricing import price_of as price_at
from runtime.settings import LongPrompt, Model

MILLION = 1_000_000


def price_of(model: str, configured: Model | None = None, on: str = "2026-11-30") -> Price | None:
    now = datetime.fromisoformat(f"{on}T12:00:00").replace(tzinfo=UTC).timestamp()
    return price_at(model, configured, now=now)


def cost(model: str, /, **tokens: int) -> int:
    price = price_of(model)
    assert price is not None
    return price.cost(Usage(**tokens))


def test_a_listed_model_costs_what_the_list_says() -> None:
    price = price_of("claude-opus-5-5")
    assert price is not None
    assert price.date == "2026-11-29"
    assert cost("claude-opus-5-5", input_tokens=MILLION) == 4_000_000
    assert cost("claude-opus-5-5", output_tokens=MILLION) == 20_000_000
    assert cost("claude-opus-5-5", cache_read_tokens=MILLION) == 200_000
    assert cost("claude-opus-5-5", cache_write_tokens=MILLION) == 5_000_000


def test_what_is_cached_for_an_hour_costs_more_than_for_five_minutes() -> None:
    mixed = {"cache_write_tokens": MILLION, "cache_write_1h_tokens": MILLION // 4}
    assert cost("claude-opus-5-5", **mixed) == 3 * 1_250_000 + 2_000_000


def test_a_long_prompt_makes_the_whole_request_dearer_its_answer_included() -> None:
    long = {"input_tokens": 20_000, "cache_read_tokens": 70_000, "cache_write_tokens": 10_000}
    assert cost("claude-haiku-5-5", **long, output_tokens=MILLION) == 2_000 + 700 + 1_250 + 500_000
    long["input_tokens"] += 1
    dear = 10_001 + 3_500 + 6_250 + 2_500_000  # rounded up
    assert cost("claude-haiku-5-5", **long, output_tokens=MILLION) == dear


def test_a_price_counts_from_its_day_on() -> None:
    before, since = PRICES["claude-sonnet-5-5"]
    assert (before.cache_read_microusd, since.cache_read_microusd) == (200_000, 100_000)
    assert price_of("claude-sonnet-5-5", on="2026-10-06") == before
    assert price_of("claude-sonnet-5-5", on="2026-10-07") == since
    assert price_of("claude-sonnet-5-5", on="2020-01-01") == before, "a clock that is wrong"


def test_in_every_listed_price_a_read_is_cheapest_and_an_answer_dearest() -> None:
    for name, prices in PRICES.items():
        assert [price.date for price in prices] == sorted(price.date for price in prices)
        for price in prices:
            costs = (
                price.cache_read_microusd,
                price.input_microusd,
                price.cache_write_microusd,
                price.cache_write_1h_microusd,
                price.output_microusd,
            )
            assert list(costs) == sorted(costs), name


@pytest.mark.parametrize("name", ["claude-fable-5-2", "gpt-5"])
def test_what_is_not_listed_has_no_price(name: str) -> None:
    assert price_of(name) is None


def test_a_table_is_priced_by_the_providers_name_of_it() -> None:
    assert price_of("fast", Model(id="claude-sonnet-5-5")) == PRICES["claude-sonnet-5-5"][-1]
    assert price_of("claude-sonnet-5-5", Model(timeout_s=5)) == PRICES["claude-sonnet-5-5"][-1]


def test_a_configured_price_wins() -> None:
    price = price_of("claude-opus-5-5", Model(input_usd_per_mtok="1", output_usd_per_mtok="2"))
    million = 1_000_000
    assert price == Price(
        date="configured",
        input_microusd=million,
        output_microusd=2 * million,
        cache_read_microusd=million,
        cache_write_microusd=million,
        cache_write_1h_microusd=million,
    )


def test_a_long_prompt_may_be_configured_too() -> None:
    long = LongPrompt(above_tokens=1_000, input_usd_per_mtok="3", output_usd_per_mtok="4")
    configured = Model(input_usd_per_mtok="1", output_usd_per_mtok="2", long_prompt=long)
    price = price_of("mine", configured)
    assert price is not None
    assert price.cost(Usage(input_tokens=1_000)) == 1_000
    assert price.cost(Usage(input_tokens=1_001)) == 3_003


@pytest.mark.parametrize(
    ("configured", "missing"),
    [
        (Model(input_usd_per_mtok="1"), "models.fast: has a price but no output_usd_per_mtok"),
        (Model(output_usd_per_mtok="1"), "models.fast: has a price but no input_usd_per_mtok"),
        (
            Model(
                input_usd_per_mtok="1",
                output_usd_per_mtok="1",
                long_prompt=LongPrompt(above_tokens=5, input_usd_per_mtok="1"),
            ),
            "models.fast.long_prompt: has a price but no output_usd_per_mtok",
        ),
    ],
)
def test_half_a_price_is_none(configured: Model, missing: str) -> None:
    with pytest.raises(ConfigError, match=missing):
        price_of("fast", configured)
