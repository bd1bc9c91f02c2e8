"""The compliance pack's personal data rules, by published examples and by properties (RUN-28)."""

import random
import re
from datetime import date
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stdnum import luhn

from dpp.packs.compliance import cards, checksums, international, korean, mail, phones
from dpp.packs.compliance.findings import CONFIDENCES, Candidate, masked, without_overlaps
from dpp.packs.compliance.personal_data import RULES, Search
from dpp.packs.folding import fold, fold_phrases
from dpp.packs.inputs.compliance import RuleSet

BOTH: tuple[RuleSet, ...] = ("personal_data_kr", "personal_data_international")
FULL_WIDTH = {place: place + 0xFEE0 for place in range(0x21, 0x7F)} | {0x20: 0x3000}


def found(text: str, rule_sets: tuple[RuleSet, ...] = BOTH) -> list[tuple[str, str, str]]:
    """Rule, confidence and the characters of each finding."""
    findings = Search(rule_sets).find(0, text, fold(text))
    return [(one.rule, one.confidence, text[one.start : one.end]) for one in findings]


class TestChecksums:
    """Check digits, by examples that others publish (RUN-28)."""

    @pytest.mark.parametrize("number", ["9710139019902", "9001011234568", "8001011000008"])
    def test_resident_numbers(self, number: str) -> None:
        """RUN-28: the first one is python-stdnum's."""
        assert checksums.resident_number_checks(number)
        assert not checksums.resident_number_checks(number[:-1] + str((int(number[-1]) + 1) % 10))

    @pytest.mark.parametrize(
        ("number", "birth"),
        [
            ("9710139019902", date(1897, 10, 13)),
            ("0002293000000", date(2000, 2, 29)),
            ("0002291000000", None),
            ("9913011000000", None),
            ("8505057000000", date(2085, 5, 5)),
        ],
    )
    def test_the_seventh_digit_tells_the_century(self, number: str, birth: date | None) -> None:
        """RUN-28."""
        assert checksums.resident_birth(number) == birth

    def test_foreigners_have_a_check_digit_of_their_own(self) -> None:
        """RUN-28: two more than a citizen's."""
        assert [digit for digit in range(10) if checksums.resident_number_checks(f"850505512345{digit}")] == [6]

    @pytest.mark.parametrize("number", ["1248100998", "2208162517", "1208147521", "1168200276"])
    def test_business_numbers(self, number: str) -> None:
        """RUN-28: of companies that print theirs at the foot of their pages; the last one is python-stdnum's."""
        assert checksums.business_number_checks(number)
        assert not checksums.business_number_checks(number[:-1] + str((int(number[-1]) + 1) % 10))

    @pytest.mark.parametrize(
        "number",
        [
            "4111111111111111",
            "4222222222222",
            "5555555555554444",
            "2223003122003222",
            "378282246310005",
            "6011111111111117",
            "30569309025904",
            "38520000023237",
            "3530111333300000",
            "6200000000000005",
        ],
    )
    def test_test_cards_of_the_schemes(self, number: str) -> None:
        """RUN-28: the numbers that payment providers publish for tests."""
        assert cards.confidence(number, named=True) == "high"

    @pytest.mark.parametrize(
        "number", ["1234567812345670", "41111111111111", "2220990000000000", "2721000000000000", "7411111111111111"]
    )
    def test_no_scheme_issues_these(self, number: str) -> None:
        """RUN-28: Luhn alone is a tenth of all numbers, so the first digits and the length have a say."""
        fitting = next(number[:-1] + digit for digit in "0123456789" if luhn.is_valid(number[:-1] + digit))
        assert cards.confidence(fitting, named=True) is None

    @pytest.mark.parametrize(
        "iban",
        [
            "GB29NWBK60161331926819",
            "DE89370400440532013000",
            "FR1420041010050500013M02606",
            "NO9386011117947",
            "MT84MALT011000012345MTLCAST001S",
            "SA0380000000608010167519",
            "BE68539007547034",  # of a bank that python-stdnum doesn't list
        ],
    )
    def test_ibans_of_the_registry(self, iban: str) -> None:
        """RUN-28: and their last character can be no other one."""
        assert found(iban) == [(international.IBAN, "high", iban)]
        wrong = iban[:-1] + ("9" if iban[-1] == "8" else "8")
        assert (international.IBAN, "high", wrong) not in found(wrong)

    def test_the_specimen_of_icao(self) -> None:
        """RUN-28: ICAO 9303-4, appendix A."""
        line = "L898902C36UTO7408122F1204159ZE184226B<<<<<10"
        assert checksums.travel_document_checks(line)
        assert not any(
            checksums.travel_document_checks(line[:place] + "7" + line[place + 1 :]) for place in (0, 9, 14, 30, 43)
        )

    @given(st.text("0123456789", min_size=14, max_size=14), st.integers(0, 14), st.integers(1, 9))
    def test_luhn_sees_every_single_wrong_digit(self, body: str, place: int, change: int) -> None:
        """RUN-28: and exactly one check digit fits."""
        fitting = [number for digit in range(10) if cards.confidence(number := f"4{body}{digit}", named=True)]
        assert len(fitting) == 1
        wrong = str((int(fitting[0][place]) + change) % 10)
        assert place == 0 or cards.confidence(fitting[0][:place] + wrong + fitting[0][place + 1 :], named=True) is None


class TestFinders:
    """Rule, confidence and end of each finding (RUN-28)."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("주민번호 900101-1234568입니다", [(korean.RESIDENT, "high", "900101-1234568")]),
            ("9001011234568", [(korean.RESIDENT, "high", "9001011234568")]),
            ("900101 - 1234568", [(korean.RESIDENT, "high", "900101 - 1234568")]),
            ("850505-5123456", [(korean.FOREIGNER, "high", "850505-5123456")]),
            # No check digit since October 2020: likely, not sure; and without a hyphen only if born since.
            ("210805-3234567", [(korean.RESIDENT, "low", "210805-3234567")]),
            ("2108053234567", [(korean.RESIDENT, "low", "2108053234567")]),
            ("900101-1234567", [(korean.RESIDENT, "low", "900101-1234567")]),
            ("9001011234567", [(korean.RESIDENT, "low", "9001011234567")]),
            ("9001019934567", []),  # no place of registration has 99
            ("8801234567893", []),  # a bar code with its check digit
            ("960303-0021413", []),  # nobody born before 1900 got a number with random digits
            ("900132-1234568", []),
            ("1900101-1234568", []),
            ("900101-12345681", []),
            ("124-81-00998", [(korean.BUSINESS, "high", "124-81-00998")]),
            ("124-81-00997", []),
            ("사업자등록번호: 1248100998", [(korean.BUSINESS, "medium", "1248100998")]),
            ("1248100998", []),
            ("010-1234-5678로 전화", [(phones.KOREAN, "medium", "010-1234-5678")]),
            ("(02) 123-4567", [(phones.KOREAN, "medium", "(02) 123-4567")]),
            ("+82 10 1234 5678", [(phones.KOREAN, "medium", "+82 10 1234 5678")]),
            ("0212345678", [(phones.KOREAN, "low", "0212345678")]),
            ("0101-1234-5678", []),
            ("여권 m123a4567", [(korean.PASSPORT, "medium", "m123a4567")]),
            ("M12345678", [(korean.PASSPORT, "low", "M12345678")]),
            ("m12345678", [(korean.PASSPORT, "low", "m12345678")]),
            ("s20240101", []),
            ("국민은행 123456-04-123456", [(korean.ACCOUNT, "medium", "123456-04-123456")]),
            ("주문 123456-04-123456", []),
            ("4111 1111 1111 1111.", [(cards.CARD, "high", "4111 1111 1111 1111")]),
            ("3782-822463-10005", [(cards.CARD, "high", "3782-822463-10005")]),
            ("9410123412341237", [(cards.CARD, "medium", "9410123412341237")]),
            ("4111 1111 1111 1112", []),
            ("4111-1111 1111 1111", []),
            ("(gb29 nwbk 6016 1331 9268 19)", [(international.IBAN, "high", "gb29 nwbk 6016 1331 9268 19")]),
            ("DE89370400440532013000 or", [(international.IBAN, "high", "DE89370400440532013000")]),
            ("DE89370400440532013001", []),
            ("...kim.lee+x@mail.example.com으로", [(mail.EMAIL, "medium", "kim.lee+x@mail.example.com")]),
            ("kim@localhost", []),
            ("+1 (415) 555-2671", [(phones.INTERNATIONAL, "medium", "+1 (415) 555-2671")]),
            ("+442079460958", [(phones.INTERNATIONAL, "medium", "+442079460958")]),
            ("+1 2", []),
            ("Passport no. 123456789", [(international.PASSPORT, "medium", "123456789")]),
            (
                "L898902C36UTO7408122F1204159ZE184226B<<<<<10\n",
                [(international.PASSPORT_ZONE, "high", "L898902C36UTO7408122F1204159ZE184226B<<<<<10")],
            ),
            ("2024-01-02, 1,234,567 KRW, v1.2.3, 123-456", []),
        ],
    )
    def test_what_is_taken_for_what(self, text: str, expected: list[tuple[str, str, str]]) -> None:
        """RUN-28."""
        assert found(text) == expected

    def test_each_rule_set_has_its_own(self) -> None:
        """RUN-28."""
        text = "010-1234-5678 kim@example.com"
        assert [rule for rule, _, _ in found(text, ("personal_data_kr",))] == [phones.KOREAN]
        assert [rule for rule, _, _ in found(text, ("personal_data_international",))] == [mail.EMAIL]

    @pytest.mark.parametrize(
        ("text", "rule"),
        [
            ("９００１０１－１２３４５６８", korean.RESIDENT),
            ("900101\u20131234568", korean.RESIDENT),
            ("9\u200b00101-\u00ad1234568", korean.RESIDENT),
            ("０１０ㅡ１２３４ㅡ５６７８", phones.KOREAN),
            ("\u0664\u0661\u0661\u0661 1111 1111 1111", cards.CARD),
            ("kim＠example．com", mail.EMAIL),
            ("4111\u00a01111\u00a01111\u00a01111", cards.CARD),
        ],
    )
    def test_other_ways_to_write_a_character_hide_nothing(self, text: str, rule: str) -> None:
        """RUN-28: and the span is the original's."""
        assert found(f"é가{text}나") == [(rule, found(text)[0][1], text)]

    @given(st.sampled_from(["900101-1234568", "010-1234-5678", "4111 1111 1111 1111", "a@b.com", "124-81-00998"]))
    def test_full_width_text_has_its_findings_at_the_same_places(self, value: str) -> None:
        """RUN-28."""
        text = f"가나 {value} 다라"
        wide = text.translate(FULL_WIDTH)
        places = [(one.rule, one.start, one.end) for one in Search(BOTH).find(0, text, fold(text))]
        assert places == [(one.rule, one.start, one.end) for one in Search(BOTH).find(0, wide, fold(wide))]
        assert len(places) == 1

    @given(st.text(alphabet="0123456789- .+@()A가\u200b９", max_size=120))
    def test_findings_lie_in_the_text_and_share_no_character(self, text: str) -> None:
        """RUN-28."""
        findings = Search(BOTH).find(0, text, fold(text))
        ends = [0]
        for one in findings:
            assert one.start is not None
            assert one.end is not None
            assert ends[-1] <= one.start < one.end <= len(text)
            ends.append(one.end)

    @given(
        st.lists(
            st.builds(
                lambda rule, start, length, confidence: Candidate(rule, start, start + length, confidence),
                st.sampled_from(list(RULES)),
                st.integers(0, 30),
                st.integers(1, 8),
                st.sampled_from(CONFIDENCES),
            ),
            max_size=12,
            unique=True,
        ),
        st.integers(0, 99),
    )
    def test_overlaps_are_settled_the_same_way_in_any_order(self, candidates: list[Candidate], seed: int) -> None:
        """RUN-28: and nothing is dropped but for something at least as sure at the same characters."""
        kept = without_overlaps(candidates, list(RULES))
        shuffled = list(candidates)
        random.Random(seed).shuffle(shuffled)
        assert kept == without_overlaps(shuffled, list(RULES))
        assert all(one.end <= other.start for one, other in pairwise(kept))
        for dropped in set(candidates) - set(kept):
            rivals = [one for one in kept if one.start < dropped.end and dropped.start < one.end]
            best = min(CONFIDENCES.index(one.confidence) for one in rivals)
            assert best <= CONFIDENCES.index(dropped.confidence)


class TestFolding:
    """The way back from the searched text to the original (RUN-28)."""

    @given(st.text(max_size=60))
    def test_every_character_has_a_place_and_places_only_move_on(self, text: str) -> None:
        """RUN-28: whatever Unicode holds."""
        for folded in (fold(text), fold_phrases(text)):
            spans = [folded.original(place, place + 1) for place in range(len(folded.text))]
            assert all(0 <= start < end <= len(text) for start, end in spans)
            assert spans == sorted(spans)

    @given(st.text(alphabet=st.characters(max_codepoint=127), max_size=60))
    def test_ascii_is_left_alone(self, text: str) -> None:
        """RUN-28."""
        assert fold(text).text == text

    @given(st.text(alphabet="aB 가ß\u0301\u3000\n\u1112\u1161\u11ab\u200bﬁＡ９", max_size=40))
    def test_a_phrase_is_found_where_it_was_put(self, phrase: str) -> None:
        """RUN-28: folded alone or within a text, it is the same."""
        alone = fold_phrases(phrase).text.strip()
        inside = fold_phrases(f"[{phrase}]").text
        assert alone in inside

    def test_what_is_made_one(self) -> None:
        """RUN-28: decomposed Hangul, ligatures, widths, blanks; case for phrases only."""
        text = "\u1112\u1161\u11ab글 ﬁＡ\u3000\u200b９"
        assert fold(text).text == "한글 fiA 9"
        assert fold_phrases("Ａ \n\t Straße").text == "a strasse"
        start = fold(text).text.index("i")
        assert text[slice(*fold(text).original(start, start + 1))] == "ﬁ"
        assert text[slice(*fold(text).original(0, 2))] == "\u1112\u1161\u11ab글"


@given(st.text(max_size=100), st.integers(0, 4))
def test_a_mask_shows_shape_and_at_most_the_last_digits(value: str, shown: int) -> None:
    """RUN-28, RUN-31: no letter, and no digit but those."""
    mask = masked(value, shown_at_end=shown)
    assert len(mask) <= 64
    assert not re.search(r"[^\W\d_]", mask)
    assert sum(character.isdecimal() for character in mask) <= shown


@given(st.data())
def test_no_finding_shows_what_it_found(data: Any) -> None:
    """RUN-28, RUN-31: for every kind of value, whatever stands around it."""
    value = data.draw(
        st.from_regex(
            re.compile(
                r"(9[0-9]0[1-9][12][0-9]-[1-4][0-9]{6}|010-[0-9]{4}-[0-9]{4}|[a-z]{3,9}@[a-z]{3,9}\.com|M[0-9]{8}"
                r"|\+44 20 [0-9]{4} [0-9]{4}|4[0-9]{15}|계좌 [0-9]{6}-[0-9]{2}-[0-9]{6})",
                re.ASCII,
            ),
            fullmatch=True,
        )
    )
    text = data.draw(st.text("가 \n.", max_size=9)) + value + data.draw(st.text("나 \n,", max_size=9))
    for one in Search(BOTH).find(0, text, fold(text)):
        assert one.excerpt is not None
        shown = 4 if one.rule == cards.CARD else 0
        assert len(re.findall(r"[0-9A-Za-z가-힣]", one.excerpt)) <= shown
