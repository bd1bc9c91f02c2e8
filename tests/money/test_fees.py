"""The minimum fee, and the limit of every charge (RUN-23, RUN-24; 001 §12.2)."""

from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.money.fees import charge_within, minimum_fee
from dpp.money.micros import MAX_AMOUNT_USD_MICROS

_AMOUNTS = st.integers(1, MAX_AMOUNT_USD_MICROS)


@pytest.mark.parametrize(
    ("reserved", "fee"),
    [
        (1, 5_000),
        (4_999, 5_000),
        (5_000, 5_000),
        (249_999, 5_000),
        (250_000, 5_000),
        (250_049, 5_000),
        (250_050, 5_001),
        (250_099, 5_001),
        (300_000, 6_000),
        (1_000_000, 20_000),
        (4_999_999, 99_999),
        (5_000_000, 100_000),
        (5_000_050, 100_000),
        (10_000_000, 100_000),
        (10**14, 100_000),
        (MAX_AMOUNT_USD_MICROS, 100_000),
    ],
)
def test_the_minimum_fee_is_two_percent_between_half_a_cent_and_ten_cents(reserved: int, fee: int) -> None:
    """RUN-23: min(max(5 000, floor(2 %)), 100 000), around both bounds."""
    assert minimum_fee(reserved) == fee


@given(_AMOUNTS)
def test_the_minimum_fee_is_exact_over_the_whole_range(reserved: int) -> None:
    """RUN-23: equal to exact fractions, where a float would lose its last bits."""
    assert minimum_fee(reserved) == min(max(5_000, floor(Fraction(2, 100) * reserved)), 100_000)
    assert type(minimum_fee(reserved)) is int


@given(st.integers(0, 2**60), _AMOUNTS)
def test_no_charge_is_above_the_reservation(cost: int, reserved: int) -> None:
    """RUN-24: actual ≤ reserved; a cost within the reservation is charged in full."""
    assert charge_within(cost, reserved) == (cost if cost <= reserved else reserved)


@pytest.mark.parametrize("reserved", [1, 100, 4_999])
def test_a_reservation_below_the_minimum_fee_is_charged_in_full(reserved: int) -> None:
    """RUN-23."""
    assert charge_within(minimum_fee(reserved), reserved) == reserved


def test_a_negative_cost_is_refused() -> None:
    """RUN-24: no pack can pay a client."""
    with pytest.raises(ValueError, match="must not be negative"):
        charge_within(-1, 100)
