"""What tokens cost, as dated data. A model that is not here and not configured is unpriced.

Source: the provider's price page as of ``_READ_ON`` (research/sdk-facts.md 2.4). Writes are those
of the five minute cache, the only one that is asked for. Left out until prices can say more than
four numbers: claude-haiku-5-5, whose price depends on the length of the prompt, and models of which
a price is known at second hand only.
"""

from typing import Final

from messages.agent import Price
from messages.errors import ConfigError
from runtime.model import scripted
from runtime.money import microusd
from runtime.settings import Model

_READ_ON: Final = "2026-11-29"


def _usd(sent: str, said: str, *, read: str, write: str) -> Price:
    """USD per million tokens."""
    return Price(
        date=_READ_ON,
        input_microusd=microusd(sent),
        output_microusd=microusd(said),
        cache_read_microusd=microusd(read),
        cache_write_microusd=microusd(write),
    )


_FABLE_5_1: Final = _usd("10", "50", read="0.25", write="12.50")
_FABLE_5: Final = _usd("10", "50", read="1", write="12.50")
_OPUS_5: Final = _usd("5", "25", read="0.50", write="6.25")
_SONNET_4_6: Final = _usd("3", "15", read="0.30", write="3.75")

PRICES: Final[dict[str, Price]] = {
    # a script costs nothing, and says so with a date like any other price
    scripted.NAME: Price(date=_READ_ON),
    "claude-fable-5-1": _FABLE_5_1,
    "claude-mythos-5-1": _FABLE_5_1,
    "claude-fable-5": _FABLE_5,
    "claude-mythos-5": _FABLE_5,
    "claude-opus-5-5": _usd("4", "20", read="0.20", write="5"),
    "claude-opus-5": _OPUS_5,
    "claude-opus-4-8": _OPUS_5,
    "claude-opus-4-7": _OPUS_5,
    "claude-opus-4-6": _OPUS_5,
    "claude-opus-4-5": _OPUS_5,
    "claude-sonnet-5-5": _usd("2", "10", read="0.10", write="2.50"),
    "claude-sonnet-5": _usd("2", "10", read="0.20", write="2.50"),
    "claude-sonnet-4-6": _SONNET_4_6,
    "claude-sonnet-4-5": _SONNET_4_6,
    "claude-haiku-4-5": _usd("1", "5", read="0.10", write="1.25"),
}


def price_of(model: str, configured: Model | None = None) -> Price | None:
    """The price of a model: the configured one, else the dated list's, else None.

    Args:
        model: its name, or that of its table.
        configured: its table in treadle.toml.

    Raises:
        ConfigError: a configured price without what an answer costs.
    """
    if configured is None or configured.input_usd_per_mtok is None:
        return PRICES.get((configured.id if configured else "") or model)
    sent, said = configured.input_usd_per_mtok, configured.output_usd_per_mtok
    if said is None:
        raise ConfigError(f"models.{model}", "has input_usd_per_mtok but no output_usd_per_mtok")
    return Price(
        date="configured",
        input_microusd=microusd(sent),
        output_microusd=microusd(said),
        cache_read_microusd=microusd(configured.cache_read_usd_per_mtok or sent),
        cache_write_microusd=microusd(configured.cache_write_usd_per_mtok or sent),
    )
