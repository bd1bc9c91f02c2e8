"""The strict parser for JSON from clients (D12; RFC 8259, RFC 7493)."""

import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.platform.strict_json import MAX_DEPTH, MAX_SAFE_INTEGER, JsonRefused, parse, parse_exact

_STRINGS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER),
    st.floats(allow_nan=False, allow_infinity=False),
    _STRINGS,
)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_STRINGS, inner, max_size=4), max_leaves=20
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        (" [1, 2.5, null, true, false] \n", [1, 2.5, None, True, False]),
        ('"\\ud83d\\ude00"', "😀"),
        ('{"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}', {"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}),
        ("9007199254740991", 2**53 - 1),
        ("-9007199254740991", -(2**53 - 1)),
        ("-0", 0),
        ("1e5", 1e5),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ('"\\u0001\\n"', "\x01\n"),
        ('"한국어"', "한국어"),
    ],
)
def test_valid_json_is_parsed(text: str, value: Any) -> None:
    """D12: as text and as UTF-8; another object may have the same names."""
    assert parse(text) == value
    assert parse(text.encode()) == value


@given(_VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_values_within_bounds_are_parsed_unchanged(value: Any, ascii_only: bool, indent: int | None) -> None:
    """D12: every value that can be stored is accepted."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent, allow_nan=False)
    assert parse(text) == value
    assert parse(text.encode()) == value


@given(st.binary(max_size=40))
def test_any_bytes_are_parsed_or_refused(body: bytes) -> None:
    """D12: there is no other exception, and an accepted value can be written as JSON again."""
    try:
        value = parse(body)
    except JsonRefused:
        return
    json.dumps(value, allow_nan=False).encode()


@given(st.text('{}[]":,\\u0aAdDeE+-.19ntf', max_size=30))
def test_near_json_is_parsed_or_refused(text: str) -> None:
    """D12: texts of JSON's own characters."""
    try:
        value = parse(text)
    except JsonRefused:
        return
    assert json.loads(text) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 1}',
        '{"a": 1, "b": 2, "a": 3}',
        '[{"x": {"a": 1, "a": 2}}]',
        '{"a": 1, "\\u0061": 2}',
        '{"": 1, "": 2}',
    ],
)
def test_a_duplicate_name_is_refused(text: str) -> None:
    """D12: the intended value is unknown; also if one of the names is escaped."""
    with pytest.raises(JsonRefused, match="twice"):
        parse(text)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_64_levels_are_accepted_and_65_are_not(opening: str, closing: str) -> None:
    """D12: objects and arrays count; a scalar inside the innermost one does not."""
    levels = opening.count("[") + opening.count("{")
    fits, one_more = MAX_DEPTH // levels, MAX_DEPTH // levels + 1
    parse(opening * fits + "1" + closing * fits)
    with pytest.raises(JsonRefused, match="nested"):
        parse(opening * one_more + "1" + closing * one_more)


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 100_000, "[[" * 500_000])
def test_extreme_nesting_is_refused(text: str) -> None:
    """D12: and the process survives."""
    with pytest.raises(JsonRefused):
        parse(text)
    assert parse("[]") == []


@pytest.mark.parametrize(
    "text", ['"\\u0000"', '["a\\u0000b"]', '{"\\u0000": 1}', '{"a": {"b\\u0000": 1}}', '"\x00"', "\x00", "[1]\x00"]
)
def test_nul_is_refused_everywhere(text: str) -> None:
    """D12: Postgres text cannot have it; in values and names, escaped and raw."""
    with pytest.raises(JsonRefused):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        '"\\ud800"',
        '"\\udfff"',
        '"\\udc00\\ud800"',
        '"\\ud83dx"',
        '{"\\ud800": 1}',
        '["\\ud83d\\ud83d\\ude00"]',
        '"\ud800"',
    ],
)
def test_a_lone_surrogate_is_refused(text: str) -> None:
    """D12: UTF-8 cannot encode it."""
    with pytest.raises(JsonRefused):
        parse(text)


@pytest.mark.parametrize(
    "text",
    ["NaN", "Infinity", "-Infinity", "[NaN]", '{"a": -Infinity}', "1e999", "-1e999", "[1e400]", "1" + "0" * 400 + ".0"],
)
def test_nonfinite_numbers_are_refused(text: str) -> None:
    """D12: by name or by overflow."""
    with pytest.raises(JsonRefused):
        parse(text)


@pytest.mark.parametrize(
    "text", ["9007199254740992", "-9007199254740992", "1" + "0" * 5000, "-" + "9" * 5000, "[[123456789012345678]]"]
)
def test_an_integer_beyond_2_to_the_53_is_refused(text: str) -> None:
    """D12, RFC 7493: also one too long for Python to convert."""
    with pytest.raises(JsonRefused, match="2\\^53"):
        parse(text)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"\xef\xbb\xbf{}",
        b"\xff\xfe{\x00}\x00",
        b'"\xc0\x80"',
        b'"\xed\xa0\x80"',
        b'"\xf5\x80\x80\x80"',
        b'"\xc3"',
        b"{'a': 1}",
        b"{a: 1}",
        b"[1,]",
        b'{"a": 1,}',
        b"[1] [2]",
        b"01",
        b"+1",
        b".5",
        b"1.",
        b"0x1",
        b"1_0",
        b"\xd9\xa1",
        b'"\n"',
        b'"\\x"',
        b"// c\n1",
        b"tru",
        b"[",
        b"\xc2\xa01",
    ],
)
def test_input_that_is_not_json_in_utf_8_is_refused(body: bytes) -> None:
    """D12: BOM, other encodings, overlong forms, surrogates in UTF-8, comments, trailing commas, second values."""
    with pytest.raises(JsonRefused):
        parse(body)


def test_the_message_quotes_nothing_of_the_body() -> None:
    """D8: an exception has no client data."""
    for body in (b'{"secret": nope}', b'{"secret": 1, "secret": 2}', b'["secret\\u0000"]', b'"secret'):
        with pytest.raises(JsonRefused) as refused:
            parse(body)
        assert "secret" not in str(refused.value)
        assert refused.value.__cause__ is None


def test_a_float_is_parsed_exactly() -> None:
    """D12: the shortest form of a float gives the same float."""
    for number in (0.1, 1e-320, math.pi, 1e300):
        assert parse(json.dumps(number)) == number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", Decimal("0.1")),
        ("0.30000000000000004", Decimal("0.30000000000000004")),
        ("0.99999999999999999999", Decimal("0.99999999999999999999")),  # 1.0 to a float
        ("9007199254740990.5", Decimal("9007199254740990.5")),
        ("1e-400", Decimal("1e-400")),  # 0.0 to a float
        ("90.0", 90),
        ("9e1", 90),
        ("-0.0", 0),
        ("1e300", Decimal("1e300")),
        ('{"a": [0.10, 1]}', {"a": [Decimal("0.1"), 1]}),
    ],
)
def test_an_exact_number_has_its_digits(text: str, value: Any) -> None:
    """RUN-23: without an intermediate float."""
    found = parse_exact(text)
    assert found == value
    assert "float" not in repr(found)
    assert isinstance(found, type(value))


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9))
def test_a_fraction_is_parsed_exactly(number: Decimal) -> None:
    """RUN-23."""
    assert parse_exact(f"[{number:f}]") == [number]


@pytest.mark.parametrize("text", ["1e400", "1e-99999999999999999999", "9007199254740992", "NaN", "[1, 1e999]"])
def test_exact_parsing_refuses_the_same_numbers(text: str) -> None:
    with pytest.raises(JsonRefused):
        parse_exact(text)
