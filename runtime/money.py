"""Money: decimal strings outside, whole micro-USD inside, exact both ways.

A float is refused: 0.1 is not a tenth, and a budget that is off by a rounding is not a budget.
"""

import re
from decimal import Decimal

from messages.errors import UsageError

MICROUSD = 1_000_000
"""Micro-USD in one USD."""

_AMOUNT = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,6}))?")


def microusd(amount: object) -> int:
    """Whole micro-USD of an amount in USD.

    Args:
        amount: A decimal string such as ``"0.50"``, or a whole number of USD, or a Decimal.

    Raises:
        UsageError: A float, a negative amount, more than six decimals, or no amount at all.
    """
    if isinstance(amount, bool) or not isinstance(amount, str | int | Decimal):
        message = f"an amount of money is written as text, such as '0.50', not {amount!r}"
        raise UsageError(message)
    text = f"{amount:f}" if isinstance(amount, Decimal) else str(amount)
    match = _AMOUNT.fullmatch(text)
    if match is None:
        message = f"{text[:40]!r} is no amount of USD"
        raise UsageError(message, hint="write '0.50': no sign, no currency, at most 6 decimals")
    whole, part = match.groups()
    return int(whole) * MICROUSD + int((part or "").ljust(6, "0"))


def usd(amount_microusd: int) -> str:
    """The decimal string of an amount: at least two decimals, at most six, never an exponent."""
    sign = "-" if amount_microusd < 0 else ""
    whole, part = divmod(abs(amount_microusd), MICROUSD)
    return f"{sign}{whole}.{f'{part:06}'[:2]}{f'{part:06}'[2:].rstrip('0')}"
