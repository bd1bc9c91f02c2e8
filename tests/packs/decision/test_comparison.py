"""Decisions between options, offline and by a model, and answers of models with their quotes (RUN-25)."""

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest
from pydantic import ValidationError

from dpp.packs.contract import PackFailure, PackReason, PackRequest, PackResult, PackSuccess, PackType
from dpp.packs.decision import pack
from dpp.packs.decision.quotes import verified
from dpp.packs.inputs.decision import DecisionInputs
from dpp.platform.config import ModelSettings
from tests.packs.loopback import serving
from tests.packs.models.test_asking import Provider, completion

CONTEXT = (
    "The Lumo costs 420 dollars, and its quality is excellent. The Tarsis costs 610 dollars. "
    "The quality of the Tarsis is poor."
)
OPTIONS = {
    "question": "Which printer should we buy?",
    "context": CONTEXT,
    "options": [{"name": "Lumo"}, {"name": "Tarsis", "description": "the larger one"}],
    "criteria": [{"name": "price", "weight": 2}, {"name": "quality"}],
}


def run(
    inputs: Mapping[str, Any], settings: Mapping[str, str] | None = None, max_cost_usd_micros: int = 250_000
) -> PackResult:
    request = PackRequest(
        run_id="run",
        pack_type=PackType.DECISION,
        inputs=dict(inputs),
        timebox_sec=5,
        max_cost_usd_micros=max_cost_usd_micros,
    )
    return pack.run(DecisionInputs.model_validate(inputs), request, ModelSettings.load(settings or {}))


def data_of(result: PackResult) -> dict[str, Any]:
    assert isinstance(result, PackSuccess), result
    assert result.reliability_score == result.data["confidence"]
    return cast("dict[str, Any]", result.data)


def asked(provider: Provider, inputs: Mapping[str, Any], max_cost_usd_micros: int = 250_000) -> PackResult:
    with serving(provider) as port:
        url = f"http://127.0.0.1:{port}/v1"
        environ = {"DPP_DECISION_OPENAI_BASE_URL": url, "DPP_DECISION_OPENAI_MODEL": "some-model"}
        return run(inputs, environ, max_cost_usd_micros)


def said(**reply: Any) -> tuple[int, bytes]:
    return 200, completion(json.dumps(reply), tokens=1_500)


def score(option: int, criterion: int, value: float | None, *quotes: str) -> dict[str, Any]:
    return {"option": option, "criterion": criterion, "score": value, "reason": "Because.", "quotes": list(quotes)}


def compared(*scores: dict[str, Any], recommended: int | None = 1, confidence: float = 0.9) -> tuple[int, bytes]:
    return said(
        scores=list(scores), answer_text="The price decides.", recommended_option=recommended, confidence=confidence
    )


SCORES = (
    score(1, 1, 0.9, "costs 420 dollars"),
    score(1, 2, 0.8, "quality is excellent"),
    score(2, 1, 0.3),
    score(2, 2, None),
)


class TestOffline:
    """By numbers and by words of praise and blame."""

    def test_it_recommends_scores_and_quotes(self) -> None:
        """RUN-25: the weights are the client's; every passage is where it is said to be."""
        data = data_of(run(OPTIONS))
        assert (data["engine"], data["recommendation"]) == ("extractive", "Lumo")
        lumo, tarsis = data["options"]
        assert [one["score"] for one in lumo["criteria"]] == [1.0, 0.75]
        assert [one["score"] for one in tarsis["criteria"]] == [0.689, 0.25]
        assert lumo["score"] == round((2 * 1.0 + 0.75) / 3, 4)
        passages = [one for option in (lumo, tarsis) for by in option["criteria"] for one in by["evidence"]]
        assert passages
        assert all(CONTEXT[one["start"] : one["end"]] == one["text"] for one in passages)
        assert data["confidence"] >= 0.8

    def test_a_criterion_of_which_the_context_says_nothing_has_no_score_and_lowers_the_confidence(self) -> None:
        """RUN-25."""
        data = data_of(run(OPTIONS | {"criteria": [{"name": "price"}, {"name": "colour"}]}))
        assert [one["score"] for one in data["options"][0]["criteria"]] == [1.0, None]
        assert data["recommendation"] == "Lumo"
        assert data["confidence"] < 0.5

    @pytest.mark.parametrize("context", [None, " ", "The weather is fine."])
    def test_without_a_word_of_the_options_nothing_is_recommended(self, context: str | None) -> None:
        """RUN-25: never a coin toss."""
        data = data_of(run(OPTIONS | {"context": context}))
        assert (data["recommendation"], data["confidence"]) == (None, 0.0)
        assert [one["score"] for one in data["options"]] == [None, None]

    def test_options_that_are_even_are_said_to_be(self) -> None:
        """RUN-25."""
        even = {"context": "The Lumo costs 5 dollars. The Tarsis costs 5 dollars.", "criteria": [{"name": "price"}]}
        data = data_of(run(OPTIONS | even))
        assert (data["recommendation"], data["tied"], data["confidence"]) == (None, ["Lumo", "Tarsis"], 0.0)

    def test_without_criteria_they_are_compared_as_a_whole(self) -> None:
        """RUN-25."""
        context = "A는 고장이 많고 느립니다. B는 우수하고 안전합니다."
        inputs = {"question": "어느 것이 나은가요?", "context": context, "options": [{"name": "A"}, {"name": "B"}]}
        data = data_of(run(inputs))
        assert data["recommendation"] == "B"
        assert data["options"][0]["criteria"][0]["name"] == pack.AS_A_WHOLE

    def test_the_price_counts_their_texts(self) -> None:
        """RUN-23."""
        result = run(OPTIONS | {"options": [{"name": "Lumo", "description": "x" * 4_000}, {"name": "Tarsis"}]})
        assert isinstance(result, PackSuccess)
        assert result.cost_usd_micros == 50_100


class TestByAModel:
    """The model's scores, held against its own recommendation and the context."""

    def test_it_recommends_by_the_scores_and_the_weights(self) -> None:
        """RUN-25: a score that is missing counts as neither good nor bad."""
        provider = Provider(compared(*SCORES))
        result = asked(provider, OPTIONS)
        data = data_of(result)
        assert (data["recommendation"], data["confidence"], data["model"]) == ("Lumo", 0.9, "some-model")
        assert [one["score"] for one in data["options"]] == [round(2.6 / 3, 4), round(1.1 / 3, 4)]
        first = data["options"][0]["criteria"][0]
        assert first["reason"] == "Because."
        assert first["evidence"] == [{"text": "costs 420 dollars", "start": 9, "end": 26}]
        assert "unverified_quotes" not in data
        assert isinstance(result, PackSuccess)
        assert (result.tokens_consumed, result.cost_usd_micros) == (1_500, 70_000)
        system, user = (one["content"] for one in provider.bodies[0]["messages"])
        assert "Tarsis" not in system
        assert "the larger one" in user

    def test_quotes_that_do_not_stand_in_the_context_are_dropped_and_counted(self) -> None:
        """RUN-25: without a single one that does, the answer is not carried."""
        invented = [score(one, two, 0.5 / one, "made up by the model") for one in (1, 2) for two in (1, 2)]
        data = data_of(asked(Provider(compared(*invented)), OPTIONS))
        assert (data["unverified_quotes"], data["confidence"]) == (4, 0.5)
        assert data["options"][0]["criteria"][0]["evidence"] == []

    def test_a_recommendation_against_its_own_scores_is_said_and_trusted_less(self) -> None:
        """RUN-25."""
        data = data_of(asked(Provider(compared(*SCORES, recommended=2)), OPTIONS))
        assert (data["recommendation"], data["model_recommendation"]) == ("Lumo", "Tarsis")
        assert data["confidence"] == 0.5

    def test_of_tied_options_the_model_s_is_taken(self) -> None:
        """RUN-25."""
        even = [score(one, two, 0.5) for one in (1, 2) for two in (1, 2)]
        data = data_of(asked(Provider(compared(*even, recommended=2)), OPTIONS))
        assert (data["recommendation"], data["tied"]) == ("Tarsis", ["Lumo", "Tarsis"])

    @pytest.mark.parametrize(
        "bad",
        [
            compared(*SCORES[:3]),
            compared(*SCORES, SCORES[0]),
            compared(*SCORES[:3], score(3, 1, 0.5)),
            compared(*SCORES, recommended=3),
        ],
    )
    def test_scores_that_are_missing_twice_or_of_no_option_are_asked_for_again(self, bad: tuple[int, bytes]) -> None:
        """RUN-25."""
        provider = Provider(bad, compared(*SCORES))
        assert data_of(asked(provider, OPTIONS))["recommendation"] == "Lumo"
        assert len(provider.bodies) == 2

    def test_a_question_is_answered_with_quotes_in_full_mode(self) -> None:
        """RUN-25."""
        provider = Provider(
            said(answer_text="420 dollars.", quotes=["The Lumo  costs\n420 dollars", "no"], confidence=0.8)
        )
        inputs = {"question": "What does the Lumo cost?", "context": CONTEXT, "mode": "full"}
        data = data_of(asked(provider, inputs))
        assert data["evidence"] == [{"text": "The Lumo costs 420 dollars", "start": 0, "end": 26}]
        assert (data["answer_text"], data["confidence"], data["unverified_quotes"]) == ("420 dollars.", 0.8, 1)

    @pytest.mark.parametrize(
        "content", ["Just text.", "<think>It may be 420", '{"answer_text": "x", "confidence": 0.5}']
    )
    def test_a_reply_that_is_no_answer_fails_the_run_and_counts_its_tokens(self, content: str) -> None:
        """RUN-24, RUN-25: no answer of confidence 0.5."""
        result = asked(Provider((200, completion(content, tokens=100))), {"question": "the-client-said-this"})
        assert isinstance(result, PackFailure)
        assert result.reason_code is PackReason.PACK_PROVIDER_FAILED
        assert result.tokens_consumed in {100, 300}
        assert "the-client-said-this" not in result.detail

    def test_a_reservation_that_pays_for_no_token_fails_before_anything_is_asked(self) -> None:
        """RUN-24."""
        provider = Provider(compared(*SCORES))
        result = asked(provider, OPTIONS, max_cost_usd_micros=59_999)
        assert isinstance(result, PackFailure)
        assert (result.reason_code, result.tokens_consumed) == (PackReason.PACK_COST_ABOVE_MAXIMUM, 0)
        assert provider.bodies == []


@pytest.mark.parametrize(
    ("quote", "place"),
    [
        ("costs 420", (9, 18)),
        ("“The Lumo costs”", (0, 14)),
        ("costs\n 420", (9, 18)),
        ("Costs 420", None),
        ("a", None),
        ("", None),
        ("(.*)+", None),
        ("x" * 700, None),
    ],
)
def test_a_quote_is_found_in_the_context_s_own_words(quote: str, place: tuple[int, int] | None) -> None:
    """RUN-25: white space may differ, and nothing else."""
    passages, missing = verified([quote], CONTEXT)
    assert [(one.start, one.end) for one in passages] == ([] if place is None else [place])
    assert missing == (place is None)


@pytest.mark.parametrize(
    "change",
    [
        {"options": [{"name": "x"}]},
        {"options": [{"name": str(number)} for number in range(11)]},
        {"options": [{"name": "Lumo"}, {"name": " lumo "}]},
        {"options": [{"name": " "}, {"name": "x"}]},
        {"options": None},
        {"criteria": []},
        {"criteria": [{"name": "price", "weight": 0}]},
        {"criteria": [{"name": "price"}, {"name": "Price"}]},
    ],
)
def test_options_that_can_not_be_compared_are_refused(change: dict[str, Any]) -> None:
    """RUN-3: one option, the same twice, criteria of nothing."""
    DecisionInputs.model_validate(OPTIONS)
    with pytest.raises(ValidationError) as refused:
        DecisionInputs.model_validate(OPTIONS | change)
    assert "umo" not in str(refused.value)
