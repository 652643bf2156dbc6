"""Money is exact both ways, and never a float."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messages.errors import UsageError
from runtime.money import microusd, usd


@pytest.mark.parametrize(
    ("amount", "wanted"),
    [
        ("0.50", 500_000),
        ("0", 0),
        ("1", 1_000_000),
        ("0.000001", 1),
        ("12.345678", 12_345_678),
        ("999999999.999999", 999_999_999_999_999),
        (3, 3_000_000),
        (Decimal("0.10"), 100_000),
        (Decimal("1E+2"), 100_000_000),
    ],
)
def test_amounts(amount: Any, wanted: int) -> None:
    assert microusd(amount) == wanted


@pytest.mark.parametrize(
    "amount",
    [0.5, 1.0, True, None, "", "-1", "+1", "1e3", "1.", ".5", "1.0000001", "$1", "1,000", "NaN",
     "Infinity", " 1", "1\n", "\u0661", "1" * 10, Decimal("NaN"), Decimal("0.0000001"), -1, b"1"],
)  # fmt: skip
def test_no_amounts(amount: Any) -> None:
    with pytest.raises(UsageError):
        microusd(amount)


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0.00"), (500_000, "0.50"), (1, "0.000001"), (12_345_600, "12.3456"), (-500_000, "-0.50")],
)
def test_text(amount: int, text: str) -> None:
    assert usd(amount) == text


@given(st.integers(min_value=0, max_value=10**15 - 1))
def test_there_and_back(amount: int) -> None:
    assert microusd(usd(amount)) == amount
