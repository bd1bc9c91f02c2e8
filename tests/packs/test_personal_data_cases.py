"""Personal data as users of other systems reported it wrong, each with siblings of its kind (RUN-28)."""

import time

import pytest
import regex

from dpp.packs.compliance import cards, identifiers, korean, mail, pack, phones
from dpp.packs.compliance.checks import MAX_CHECKS, Checks
from dpp.packs.compliance.personal_data import Search
from dpp.packs.contract import PackSuccess
from dpp.packs.folding import fold, fold_phrases, without_invisible
from dpp.packs.inputs.compliance import ComplianceInputs, RuleSet

BOTH: tuple[RuleSet, ...] = ("personal_data_kr", "personal_data_international")
INVISIBLE = [character for code in range(0x110000) if regex.match(r"\p{DI}", character := chr(code))]


def found(text: str) -> list[tuple[str, str]]:
    """The rule and the characters of each finding, as the client's text has them."""
    return [(one.rule, text[one.start : one.end]) for one in Search(BOTH).find(0, text, fold(text))]


@pytest.mark.parametrize(
    ("number", "rule"),
    [
        ("+33 1 23 45 67 89", phones.INTERNATIONAL),
        ("+81 3 1234 5678", phones.INTERNATIONAL),
        ("(+82) 10-1234-5678", phones.KOREAN),
        ("+82)10-1234-5678", phones.KOREAN),
        ("＋82 (0)2-123-4567", phones.KOREAN),
        ("+33.1.23.45.67.89", phones.INTERNATIONAL),
        ("(+49) 30/1234567", phones.INTERNATIONAL),
        ("+44 (0)20 7946 0958", phones.INTERNATIONAL),
        ("+1.7035555555", phones.INTERNATIONAL),
        ("0033 1 23 45 67 89", phones.INTERNATIONAL),
        ("+7 (495) 123-45-67", phones.INTERNATIONAL),
        ("(415) 555-0132", phones.INTERNATIONAL),
        ("82-10-1234-5678", phones.KOREAN),
        ("0502-123-4567", phones.KOREAN),
    ],
)
def test_phone_numbers_are_found_however_they_are_grouped(number: str, rule: str) -> None:
    """RUN-28: pii-phones."""
    assert found(f"문의: {number}, 끝") == [(rule, number)]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Tel: 020 7946 0958", "020 7946 0958"),
        ("My Israeli number is 09-7625400", "09-7625400"),
        ("WhatsApp 13812345678", "13812345678"),
        ("call 415 555 0132", "415 555 0132"),
    ],
)
def test_national_numbers_are_found_behind_a_word(text: str, number: str) -> None:
    """RUN-28."""
    assert found(text) == [(phones.INTERNATIONAL, number)]


@pytest.mark.parametrize(
    "text",
    [
        "accuracy 0.5454545454545454",
        "x=3.01012345678",
        "x=+3.01012345678",
        "loss .4111111111111111",
        "p=4.111111111111111e-05",
        "0,4111111111111111",
        "계좌 0.12345678901234",
        "은행 이율 3.1234567890123",
    ],
)
def test_decimals_are_no_personal_data(text: str) -> None:
    """RUN-28: pii-decimals."""
    assert found(text) == []


@pytest.mark.parametrize(
    "number",
    [
        "6759649826438453",  # Maestro
        "5018 0000 0009",  # Maestro with 12 digits, behind a word
        "2200 7702 3456 7891",  # Mir
        "6521 1111 1111 1110",  # RuPay
        "9792 0303 9444 0796",  # Troy
        "5019717010103742",  # Dankort
        "4111.1111.1111.1111",
    ],
)
def test_cards_of_every_scheme_are_found(number: str) -> None:
    """RUN-28: pii-maestro."""
    assert found(f"카드 {number}") == [(cards.CARD, number)]


def test_short_numbers_of_maestro_need_a_word() -> None:
    """RUN-28: one in ten order numbers has such a check digit."""
    assert found("order 501800000009") == []


@pytest.mark.parametrize(
    "name",
    ["logo@2x.png", "icon@3x.PNG", "sprite@1.5x.webp", "AppIcon60x60@2x~ipad.png", "clip@2x.mov", "react@18.2.0.tgz"],
)
def test_file_names_are_no_addresses(name: str) -> None:
    """RUN-28: pii-retina."""
    assert found(f"see {name} there") == []


def test_a_domain_may_look_like_a_density() -> None:
    """RUN-28: 2x.com is a domain."""
    assert found("bob@2x.com") == [(mail.EMAIL, "bob@2x.com")]


@pytest.mark.parametrize(
    "address",
    [
        "홍길동@example.com",
        "user@пример.рф",
        "Dörte@Sörensen.example.com",
        "अजय@डाटा.भारत",
        "квіточка@пошта.укр",
        "χρήστης@παράδειγμα.ελ",
        "用户@例子.广告",
        "a@xn--d1acufc.xn--p1ai",
        "o'brien@corp.local",
    ],
)
def test_addresses_have_letters_of_any_script(address: str) -> None:
    """RUN-28: pii-idn-mail."""
    assert found(f"<{address}>, 끝") == [(mail.EMAIL, address)]


@pytest.mark.parametrize(
    ("text", "address"),
    [("문의kim@example.com으로", "kim@example.com"), ("메일은 홍길동@예시.한국으로", "홍길동@예시.한국")],
)
def test_korean_words_around_an_address_are_none_of_it(text: str, address: str) -> None:
    """RUN-28."""
    assert found(text) == [(mail.EMAIL, address)]


@pytest.mark.parametrize("at", range(0, len(INVISIBLE), 97))
def test_no_invisible_character_hides_a_number(at: int) -> None:
    """RUN-28: pii-invisible, and every 97th of the characters that Unicode calls default-ignorable."""
    value = f"900101{INVISIBLE[at]}-12345{INVISIBLE[at - 1]}68"
    assert found(f"가{INVISIBLE[at]} {value}입니다") == [(korean.RESIDENT, value)]


def test_every_default_ignorable_character_is_left_out() -> None:
    """RUN-28: by Unicode's property, in every form of a text."""
    text = "a" + "".join(INVISIBLE) + "b"
    assert len(INVISIBLE) > 4_000
    assert fold(text).text == fold_phrases(text).text == without_invisible(text) == "ab"


@pytest.mark.parametrize(
    ("text", "rule", "number"),
    [
        ("SSN 536-90-4399", identifiers.US_SSN, "536-90-4399"),
        ("536-90-4399", identifiers.US_SSN, "536-90-4399"),
        ("Social Security: 536904399", identifiers.US_SSN, "536904399"),
        ("912-90-3456", identifiers.US_ITIN, "912-90-3456"),
        ("SIN 123 456 782", identifiers.CA_SIN, "123 456 782"),
        ("NINO: AB 12 34 56 C", identifiers.GB_NINO, "AB 12 34 56 C"),
        ("NHS 943 476 5870", identifiers.GB_NHS, "943 476 5870"),
        ("PPS 6433435F", identifiers.IE_PPS, "6433435F"),
        ("TFN 123 456 782", identifiers.AU_TFN, "123 456 782"),
        ("IRD 49-098-576", identifiers.NZ_IRD, "49-098-576"),
        ("Aadhaar 2341 2341 2346", identifiers.IN_AADHAAR, "2341 2341 2346"),
        ("PAN ACUPA7085R", identifiers.IN_PAN, "ACUPA7085R"),
        ("South African ID 7503305044089", identifiers.ZA_ID, "7503305044089"),
        ("면허번호 11-22-123456-12", korean.DRIVER, "11-22-123456-12"),
    ],
)
def test_national_identifiers(text: str, rule: str, number: str) -> None:
    """RUN-28."""
    assert found(text) == [(rule, number)]


@pytest.mark.parametrize("number", ["000-12-3456", "666-12-3456", "123-00-4567", "123-45-0000", "078-05-1120"])
def test_social_security_numbers_that_nobody_has(number: str) -> None:
    """RUN-28: the last one was printed on a specimen."""
    assert found(f"SSN {number}") == []


_UNITS = (
    "a",
    "1",
    "0",
    "a@",
    "\u0301",
    "a\u0301",
    "+",
    "+1",
    "tel ",
    "1 ",
    "1-",
    "1.",
    "GB29 ",
    "은행 1-",
    "(",
    "ﬁa",
    "\u200ba",
)


@pytest.mark.parametrize("unit", _UNITS)
def test_a_text_without_a_stop_takes_few_checks(unit: str) -> None:
    """RUN-17, RUN-28: nothing is found, and the checks of a library are bounded by the length of the text."""
    text = unit * (200_000 // len(unit))
    search = Search(BOTH)
    folded = fold(text)
    assert search.find(0, text, folded) == []
    assert all(MAX_CHECKS - checks.left <= len(text) // 2 for checks in search.checks.values())
    if folded.text:
        assert folded.original(0, len(folded.text)) == (unit.startswith("\u200b"), len(text))


def test_ten_megabytes_without_a_blank_fit_the_timebox() -> None:
    """RUN-17, RUN-28: 50 documents of 200,000 characters, within 90 seconds of a processor."""
    documents = [{"id": f"d{number}", "text": "@" * 200_000} for number in range(50)]
    inputs = ComplianceInputs.model_validate({"documents": documents, "policy": {"presets": ["advertising_claims"]}})
    started = time.process_time()
    result = pack.run(inputs)
    assert time.process_time() - started < 90
    assert isinstance(result, PackSuccess)
    assert result.data["findings"] == []


def test_a_rule_set_that_has_used_up_its_checks_is_named() -> None:
    """RUN-17, RUN-28: what it found before stands, and the other rule set is complete."""
    search = Search(BOTH, checks={"personal_data_international": Checks(3)})
    text = "a@example.com " * 5 + "900101-1234568"
    assert [one.rule for one in search.find(0, text, fold(text))] == [*[mail.EMAIL] * 3, korean.RESIDENT]
    assert search.incomplete == {"personal_data_international"}
