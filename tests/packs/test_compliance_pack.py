"""The compliance pack as a whole: client's rules, verdicts, bounds, prices (RUN-28, RUN-23, RUN-31)."""

import json
import time
from typing import Any

import pytest
from pydantic import ValidationError

from dpp.packs import prices
from dpp.packs.compliance import pack
from dpp.packs.compliance.client_rules import MAX_MATCHES
from dpp.packs.contract import PackFailure, PackReason, PackResult, PackSuccess
from dpp.packs.frames import MAX_ANSWER_BYTES
from dpp.packs.inputs.compliance import ComplianceInputs

SECRET = "the-client-said-this"


def check(*texts: str, **rules: Any) -> PackResult:
    documents = [{"id": f"d{number}", "text": text} for number, text in enumerate(texts)]
    return pack.run(ComplianceInputs.model_validate({"documents": documents, **rules}))


def data(result: PackResult) -> Any:
    assert isinstance(result, PackSuccess), result
    return result.data


def spans(result: PackResult) -> list[tuple[str, str, int | None, int | None]]:
    return [(one["document"], one["rule"], one["start"], one["end"]) for one in data(result)["findings"]]


def test_a_finding_says_where_and_what_but_never_the_value() -> None:
    """RUN-28."""
    result = check("문의: kim@example.com", "주민번호 900101-1234568", "없음")
    assert data(result) == {
        "verdict": "fail",
        "fail_at": "high",
        "review_at": "low",
        "counts": {"low": 0, "medium": 1, "high": 0, "critical": 1},
        "documents": [
            {"id": "d0", "verdict": "review", "findings": 1},
            {"id": "d1", "verdict": "fail", "findings": 1},
            {"id": "d2", "verdict": "pass", "findings": 0},
        ],
        "findings": [
            {
                "document": "d0",
                "kind": "personal_data",
                "rule": "email",
                "severity": "medium",
                "confidence": "medium",
                "start": 4,
                "end": 19,
                "excerpt": "***@*******.***",
            },
            {
                "document": "d1",
                "kind": "personal_data",
                "rule": "kr_resident_registration_number",
                "severity": "critical",
                "confidence": "high",
                "start": 5,
                "end": 19,
                "excerpt": "******-*******",
            },
        ],
        "truncated": False,
        "omitted_findings": 0,
        "incomplete_rules": [],
    }


def test_a_card_shows_its_last_four() -> None:
    """RUN-28: what PCI DSS lets anybody see."""
    assert data(check("5555 5555 5555 4444"))["findings"][0]["excerpt"] == "**** **** **** 4444"


def test_required_clauses_are_missed_in_each_document_that_lacks_them() -> None:
    """RUN-28: any wording will do, whatever the case, width and line breaks."""
    clause = {"id": "refund", "any_of": ["Refund within\u200b 30 days", "환불은 30일"], "severity": "critical"}
    result = check(
        "A REFUND\n  within ３０ days.", "환불은\n30일 이내", "no refund", required_clauses=[clause], rule_sets=[]
    )
    assert spans(result) == [("d2", "refund", None, None)]
    finding = data(result)["findings"][0]
    assert (finding["kind"], finding["severity"], finding["excerpt"]) == ("required_clause", "critical", None)


def test_forbidden_clauses_are_found_wherever_they_stand() -> None:
    """RUN-28: each place once, even if two wordings come to the same."""
    clause = {"id": "no-refund", "any_of": ["no  refund", "NO REFUND"], "severity": "low"}
    result = check("No\nrefund. ｎｏ refund", rule_sets=[], forbidden_clauses=[clause])
    assert spans(result) == [("d0", "no-refund", 0, 9), ("d0", "no-refund", 11, 20)]
    assert data(result)["findings"][0]["excerpt"] == "*********"
    assert data(result)["verdict"] == "review"


def test_patterns_run_through_re2_on_folded_text_with_places_in_the_original() -> None:
    """RUN-28."""
    patterns = [
        {"id": "case", "pattern": r"(?:hangul|한글)[0-9]+", "case_sensitive": False},
        {"id": "exact", "pattern": "HANGUL1"},
    ]
    text = "é 한글１２ \u1112\u1161\u11ab글3 HanGul1"
    result = check(text, rule_sets=[], patterns=patterns)
    places = [(rule, text[start:end]) for _, rule, start, end in spans(result) if start is not None]
    assert places == [("case", "한글１２"), ("case", "\u1112\u1161\u11ab글3"), ("case", "HanGul1")]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(", "not a regular expression that RE2 accepts"),
        (r"(a)\1", "not a regular expression that RE2 accepts"),
        (f"(?={SECRET})", "not a regular expression that RE2 accepts"),
        ("((((a{100}){100}){100}){100})", "not a regular expression that RE2 accepts"),
        ("a*", "matches the empty text, and so everywhere"),
    ],
)
def test_a_pattern_that_can_not_be_used_is_named_by_its_place(pattern: str, why: str) -> None:
    """RUN-28, RUN-31: and never quoted, not even on standard error."""
    good = {"id": "good", "pattern": "x"}
    with pytest.raises(ValidationError) as refused:
        check("x", patterns=[good, {"id": "bad", "pattern": pattern}])
    [fault] = refused.value.errors(include_input=False)
    assert (fault["loc"], fault["msg"]) == (("patterns", 1), f"Value error, {why}")
    assert SECRET not in str(refused.value)


def test_re2_does_not_log_a_broken_pattern(capfd: pytest.CaptureFixture[str]) -> None:
    """RUN-31: its own log would quote it."""
    with pytest.raises(ValidationError):
        check("x", patterns=[{"id": "bad", "pattern": f"{SECRET}("}])
    assert capfd.readouterr() == ("", "")


def test_a_wording_of_nothing_visible_is_refused() -> None:
    """RUN-28: it would stand everywhere."""
    result = check("x", forbidden_clauses=[{"id": "blank", "any_of": ["x", "\u200b"]}])
    expected = PackFailure(
        reason_code=PackReason.PACK_INPUTS_INVALID, detail="forbidden_clauses[0]: a wording is empty"
    )
    assert result == expected


@pytest.mark.parametrize("pattern", ["(a|aa)+$", "(a*)*b", "(.*.*.*x)+", r"\ba"])
def test_no_pattern_takes_forever(pattern: str) -> None:
    """RUN-28: in time proportional to the text."""
    started = time.process_time()
    check("a " * 50_000, patterns=[{"id": "p", "pattern": pattern}], rule_sets=[])
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("fail_at", "review_at", "verdict"),
    [("medium", "low", "fail"), ("high", "medium", "review"), ("high", "high", "pass"), ("critical", "low", "review")],
)
def test_the_most_severe_finding_decides(fail_at: str, review_at: str, verdict: str) -> None:
    """RUN-28: an e-mail address is of medium severity."""
    result = check("124-81-00998 kim@example.com", fail_at=fail_at, review_at=review_at)
    assert data(result)["verdict"] == verdict


def test_of_too_many_findings_the_most_severe_are_kept_and_it_is_said() -> None:
    """RUN-28: counts and verdict are of all."""
    found = data(check("a@b.com " * 5 + "900101-1234568", "a@b.com", max_findings=2))
    assert [(one["document"], one["rule"], one["start"]) for one in found["findings"]] == [
        ("d0", "email", 0),
        ("d0", "kr_resident_registration_number", 40),
    ]
    assert (found["truncated"], found["omitted_findings"]) == (True, 5)
    assert found["counts"] == {"low": 0, "medium": 6, "high": 0, "critical": 1}
    assert found["documents"][1]["findings"] == 1


@pytest.mark.parametrize("pattern", ["x", r"\b|y"])
def test_a_rule_that_matches_everywhere_is_stopped_and_named(pattern: str) -> None:
    """RUN-28: the other rules are not."""
    rules = [{"id": "everywhere", "pattern": pattern}, {"id": "once", "pattern": "z"}]
    found = data(check("x " * (MAX_MATCHES + 1) + "z", rule_sets=[], patterns=rules))
    assert (found["truncated"], found["incomplete_rules"]) == (True, ["everywhere"])
    assert found["findings"][-1]["rule"] == ("everywhere" if pattern == "x" else "once")


def test_exactly_as_many_as_may_be_is_complete() -> None:
    """RUN-28."""
    found = data(check("x" * MAX_MATCHES, rule_sets=[], patterns=[{"id": "p", "pattern": "x"}]))
    assert found["incomplete_rules"] == []
    assert found["counts"]["medium"] == MAX_MATCHES


def test_the_order_of_the_documents_changes_no_finding() -> None:
    """RUN-28."""
    texts = ["kim@example.com", "", "010-1234-5678 kim@example.com"]
    rules = {"patterns": [{"id": "p", "pattern": "[a-z]+@"}]}
    one = {(texts[int(name[1])], *rest) for name, *rest in spans(check(*texts, **rules))}
    texts.reverse()
    assert one == {(texts[int(name[1])], *rest) for name, *rest in spans(check(*texts, **rules))}


def test_the_largest_answer_fits_the_envelope_and_shows_nothing() -> None:
    """RUN-18, RUN-31: a thousand findings with ids as long as can be."""
    long = "x" * 63
    patterns = [{"id": f"{letter}{long}", "pattern": "secret[0-9]+"} for letter in "abcdefghij"]
    documents = [{"id": f"d{long}", "text": "secret12345678901234567890 " * 7_000}]
    body = {"documents": documents, "patterns": patterns, "max_findings": 1_000}
    result = pack.run(ComplianceInputs.model_validate(body))
    assert len(data(result)["findings"]) == 1_000
    payload = result.model_dump_json()
    assert len(payload.encode()) < 0.9 * MAX_ANSWER_BYTES
    assert "secret" not in payload
    assert "12345" not in payload


@pytest.mark.parametrize(
    "change",
    [
        {"documents": []},
        {"documents": [{"id": "a", "text": SECRET}] * 2},
        {"documents": [{"id": "a b", "text": SECRET}]},
        {"documents": [{"id": "a", "text": SECRET + "x" * 200_000}]},
        {"documents": [{"id": f"d{number}", "text": SECRET} for number in range(51)]},
        {"rule_sets": []},
        {"rule_sets": ["personal_data_kr"] * 2},
        {"rule_sets": ["everything"]},
        {"patterns": [{"id": "p", "pattern": SECRET + "x" * 500}]},
        {"patterns": [{"id": "p", "pattern": SECRET}] * 2},
        {"patterns": [{"id": f"p{number}", "pattern": SECRET} for number in range(21)]},
        {"forbidden_clauses": [{"id": "c", "any_of": []}]},
        {"forbidden_clauses": [{"id": "c", "any_of": [" \n"]}]},
        {"required_clauses": [{"id": "c", "any_of": [SECRET]}], "patterns": [{"id": "c", "pattern": "x"}]},
        {"fail_at": "never"},
        {"max_findings": 1_001},
    ],
)
def test_inputs_out_of_bounds_are_refused_without_quoting_them(change: dict[str, Any]) -> None:
    """RUN-28, RUN-31."""
    good = {"documents": [{"id": "a", "text": SECRET}]}
    ComplianceInputs.model_validate(good)
    with pytest.raises(ValidationError) as refused:
        ComplianceInputs.model_validate(good | change)
    assert SECRET not in str(refused.value)
    assert "input_value" not in str(refused.value)
    assert SECRET not in repr(ComplianceInputs.model_validate(good))


def test_the_usual_document_takes_a_fraction_of_a_second() -> None:
    """RUN-17, RUN-28: twenty thousand characters."""
    text = "환불은 구매일로부터 30일 이내에 가능합니다. 문의 010-1234-5678, kim@example.com\n" * 350
    started = time.process_time()
    result = check(text, patterns=[{"id": "p", "pattern": "(?i)refund|환불"}])
    assert time.process_time() - started < 0.7
    assert json.loads(result.model_dump_json())["cost_usd_micros"] == 10_000 + 3 * 500 + 100


@pytest.mark.parametrize(
    ("characters", "patterns", "micros"),
    [(0, 20, 10_000), (1, 0, 10_500), (10_001, 1, 11_100), (1_000_000, 20, 80_000)],
)
def test_a_check_costs_what_the_table_says(characters: int, patterns: int, micros: int) -> None:
    """RUN-23, RUN-28, docs/packs.md."""
    assert prices.compliance_cost_usd_micros(characters=characters, patterns=patterns) == micros
