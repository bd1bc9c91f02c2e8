"""Money in and out of the client (RUN-3, RUN-23): exact, to four places, and never a float."""

from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from dpp.money.micros import MAX_AMOUNT_USD_MICROS, AmountError, format_usd, parse_usd
from dpp_client import Cost, usd_text
from dpp_client.money import MAX_USD

AMOUNTS = st.integers(min_value=1, max_value=MAX_AMOUNT_USD_MICROS // 100).map(lambda steps: steps * 100)
LOOKS_LIKE_MONEY = st.text(alphabet="0123456789.+-eE_ ,٣\n", max_size=18)


def _platform_takes(text: str) -> int | None:
    """Micros, if the API accepts the text as a maximum price."""
    try:
        return parse_usd(text) or None
    except AmountError:
        return None


@given(st.one_of(st.text(max_size=20), LOOKS_LIKE_MONEY))
@example("9007199254.7409")
@example("9007199254.7410")
@example("0.0000")
@example("0.25\n")
@example("٠.٢٥")
@example("1_0")
def test_text_is_taken_exactly_where_the_platform_takes_it(text: str) -> None:
    """RUN-3: what the API would refuse is never sent, and nothing that it takes is refused here."""
    wanted = _platform_takes(text)
    if wanted is None:
        with pytest.raises(ValueError, match="an amount"):
            usd_text(text)
    else:
        assert usd_text(text) == text


@given(AMOUNTS, st.integers(min_value=0, max_value=30))
def test_a_decimal_keeps_its_value_to_the_micro(micros: int, zeros: int) -> None:
    """RUN-23: also one with an exponent or zeros that arithmetic has left, and whatever precision is set."""
    amount = Decimal(format_usd(micros))
    with localcontext(prec=3):
        assert parse_usd(usd_text(amount)) == micros
        sign, digits, exponent = amount.as_tuple()
        longer = Decimal((sign, (*digits, *([0] * zeros)), int(exponent) - zeros))
        assert parse_usd(usd_text(longer)) == micros


@given(st.decimals(allow_nan=True, allow_infinity=True))
@example(Decimal("1E+1000000"))
@example(Decimal("1E-1000000"))
@example(Decimal("sNaN"))
@example(Decimal("-0"))
@example(MAX_USD + Decimal("0.0001"))
def test_a_decimal_is_sent_as_it_is_or_not_at_all(amount: Decimal) -> None:
    try:
        text = usd_text(amount)
    except ValueError:
        exact = amount.is_finite() and 0 < amount <= MAX_USD
        assert not exact or amount != amount.quantize(Decimal("0.0001"))
    else:
        assert Decimal(text) == amount
        assert _platform_takes(text)


@pytest.mark.parametrize("amount", [0.25, 1, True, None, b"0.25", [], 1e400])
def test_a_float_is_no_amount_and_nothing_else_is(amount: Any) -> None:
    """RUN-23."""
    with pytest.raises(TypeError, match="Decimal or a str"):
        usd_text(amount)


@given(st.integers(min_value=-MAX_AMOUNT_USD_MICROS, max_value=MAX_AMOUNT_USD_MICROS))
def test_what_is_answered_is_read_digit_by_digit(micros: int) -> None:
    """RUN-10: as the platform writes it, and written again as it was read; a balance may be below zero."""
    answered = format_usd(micros)
    cost = Cost.model_validate(dict.fromkeys(Cost.model_fields, answered))
    assert str(cost.used_usd) == answered
    assert cost.model_dump(mode="json")["used_usd"] == answered


@pytest.mark.parametrize("answered", [0.25, 1, "1e3", "NaN", " 1", None])
def test_what_is_answered_as_a_number_is_refused(answered: object) -> None:
    """RUN-23: it went through a float on its way."""
    with pytest.raises(ValidationError):
        Cost.model_validate(dict.fromkeys(Cost.model_fields, answered))
