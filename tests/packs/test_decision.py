"""The decision pack offline: what it quotes, and how sure it says it is (RUN-25)."""

import time
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpp.packs.contract import PackRequest, PackResult, PackSuccess, PackType
from dpp.packs.decision import extractive, pack
from dpp.packs.decision.sentences import split
from dpp.packs.decision.terms import forms
from dpp.packs.inputs.decision import DecisionInputs
from dpp.platform.config import ModelSettings

POLICY = (
    "환불은 구매일로부터 30일 이내에 가능합니다. 배송비는 고객이 부담합니다.단, "
    "제품에 하자가 있으면 회사가 부담합니다.\n"
    'Returns go to the warehouse in Busan. Dr. Kim approves them within 3.5 hours. "Who pays?" The customer '
    "pays for shipping of returns."
)


def run(inputs: Mapping[str, Any]) -> PackResult:
    request = PackRequest(
        run_id="run", pack_type=PackType.DECISION, inputs=dict(inputs), timebox_sec=5, max_cost_usd_micros=250_000
    )
    return pack.run(DecisionInputs.model_validate(inputs), request, ModelSettings.load({}))


def succeeded(result: PackResult) -> PackSuccess:
    assert isinstance(result, PackSuccess), result
    return result


class TestExtractive:
    """Offline: quotes the context, or says that it can't (RUN-25)."""

    @pytest.mark.parametrize(
        ("question", "answer"),
        [
            ("환불은 언제까지 가능한가요?", "환불은 구매일로부터 30일 이내에 가능합니다."),
            ("배송비를 누가 부담하나요?", "배송비는 고객이 부담합니다."),
            ("하자가 있는 제품은?", "단, 제품에 하자가 있으면 회사가 부담합니다."),
            ("Who approves?", "Dr. Kim approves them within 3.5 hours."),
            ("Where is the warehouse?", "Returns go to the warehouse in Busan."),
            ("Who pays shipping?", "The customer pays for shipping of returns."),
        ],
    )
    def test_brief_quotes_the_one_sentence_that_answers(self, question: str, answer: str) -> None:
        """RUN-25: Korean by its stems, English without its endings."""
        success = succeeded(run({"question": question, "context": POLICY}))
        assert success.data["answer_text"] == answer
        assert success.data["engine"] == "extractive"
        confidence = success.data["confidence"]
        assert isinstance(confidence, float)
        assert 0 < confidence <= 0.95
        assert success.reliability_score == confidence
        assert "evidence" not in success.data
        assert success.tokens_consumed == 0

    def test_full_quotes_several_with_their_places_in_the_order_of_the_text(self) -> None:
        """RUN-25."""
        success = succeeded(run({"question": "배송비는 누가 부담하나요?", "context": POLICY, "mode": "full"}))
        evidence = cast("list[dict[str, Any]]", success.data["evidence"])
        assert len(evidence) == 2
        assert [POLICY[one["start"] : one["end"]] for one in evidence] == [one["text"] for one in evidence]
        assert [one["start"] for one in evidence] == sorted(one["start"] for one in evidence)
        assert success.data["answer_text"] == "\n".join(one["text"] for one in evidence)

    @pytest.mark.parametrize("context", [None, "", " \n ", POLICY])
    @pytest.mark.parametrize(
        ("question", "said"), [("What is the capital of France?", "context"), ("수도는 어디인가요?", "문맥")]
    )
    def test_without_an_answer_it_says_so_and_is_sure_of_nothing(
        self, context: str | None, question: str, said: str
    ) -> None:
        """RUN-25: never a canned answer."""
        success = succeeded(run({"question": question, "context": context}))
        assert said in str(success.data["answer_text"])
        assert success.data["confidence"] == 0.0
        assert success.reliability_score == 0.0

    @given(context=st.text(max_size=300), question=st.text(min_size=1, max_size=50))
    @settings(max_examples=60, deadline=None)
    def test_it_quotes_verbatim_or_not_at_all(self, context: str, question: str) -> None:
        """RUN-25: whatever the text, evidence is where it is said to be."""
        inputs = DecisionInputs.model_construct(question=question, context=context, mode="full")
        answer = extractive.answer(inputs)
        assert 0 <= answer.confidence <= 0.95
        assert all(context[one.start : one.end] == one.text for one in answer.evidence)

    @given(st.text(alphabet=" a가.!?。\n\"')(", max_size=400))
    @settings(max_examples=60, deadline=None)
    def test_sentences_lose_nothing_but_blanks(self, text: str) -> None:
        """RUN-25."""
        kept = "".join(sentence.text for sentence in split(text))
        assert "".join(kept.split()) == "".join(text.split())

    @pytest.mark.parametrize("piece", ["가", "a. ", '.")', " ", ".", "\n "])
    def test_a_hostile_context_of_the_largest_size_takes_linear_time(self, piece: str) -> None:
        """RUN-17, RUN-25."""
        context = (piece * 200_000)[:200_000]
        started = time.process_time()
        succeeded(run({"question": "가나 a", "context": context}))
        assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("환불은", "환불을"),
        ("가능한가요", "가능합니다"),
        ("신청하나요", "신청할"),
        ("발송되나요", "발송됩니다"),
        ("나오나요", "나옵니다"),
        ("받나요", "받습니다"),
        ("책은", "책을"),
        ("휴가는", "휴가"),
        ("설치했나요", "설치합니다"),
        ("refunds", "refund"),
        ("moving", "moved"),
    ],
)
def test_words_agree_whatever_is_glued_to_them(one: str, other: str) -> None:
    """RUN-25: particles and endings, without a dictionary."""
    assert forms(one) & forms(other)


@pytest.mark.parametrize(
    ("one", "other"), [("배송비는", "관리비는"), ("회의는", "회사는"), ("보증", "보관"), ("rent", "rest")]
)
def test_other_words_do_not(one: str, other: str) -> None:
    """RUN-25."""
    assert not forms(one) & forms(other)


@pytest.mark.parametrize("word", ["있나요", "하나요", "수", "the", "what"])
def test_a_word_that_says_nothing_has_no_form(word: str) -> None:
    """RUN-25."""
    assert not forms(word)
