"""What tokens cost, as dated data. A model that is not here and not configured is unpriced.

Source: the provider's price page as of ``_READ_ON`` (research/sdk-facts.md 2.4). Left out are
models of which a price is known at second hand only.
"""

from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from messages.errors import ConfigError
from messages.parts import Price
from runtime.model import scripted
from runtime.money import microusd
from runtime.settings import Model, Rates

_READ_ON: Final = "2026-11-29"


def _usd(sent: str, said: str, *, read: str, write: str, hour: str, since: str = _READ_ON) -> Price:
    """USD per million tokens; ``write`` and ``hour``: into the cache, for 5 minutes or an hour."""
    return Price(
        date=since,
        input_microusd=microusd(sent),
        output_microusd=microusd(said),
        cache_read_microusd=microusd(read),
        cache_write_microusd=microusd(write),
        cache_write_1h_microusd=microusd(hour),
    )


_FABLE_5_1: Final = _usd("10", "50", read="0.25", write="12.50", hour="20")
_FABLE_5: Final = _usd("10", "50", read="1", write="12.50", hour="20")
_OPUS_5: Final = _usd("5", "25", read="0.50", write="6.25", hour="10")
_SONNET_5: Final = _usd("2", "10", read="0.20", write="2.50", hour="4")
_SONNET_4_6: Final = _usd("3", "15", read="0.30", write="3.75", hour="6")
_HAIKU_5_5_LONG: Final = _usd("0.50", "2.50", read="0.05", write="0.625", hour="1")

PRICES: Final[dict[str, tuple[Price, ...]]] = {
    # a script costs nothing, and says so with a date like any other price
    scripted.NAME: (Price(date=_READ_ON),),
    "claude-fable-5-1": (_FABLE_5_1,),
    "claude-mythos-5-1": (_FABLE_5_1,),
    "claude-fable-5": (_FABLE_5,),
    "claude-mythos-5": (_FABLE_5,),
    "claude-opus-5-5": (_usd("4", "20", read="0.20", write="5", hour="8"),),
    "claude-opus-5": (_OPUS_5,),
    "claude-opus-4-8": (_OPUS_5,),
    "claude-opus-4-7": (_OPUS_5,),
    "claude-opus-4-6": (_OPUS_5,),
    "claude-opus-4-5": (_OPUS_5,),
    "claude-sonnet-5-5": (
        replace(_SONNET_5, date="2026-01-01"),
        _usd("2", "10", read="0.10", write="2.50", hour="4", since="2026-10-07"),
    ),
    "claude-sonnet-5": (_SONNET_5,),
    "claude-sonnet-4-6": (_SONNET_4_6,),
    "claude-sonnet-4-5": (_SONNET_4_6,),
    "claude-haiku-5-5": (
        replace(
            _usd("0.10", "0.50", read="0.01", write="0.125", hour="0.20"),
            long_above_tokens=100_000,
            long=_HAIKU_5_5_LONG,
        ),
    ),
    "claude-haiku-4-5": (_usd("1", "5", read="0.10", write="1.25", hour="2"),),
}
"""The prices of each model one after the other, by the date since which they hold."""


def price_of(model: str, configured: Model | None = None, *, now: float) -> Price | None:
    """The price of a model: the configured one, else the dated list's, else None.

    Args:
        model: its name, or that of its table.
        configured: its table in treadle.toml.
        now: epoch seconds; of the list, the newest price that holds then counts.

    Raises:
        ConfigError: a configured price that is not whole.
    """
    if configured is not None and (configured.input_usd_per_mtok or configured.output_usd_per_mtok):
        return _configured(f"models.{model}", configured)
    listed = PRICES.get((configured.id if configured else "") or model, ())
    today = datetime.fromtimestamp(now, UTC).date().isoformat()
    holding = [price for price in listed if price.date <= today] or list(listed[:1])
    return holding[-1] if holding else None


def _configured(table: str, model: Model) -> Price:
    price = _rates(table, model)
    if not model.long_prompt.above_tokens:
        return price
    return replace(
        price,
        long_above_tokens=model.long_prompt.above_tokens,
        long=_rates(f"{table}.long_prompt", model.long_prompt),
    )


def _rates(table: str, rates: Rates) -> Price:
    """What is not said of the cache costs as much as any other input."""
    sent, said = rates.input_usd_per_mtok, rates.output_usd_per_mtok
    if sent is None or said is None:
        missing = "input_usd_per_mtok" if sent is None else "output_usd_per_mtok"
        raise ConfigError(table, f"has a price but no {missing}")
    write = microusd(rates.cache_write_usd_per_mtok or sent)
    hour = rates.cache_write_1h_usd_per_mtok
    return Price(
        date="configured",
        input_microusd=microusd(sent),
        output_microusd=microusd(said),
        cache_read_microusd=microusd(rates.cache_read_usd_per_mtok or sent),
        cache_write_microusd=write,
        cache_write_1h_microusd=microusd(hour) if hour is not None else write,
    )
