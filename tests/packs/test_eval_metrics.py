"""The metrics of the eval pack, against values worked out by hand (RUN-28)."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from dpp.packs.evaluation import json_match, metrics, numbers, text
from dpp.packs.evaluation.bootstrap import Interval, interval, mean
from dpp.packs.inputs.eval import EvalMetric

TOKENS = st.lists(st.sampled_from("abcd"), max_size=12)
SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def score(metric: dict[str, Any], prediction: JsonValue, *accepted: JsonValue) -> metrics.Score:
    return metrics.scorer(EvalMetric.model_validate(metric))(prediction, accepted)


@pytest.mark.parametrize(
    ("given_text", "normal"),
    [
        ("The  Eiffel Tower.", "eiffel tower"),
        ("ＡＢＣ　１２３", "abc 123"),
        ("it's “well-known”", "its wellknown"),
        ("1,234,567.50", "1234567.50"),
        ("1,5", "1,5"),
        ("10:30, 1/2.", "10:30 1/2"),
        ("-5 \u22125", "-5 -5"),
        ("A", "a"),
        ("the", "the"),
        ("(서울)특별시!", "서울특별시"),
        ("서울", "서울"),
        ("Straße €5", "strasse €5"),
        ("…", ""),
    ],
)
def test_normalisation_drops_what_does_not_make_an_answer_another(given_text: str, normal: str) -> None:
    """RUN-28: SQuAD's rules, without those that make 1.5 into 15 or the choice "A" into nothing."""
    assert text.normalized(given_text) == normal


@pytest.mark.parametrize(
    "answer", ["\ufeffyes", "y\u200bes", "yes\u00ad", "\u2060yes", "y\U000e0065es", "yes\ufe0f", "\u3164yes"]
)
def test_what_can_not_be_seen_makes_no_answer_another(answer: str) -> None:
    """RUN-28: eval-zero-width, and other characters that Unicode calls default-ignorable."""
    assert text.normalized(answer) == text.normalized("yes")
    assert text.tokens(answer, "syllable") == ["yes"]


def test_numbers_and_json_are_read_without_what_can_not_be_seen() -> None:
    """RUN-28: of JSON, only the byte order mark, since strings may hold the rest."""
    assert numbers.from_text("\ufeff1\u200b2") == 12
    assert json_match.read('\ufeff{"a": 1}') == {"a": Decimal(1)}


@given(st.text(max_size=60))
def test_normalisation_leaves_no_superfluous_blank(given_text: str) -> None:
    """RUN-28: no blank around it, none doubled, whatever the text."""
    normal = text.normalized(given_text)
    assert normal == " ".join(normal.split())


def test_korean_is_cut_into_syllables_or_words() -> None:
    """RUN-28."""
    assert text.tokens("환불은 30일 the API", "syllable") == ["환", "불", "은", "30", "일", "the", "api"]
    assert text.tokens("환불은 30일 the API", "word") == ["환불은", "30일", "the", "api"]
    assert text.content_tokens("the API 東京", "word") == ["api", "東", "京"]


@pytest.mark.parametrize(
    ("metric", "prediction", "reference", "value"),
    [
        ({"type": "exact_match"}, "The answer.", "answer", 1.0),
        ({"type": "exact_match"}, "1.5", "15", 0.0),
        ({"type": "exact_match", "normalize": False}, "answer", "answer", 1.0),
        ({"type": "exact_match", "normalize": False}, "Answer", "answer", 0.0),
        # "cat sat" of {cat sat mat} and {cat sat hat big}: 2·2 / (3+4).
        ({"type": "token_f1"}, "the cat sat mat", "a cat sat, hat big", 4 / 7),
        # 서울시 against 서울특별시: 3 syllables of 3 and of 5.
        ({"type": "token_f1"}, "서울시", "서울특별시", 0.75),
        ({"type": "token_f1", "hangul_unit": "word"}, "서울시", "서울특별시", 0.0),
        ({"type": "token_f1"}, "b b b", "b b c", 2 / 3),
        ({"type": "token_f1"}, "", "...", 1.0),
        ({"type": "token_f1"}, "", "b", 0.0),
        # Lin (2004), §3: LCS 3 of 4 and 4; then "the gunman", 2 of 4 and 4.
        ({"type": "rouge_l"}, "police kill the gunman", "police killed the gunman", 0.75),
        ({"type": "rouge_l"}, "the gunman kill police", "police killed the gunman", 0.5),
        ({"type": "rouge_l"}, "나라말싸미", "나랏말쌈", 0.4444444444444444),
        ({"type": "numeric"}, "1,000.0", 1000, 1.0),
        ({"type": "numeric"}, 0.1, "0.10", 1.0),
        ({"type": "numeric"}, "0.30000000000000001", "0.3", 0.0),
        ({"type": "numeric", "absolute_tolerance": "0.1"}, "0.4", "0.3", 1.0),
        ({"type": "numeric", "absolute_tolerance": "0.1"}, "0.4000000000000000001", "0.3", 0.0),
        ({"type": "numeric", "relative_tolerance": "0.01"}, 99, 100, 1.0),
        ({"type": "numeric", "relative_tolerance": "0.01"}, 101.01, 100, 0.0),
        ({"type": "numeric"}, "1e324", "-1e-324", 0.0),
        ({"type": "json_match"}, '{"b": [1.0, "x"], "a": null}', {"a": None, "b": [1, "x"]}, 1.0),
        ({"type": "json_match"}, {"a": 1}, {"a": True}, 0.0),
        ({"type": "json_match"}, [1, 2], [2, 1], 0.0),
        ({"type": "json_match"}, "1e2", 100, 1.0),
        ({"type": "json_match"}, '"1"', 1, 0.0),
        ({"type": "json_match"}, {}, [], 0.0),
        ({"type": "json_match"}, 12345678901234567, "12345678901234567.1", 0.0),
        # 2 of 3 leaves on the one side, 2 of 4 on the other.
        ({"type": "json_match", "partial": True}, {"a": 1, "b": [1, 2]}, {"a": 1, "b": [1, 3, 4]}, 4 / 7),
        ({"type": "json_match", "partial": True}, {"a": {}}, {"a": {}, "b": 1}, 2 / 3),
    ],
)
def test_a_score_is_what_the_definition_says(
    metric: dict[str, Any], prediction: JsonValue, reference: JsonValue, value: float
) -> None:
    """RUN-28."""
    assert score(metric, prediction, reference) == metrics.Score(value)


@pytest.mark.parametrize(
    ("metric", "prediction", "accepted", "expected"),
    [
        ("exact_match", 5, ["5"], metrics.Score(0.0, metrics.Note.NOT_TEXT)),
        ("exact_match", "5", [5], metrics.Score(None, metrics.Note.REFERENCE_NOT_TEXT)),
        ("exact_match", "x", [5, "y", "x"], metrics.Score(1.0)),
        ("numeric", "NaN", ["1"], metrics.Score(0.0, metrics.Note.NOT_A_NUMBER)),
        ("numeric", "Infinity", ["1"], metrics.Score(0.0, metrics.Note.NOT_A_NUMBER)),
        ("numeric", True, [1], metrics.Score(0.0, metrics.Note.NOT_A_NUMBER)),
        ("numeric", "1e325", [1], metrics.Score(0.0, metrics.Note.NOT_A_NUMBER)),
        ("numeric", "1,00", [100], metrics.Score(0.0, metrics.Note.NOT_A_NUMBER)),
        ("numeric", "5 apples", [5], metrics.Score(0.0, metrics.Note.NOT_A_NUMBER)),
        ("numeric", "9" * 65, [5], metrics.Score(0.0, metrics.Note.NOT_A_NUMBER)),
        ("numeric", 1, ["one", None], metrics.Score(None, metrics.Note.REFERENCE_NOT_A_NUMBER)),
        ("json_match", "{", [{}], metrics.Score(0.0, metrics.Note.NOT_JSON)),
        ("json_match", '{"a": 1, "a": 1}', [{"a": 1}], metrics.Score(0.0, metrics.Note.NOT_JSON)),
        ("json_match", "[NaN]", [[1]], metrics.Score(0.0, metrics.Note.NOT_JSON)),
        ("json_match", "[1e999]", [[1]], metrics.Score(0.0, metrics.Note.NOT_JSON)),
        ("json_match", "[" * 5_000 + "]" * 5_000, [[]], metrics.Score(0.0, metrics.Note.NOT_JSON)),
        ("json_match", "[" * 70 + "]" * 70, [[]], metrics.Score(0.0, metrics.Note.NOT_JSON)),
        ("json_match", 1, ["yes"], metrics.Score(None, metrics.Note.REFERENCE_NOT_JSON)),
        ("rouge_l", metrics.MISSING, ["x"], metrics.Score(0.0, metrics.Note.MISSING_PREDICTION)),
        ("rouge_l", metrics.MISSING, [1], metrics.Score(None, metrics.Note.REFERENCE_NOT_TEXT)),
    ],
)
def test_what_can_not_be_read_says_whose_fault_it_is(
    metric: str, prediction: Any, accepted: list[JsonValue], expected: metrics.Score
) -> None:
    """RUN-28: an unreadable prediction scores 0; an unreadable reference is not the system's fault."""
    assert score({"type": metric}, prediction, *accepted) == expected


@given(TOKENS, TOKENS)
def test_token_metrics_are_symmetric_and_bounded(one: list[str], other: list[str]) -> None:
    """RUN-28: and order matters to ROUGE-L alone, which so never exceeds F1."""
    assert metrics.token_f1(one, other) == metrics.token_f1(other, one) == metrics.token_f1(one[::-1], other)
    assert metrics.rouge_l(one, other) == metrics.rouge_l(other, one)
    assert 0 <= metrics.rouge_l(one, other) <= metrics.token_f1(one, other) <= 1
    assert metrics.rouge_l(one, one) == metrics.token_f1(one, one) == 1
    assert (metrics.rouge_l(one, other) == 1) is (one == other)


@given(TOKENS, TOKENS)
def test_the_bitwise_subsequence_is_as_long_as_the_textbooks(one: list[str], other: list[str]) -> None:
    """RUN-28: against the quadratic table."""
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, left in enumerate(one):
        for j, right in enumerate(other):
            longer = max(table[i][j + 1], table[i + 1][j])
            table[i + 1][j + 1] = table[i][j] + 1 if left == right else longer
    assert metrics.longest_common_subsequence(one, other) == table[-1][-1]


NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=6)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_tolerance_is_exact_and_moves_with_the_numbers(one: Decimal, other: Decimal, step: Decimal) -> None:
    """RUN-28: no double in between."""
    distance = abs(one - other)
    zero = Decimal(0)
    assert numbers.within(one, other, absolute=distance, relative=zero)
    assert numbers.within(one + step, other + step, absolute=distance, relative=zero)
    if distance:
        assert not numbers.within(one, other, absolute=distance - Decimal("1e-6"), relative=zero)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_json_number_is_the_decimal_it_is_written_as(value: float) -> None:
    """RUN-28."""
    assert float(numbers.from_json(value)) == value
    assert numbers.from_text(repr(value)) == numbers.from_json(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def typed(value: Any) -> Any:
    """The value with its types told apart, which Python's == does not: True is not 1."""
    if isinstance(value, dict):
        return {name: typed(child) for name, child in value.items()}
    return [typed(child) for child in value] if isinstance(value, list) else (type(value), value)


@given(JSON, JSON)
def test_partial_json_is_one_only_for_the_same_value(one: Any, other: Any) -> None:
    """RUN-28."""
    trees = [json_match.read([value]) for value in (one, other)]
    found = metrics.json_partial(trees[0], trees[1])
    assert 0 <= found <= 1
    assert found == metrics.json_partial(trees[1], trees[0])
    assert (found == 1) is (typed(one) == typed(other))


class TestBootstrap:
    """Intervals that can be repeated (RUN-28)."""

    def test_a_known_sample(self) -> None:
        """95 % of 70 of 100: by the normal approximation 0.70 ± 0.09."""
        found = interval([1.0] * 70 + [0.0] * 30, seed=7, resamples=2_000, confidence_percent=95)
        assert found == Interval(0.61, 0.79)

    @given(SCORES, st.integers(0, 2**53 - 1), st.randoms(use_true_random=False))
    @settings(max_examples=30, deadline=None)
    def test_the_same_scores_and_seed_give_the_same_interval_in_any_order(
        self, scores: list[float], seed: int, shuffler: Any
    ) -> None:
        """RUN-28: it lies within the scores, and a wider one contains it."""
        shuffled = list(scores)
        shuffler.shuffle(shuffled)
        found = interval(scores, seed=seed, resamples=100, confidence_percent=90)
        assert found == interval(shuffled, seed=seed, resamples=100, confidence_percent=90)
        assert mean(scores) == mean(shuffled)
        rounding = 1e-12
        assert min(scores) - rounding <= found.lower <= found.upper <= max(scores) + rounding
        wider = interval(scores, seed=seed, resamples=100, confidence_percent=99)
        assert wider.lower <= found.lower <= found.upper <= wider.upper

    def test_another_seed_draws_others(self) -> None:
        """RUN-28: a seed that is ignored would show here."""
        scores = [value / 17 for value in range(18)]
        found = {interval(scores, seed=seed, resamples=100, confidence_percent=90).lower for seed in range(10)}
        assert len(found) > 3

    def test_one_item_has_no_width(self) -> None:
        """RUN-28."""
        assert interval([0.4], seed=1, resamples=100, confidence_percent=99) == Interval(0.4, 0.4)
