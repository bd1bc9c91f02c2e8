"""The decision pack: engines, what they answer, and how they fail (RUN-25)."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, cast

import boto3
import pytest
from botocore.stub import Stubber
from hypothesis import given, settings
from hypothesis import strategies as st

from dpp.packs.contract import PackFailure, PackReason, PackRequest, PackResult, PackSuccess, PackType
from dpp.packs.decision import pack
from dpp.packs.decision.bedrock import BedrockEngine, ConverseClient
from dpp.packs.decision.engine import ProviderError
from dpp.packs.decision.extractive import ExtractiveEngine
from dpp.packs.decision.openai_compatible import OpenAICompatibleEngine
from dpp.packs.decision.sentences import split
from dpp.packs.inputs.decision import DecisionInputs
from dpp.platform.config import ConfigurationError, ModelSettings
from tests.packs.loopback import Respond, reply, serving

POLICY = (
    "환불은 구매일로부터 30일 이내에 가능합니다. 배송비는 고객이 부담합니다.단, "
    "제품에 하자가 있으면 회사가 부담합니다.\n"
    'Returns go to the warehouse in Busan. Dr. Kim approves them within 3.5 hours. "Who pays?" The customer '
    "pays for shipping of returns."
)
SECRET = "the-client-said-this"
HANGS_SECONDS = 60  # how long a provider is silent: far beyond the timebox, however slow the machine


def run(inputs: Mapping[str, Any], settings: Mapping[str, str] | None = None, timebox_sec: int = 5) -> PackResult:
    request = PackRequest(
        run_id="run",
        pack_type=PackType.DECISION,
        inputs=dict(inputs),
        timebox_sec=timebox_sec,
        max_cost_usd_micros=250_000,
    )
    return pack.run(DecisionInputs.model_validate(inputs), request, ModelSettings.load(settings or {}))


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
        assert 0 < confidence <= 0.9
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
        answer = ExtractiveEngine().answer(inputs, deadline=0)
        assert 0 <= answer.confidence <= 0.9
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


def completion(content: str, tokens: int = 42) -> bytes:
    return json.dumps({"choices": [{"message": {"content": content}}], "usage": {"total_tokens": tokens}}).encode()


def openai_settings(port: int) -> dict[str, str]:
    return {
        "DPP_DECISION_OPENAI_BASE_URL": f"http://127.0.0.1:{port}/v1/",
        "DPP_DECISION_OPENAI_API_KEY": "provider-key",
        "DPP_DECISION_OPENAI_MODEL": "some-model",
    }


class TestOpenAICompatible:
    """Any endpoint that speaks chat completions (RUN-25)."""

    def ask(self, respond: Respond, *, timebox_sec: int = 5, **inputs: str) -> PackResult:
        with serving(respond) as port:
            return run({"question": SECRET, **inputs}, openai_settings(port), timebox_sec)

    def test_it_asks_for_the_configured_model_and_counts_its_tokens(self) -> None:
        """RUN-25, RUN-23: the price follows the provider's usage."""
        seen: dict[str, Any] = {}

        def respond(handler: BaseHTTPRequestHandler) -> None:
            seen.update(json.loads(handler.rfile.read(int(handler.headers["Content-Length"]))))
            seen["path"], seen["key"] = handler.path, handler.headers["Authorization"]
            reply(handler, completion('```json\n{"answer_text": "Yes.", "confidence": 0.7}\n```', 1_500))

        success = succeeded(self.ask(respond, context="A context."))
        assert success.data == {
            "answer_text": "Yes.",
            "confidence": 0.7,
            "engine": "openai_compatible",
            "mode": "brief",
            "model": "some-model",
        }
        assert success.reliability_score == 0.7
        assert success.tokens_consumed == 1_500
        assert success.cost_usd_micros == 70_000
        assert seen["path"] == "/v1/chat/completions"
        assert seen["key"] == "Bearer provider-key"
        assert seen["model"] == "some-model"
        # What the client wrote stands apart from what we instruct.
        assert SECRET not in seen["messages"][0]["content"]
        assert SECRET in seen["messages"][1]["content"]

    @pytest.mark.parametrize("content", ["Just text.", '{"answer_text": "x", "confidence": 7}', "{}"])
    def test_a_reply_that_is_no_json_answer_is_taken_as_text_of_middling_confidence(self, content: str) -> None:
        """RUN-25."""
        success = succeeded(self.ask(lambda handler: reply(handler, completion(content))))
        assert (success.data["answer_text"], success.data["confidence"]) == (content, 0.5)

    def test_a_busy_provider_is_asked_again(self) -> None:
        """RUN-25."""
        statuses = iter([429, 503, 200])

        def respond(handler: BaseHTTPRequestHandler) -> None:
            reply(handler, completion("Yes."), status=next(statuses))

        assert succeeded(self.ask(respond)).data["answer_text"] == "Yes."

    @pytest.mark.parametrize(
        ("status", "body", "asked", "detail"),
        [
            (500, SECRET.encode(), 3, "openai_compatible: HTTP 500"),
            (401, SECRET.encode(), 1, "openai_compatible: HTTP 401"),
            (302, b"", 1, "openai_compatible: HTTP 302"),
            (200, b"{" + SECRET.encode(), 1, "openai_compatible: not a chat completion"),
            (200, b'{"choices": []}', 1, "openai_compatible: not a chat completion"),
            (200, completion(" "), 3, "openai_compatible: an empty reply"),
            (200, completion("x" * 1_000_000), 1, "openai_compatible: a response of over 1 MB"),
        ],
    )
    def test_a_provider_that_fails_is_named_without_a_word_of_the_input(
        self, status: int, body: bytes, asked: int, detail: str
    ) -> None:
        """RUN-25, RUN-31: bounded retries, a bounded response."""
        calls: list[str] = []

        def respond(handler: BaseHTTPRequestHandler) -> None:
            calls.append(handler.path)
            reply(handler, body, status=status, Location="http://127.0.0.1:1/")

        result = self.ask(respond)
        assert result == PackFailure(reason_code=PackReason.PACK_PROVIDER_FAILED, detail=detail)
        assert len(calls) == asked

    def test_a_provider_that_is_silent_or_drips_is_given_up_within_the_timebox(self) -> None:
        """RUN-17, RUN-25."""
        over = threading.Event()

        def hang(_handler: BaseHTTPRequestHandler) -> None:
            over.wait(HANGS_SECONDS)

        def drip(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.end_headers()
            for _ in range(HANGS_SECONDS * 50):
                handler.wfile.write(b" ")
                if over.wait(0.02):
                    break

        for respond in (hang, drip):
            over.clear()
            with serving(respond) as port:
                started = time.monotonic()
                result = run({"question": SECRET}, openai_settings(port), 1)
                assert time.monotonic() - started < HANGS_SECONDS
                over.set()
            assert isinstance(result, PackFailure)
            assert result.reason_code is PackReason.PACK_PROVIDER_TIMEOUT

    def test_an_unreachable_provider_is_a_failure(self) -> None:
        """RUN-25."""
        with serving(reply) as port:
            gone = port
        result = run({"question": SECRET}, openai_settings(gone))
        assert result == PackFailure(
            reason_code=PackReason.PACK_PROVIDER_FAILED, detail="openai_compatible: ConnectError"
        )

    def test_a_base_url_without_a_model_is_a_misconfiguration(self) -> None:
        """RUN-25: no guessing which model an operator pays for."""
        with pytest.raises(ConfigurationError, match="DPP_DECISION_OPENAI_MODEL"):
            run({"question": "?"}, {"DPP_DECISION_OPENAI_BASE_URL": "http://127.0.0.1:1"})

    def test_the_api_key_is_not_in_the_repr(self) -> None:
        """RUN-31."""
        assert "hush" not in repr(OpenAICompatibleEngine("http://x", "m", "hush"))


class TestBedrock:
    """Amazon Bedrock's Converse, checked by botocore against the service's own model (RUN-25)."""

    def ask(self, prepare: Callable[[Stubber], None]) -> Any:
        client = boto3.client(
            "bedrock-runtime", region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
        )
        with Stubber(client) as stubber:
            prepare(stubber)
            engine = BedrockEngine("model-id", client=lambda _seconds: cast("ConverseClient", client))
            inputs = DecisionInputs(question=SECRET, context="A context.")
            return engine.answer(inputs, deadline=time.monotonic() + 3)

    def response(self, text: str) -> dict[str, Any]:
        return {
            "output": {"message": {"role": "assistant", "content": [{"text": text}]}},
            "stopReason": "end_turn",
            "usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15},
            "metrics": {"latencyMs": 1},
        }

    def test_it_converses_and_counts_the_tokens(self) -> None:
        """RUN-25."""
        text = '{"answer_text": "Yes.", "confidence": 0.9}'
        answer = self.ask(lambda stubber: stubber.add_response("converse", self.response(text)))
        assert (answer.text, answer.confidence) == ("Yes.", 0.9)
        assert (answer.tokens_consumed, answer.model) == (15, "model-id")

    def test_a_throttled_model_is_asked_again(self) -> None:
        """RUN-25."""

        def prepare(stubber: Stubber) -> None:
            stubber.add_client_error("converse", "ThrottlingException", SECRET)
            stubber.add_response("converse", self.response("Yes."))

        assert self.ask(prepare).text == "Yes."

    @pytest.mark.parametrize(("code", "timed_out"), [("ValidationException", False), ("ModelTimeoutException", True)])
    def test_an_error_is_named_by_its_code_alone(self, code: str, timed_out: bool) -> None:
        """RUN-25, RUN-31: Bedrock's messages quote what was sent."""
        with pytest.raises(ProviderError) as failure:
            self.ask(lambda stubber: stubber.add_client_error("converse", code, SECRET))
        assert str(failure.value) == code
        assert failure.value.timed_out is timed_out

    def test_it_comes_before_an_openai_endpoint_when_both_are_configured(self) -> None:
        """RUN-25."""
        settings = {**openai_settings(1), "DPP_DECISION_BEDROCK_MODEL_ID": "model-id"}
        assert pack.choose_engine(ModelSettings.load(settings)) == BedrockEngine("model-id")
