"""What tokens cost, as dated data. A model that is not here and not configured is unpriced."""

from messages.agent import Price
from runtime.model import scripted
from runtime.money import microusd
from runtime.settings import Model

PRICES: dict[str, Price] = {
    # a script costs nothing, and says so with a date like any other price
    scripted.NAME: Price(date="2026-11-29"),
}


def price_of(model: str, configured: Model | None = None) -> Price | None:
    """The price of a model: the configured one, else the dated list's, else None.

    Args:
        model: its name.
        configured: its table in treadle.toml.

    Raises:
        ConfigError: a configured amount is no amount of money.
    """
    if configured is not None and configured.input_usd_per_mtok is not None:
        given = configured.input_usd_per_mtok
        return Price(
            date="configured",
            input_microusd=microusd(given),
            output_microusd=microusd(configured.output_usd_per_mtok or given),
            cache_read_microusd=microusd(configured.cache_read_usd_per_mtok or given),
            cache_write_microusd=microusd(configured.cache_write_usd_per_mtok or given),
        )
    return PRICES.get(model)
