"""Money as decimal strings and integer micros (RUN-3, RUN-10, RUN-23)."""

from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpp.money.micros import MAX_AMOUNT_USD_MICROS, AmountError, format_usd, parse_usd

_STEPS = st.integers(0, MAX_AMOUNT_USD_MICROS // 100)


@pytest.mark.parametrize(
    ("amount", "micros"),
    [
        ("0", 0),
        ("0.0000", 0),
        ("0.0001", 100),
        ("0.1", 100_000),
        ("0.25", 250_000),
        ("0.2500", 250_000),
        ("1", 1_000_000),
        ("1.005", 1_005_000),
        ("10.0", 10_000_000),
        ("4503599627.3704", 4_503_599_627_370_400),
        ("9007199254.7409", 9_007_199_254_740_900),
    ],
)
def test_a_decimal_string_is_parsed_exactly(amount: str, micros: int) -> None:
    """RUN-23."""
    assert parse_usd(amount) == micros


@pytest.mark.parametrize(
    "amount",
    [
        "",
        " ",
        " 1",
        "1 ",
        "1\n",
        "\n1",
        "1.0\n",
        "\t1",
        "1\u00a0",
        "+1",
        "-1",
        "-0",
        "\u22121",  # minus sign
        "1e3",
        "1E3",
        "1.0e0",
        "0x10",
        "1_000",
        "1,000",
        "1'000",
        "1,5",
        ".5",
        "5.",
        ".",
        "1..2",
        "1.2.3",
        "00",
        "01",
        "00.5",
        "0.12345",
        "0.00000",
        "0.00001",
        "NaN",
        "nan",
        "Infinity",
        "inf",
        "\uff11",  # fullwidth one
        "1.\uff15",
        "\u0661",  # Arabic-Indic one
        "1.\u0665",
        "\u06f1",  # extended Arabic-Indic one
        "\u0967",  # Devanagari one
        "\u00b2",  # superscript two
        "1\uff0e5",  # fullwidth full stop
        "1\x00",
        "$1",
        "1 USD",
        "true",
        "None",
    ],
)
def test_only_a_plain_decimal_with_four_places_is_accepted(amount: str) -> None:
    """RUN-3: no sign, exponent, blank, group, leading zero, fifth place, other script's digit or name."""
    with pytest.raises(AmountError):
        parse_usd(amount)


@pytest.mark.parametrize(
    "amount", ["9007199254.7410", "9007199255", "9999999999.9999", "10000000000", "9" * 400, "1" + "0" * 5000]
)
def test_an_amount_beyond_2_to_the_53_is_refused(amount: str) -> None:
    """D2: a Lua number is exact only up to 2^53 - 1."""
    with pytest.raises(AmountError):
        parse_usd(amount)


@given(_STEPS)
@example(MAX_AMOUNT_USD_MICROS // 100)
def test_a_formatted_amount_is_parsed_back_to_the_micro(steps: int) -> None:
    """RUN-10, RUN-23: for multiples of 100 micros."""
    assert parse_usd(format_usd(steps * 100)) == steps * 100


@given(st.integers(0, 9_007_199_253), st.integers(0, 4), st.data())
def test_every_plain_decimal_equals_exact_decimal_arithmetic(whole: int, places: int, data: st.DataObject) -> None:
    """RUN-23 (001 §12.1): with none, one or four places."""
    digits = data.draw(st.text("0123456789", min_size=places, max_size=places))
    amount = f"{whole}.{digits}" if places else str(whole)
    assert parse_usd(amount) == int(Decimal(amount) * 1_000_000)


@given(st.text(max_size=20))
def test_any_accepted_text_is_ascii_and_equals_its_decimal(text: str) -> None:
    """RUN-3: any other text is refused."""
    _refused_or_exact(text)


@given(st.text("0123456789.eE+-_ \n٠١١５５", max_size=8))
def test_near_misses_are_refused_or_exact(text: str) -> None:
    """RUN-3: with an alphabet of near misses."""
    _refused_or_exact(text)


def _refused_or_exact(text: str) -> None:
    try:
        micros = parse_usd(text)
    except AmountError:
        return
    assert set(text) <= set("0123456789.")
    assert micros == Decimal(text) * 1_000_000


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "0.0000"),
        (1, "0.0000"),
        (99, "0.0000"),
        (100, "0.0001"),
        (199, "0.0001"),
        (250_000, "0.2500"),
        (999_999, "0.9999"),
        (10**14, "100000000.0000"),
        (MAX_AMOUNT_USD_MICROS, "9007199254.7409"),
        (-1, "-0.0001"),
        (-100, "-0.0001"),
        (-101, "-0.0002"),
        (-1_000_000, "-1.0000"),
    ],
)
def test_amounts_are_formatted_with_four_places_rounded_down(micros: int, text: str) -> None:
    """RUN-10: a debt below the fourth place is not formatted as zero."""
    assert format_usd(micros) == text


@given(st.integers(-(2**60), 2**60))
def test_no_formatted_amount_is_above_the_exact_one(micros: int) -> None:
    """RUN-10: nor below it by a whole step."""
    formatted = Decimal(format_usd(micros)) * 1_000_000
    assert micros - 100 < formatted <= micros
