"""Language models that answer, and those that answer nothing, garbage, late or twice (RUN-24, RUN-25)."""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any, cast

import boto3
import pytest
from botocore.stub import Stubber

from dpp.packs.contract import PackReason, PackType
from dpp.packs.models.asking import (
    MIN_REPLY_TOKENS,
    Fault,
    Model,
    ModelError,
    Prompt,
    Reply,
    TokenBudget,
    estimated_tokens,
)
from dpp.packs.models.bedrock import BedrockModel, BedrockOutput, ConverseClient
from dpp.packs.models.configured import BoundedModel, configured_model, token_budget
from dpp.packs.models.need import needs_model
from dpp.packs.models.openai_compatible import OpenAICompatibleModel
from dpp.platform.config import ModelSettings
from tests.packs.loopback import Respond, reply, serving
from tests.packs.models.test_reading import OBJECT, WANTED, Said

SECRET = "the-client-said-this"
PROMPT = Prompt(system="Answer.", user=SECRET, name="said", max_output_tokens=500)
HANGS_SECONDS = 60  # a provider is silent this long: far beyond the deadline, however slow the machine
RICH = 10**6


def completion(content: object = OBJECT, reason: str | None = "stop", tokens: int = 42, **message: object) -> bytes:
    usage = {"prompt_tokens": tokens - 2, "completion_tokens": 2, "total_tokens": tokens}
    choice = {"finish_reason": reason, "message": {"content": content} | message}
    return json.dumps({"choices": [choice], "usage": usage}).encode()


def ask(model: Model, budget: TokenBudget | None = None, seconds: float = 5) -> Reply[Said]:
    return model.ask(PROMPT, Said, budget=budget or TokenBudget(RICH), deadline=time.monotonic() + seconds)


def failed(model: Model, budget: TokenBudget | None = None, seconds: float = 5) -> ModelError:
    with pytest.raises(ModelError) as failure:
        ask(model, budget, seconds)
    assert SECRET not in str(failure.value)
    return failure.value


class Provider:
    """Answers with each (status, body, headers) in turn, repeats the last one, and keeps the requests."""

    def __init__(self, *answers: tuple[int, bytes] | tuple[int, bytes, dict[str, str]]) -> None:
        self.answers = list(answers)
        self.bodies: list[dict[str, Any]] = []

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        self.bodies.append(json.loads(handler.rfile.read()))
        status, body, *headers = self.answers[min(len(self.bodies), len(self.answers)) - 1]
        reply(handler, body, status=status, **(headers[0] if headers else {}))


def asked(respond: Respond, **options: Any) -> Reply[Said]:
    with serving(respond) as port:
        return ask(OpenAICompatibleModel(f"http://127.0.0.1:{port}/v1/", "some-model", "key", **options))


class TestOpenAICompatible:
    """Any endpoint that speaks chat completions."""

    def test_the_request_has_a_schema_and_a_limit_and_separates_the_clients_words(self) -> None:
        """RUN-25."""
        provider = Provider((200, completion(tokens=1_500)))
        found = asked(provider)
        assert found == Reply(WANTED, 1_498, 2, "stop")
        (body,) = provider.bodies
        assert body["model"] == "some-model"
        assert SECRET not in body["messages"][0]["content"]
        assert body["messages"][1]["content"] == SECRET
        assert body["response_format"]["json_schema"]["schema"]["required"] == ["answer", "sure"]
        assert (body["max_tokens"], body["temperature"]) == (500, 0)

    def test_limit_field_temperature_and_thoughts_are_as_configured(self) -> None:
        """RUN-25: newer models refuse max_tokens and a temperature."""
        environ = {
            "DPP_DECISION_OPENAI_MODEL": "m",
            "DPP_DECISION_OPENAI_RESPONSE_FORMAT": "json_object",
            "DPP_DECISION_OPENAI_TOKEN_LIMIT_FIELD": "max_completion_tokens",
            "DPP_DECISION_TEMPERATURE": "none",
            "DPP_DECISION_THINKING_TOKENS": "3000",
        }
        provider = Provider((200, completion()))
        with serving(provider) as port:
            url = {"DPP_DECISION_OPENAI_BASE_URL": f"http://127.0.0.1:{port}"}
            model = configured_model(ModelSettings.load(environ | url))
            assert model is not None
            ask(model)
        (body,) = provider.bodies
        assert body["max_completion_tokens"] == 3_500
        assert body["response_format"] == {"type": "json_object"}
        assert not {"max_tokens", "temperature"} & set(body)

    def test_a_provider_that_refuses_a_format_is_asked_with_the_next_and_not_again(self) -> None:
        """RUN-25: json_schema, json_object, words; the second question starts where the first ended."""
        provider = Provider((400, b"no"), (422, b"no"), (200, completion()))
        with serving(provider) as port:
            model = OpenAICompatibleModel(f"http://127.0.0.1:{port}", "m")
            assert ask(model).value == WANTED
            assert ask(model).value == WANTED
        formats = [body.get("response_format", {}).get("type") for body in provider.bodies]
        assert formats == ["json_schema", "json_object", None, None]

    def test_a_request_that_is_refused_in_every_format_is_a_failure(self) -> None:
        """RUN-25, RUN-31."""
        provider = Provider((400, SECRET.encode()))
        with serving(provider) as port:
            error = failed(OpenAICompatibleModel(f"http://127.0.0.1:{port}", "m"))
        assert (error.fault, str(error), len(provider.bodies)) == (Fault.REFUSED_REQUEST, "HTTP 400", 3)

    @pytest.mark.parametrize(
        ("status", "body", "calls", "fault", "detail"),
        [
            (500, SECRET.encode(), 3, Fault.BUSY, "HTTP 500"),
            (401, SECRET.encode(), 1, Fault.REFUSED_REQUEST, "HTTP 401"),
            (302, b"", 1, Fault.REFUSED_REQUEST, "HTTP 302"),
            (200, b"{" + SECRET.encode(), 1, Fault.NO_RESPONSE_FORMAT, "not a chat completion"),
            (200, completion() * 2, 1, Fault.NO_RESPONSE_FORMAT, "not a chat completion"),
            (200, b'{"choices": []}', 1, Fault.NO_RESPONSE_FORMAT, "not a chat completion"),
            (200, completion("x" * 1_000_000), 1, Fault.NO_RESPONSE_FORMAT, "a response of over 1 MB"),
            (200, completion(" "), 3, Fault.EMPTY, "an empty reply"),
            (200, completion(None), 3, Fault.EMPTY, "an empty reply"),
            (200, completion(SECRET), 3, Fault.GARBAGE, "a reply without the requested object"),
            (200, completion(OBJECT + '{"answer": "x", "sure": 1}'), 3, Fault.TWICE, "more than one answer"),
            (200, completion(reason="length"), 1, Fault.CUT, "cut at its length limit"),
            (200, completion("<think>well", None), 1, Fault.CUT, "ends in a thought"),
            (200, completion(reason="content_filter"), 1, Fault.FILTERED, "content filter"),
            (200, completion(refusal=SECRET), 1, Fault.DECLINED, "declined"),
            (200, completion(reason="surprise"), 3, Fault.GARBAGE, "unknown finish reason"),
        ],
    )
    def test_what_is_no_answer_is_a_typed_failure_in_fixed_words(
        self, status: int, body: bytes, calls: int, fault: Fault, detail: str
    ) -> None:
        """RUN-25, RUN-31: bounded retries, a bounded response; what was charged is counted."""
        provider, budget = Provider((status, body, {"Location": "http://127.0.0.1:1/"})), TokenBudget(RICH)
        with serving(provider) as port:
            error = failed(OpenAICompatibleModel(f"http://127.0.0.1:{port}", "m"), budget)
        assert error.fault is fault
        assert detail in str(error)
        assert len(provider.bodies) == calls
        counted = fault not in {Fault.BUSY, Fault.REFUSED_REQUEST, Fault.NO_RESPONSE_FORMAT}
        assert budget.spent == (42 * calls if counted else 0)

    def test_two_choices_are_two_answers(self) -> None:
        """RUN-25."""
        document = json.loads(completion())
        document["choices"] *= 2
        provider = Provider((200, json.dumps(document).encode()))
        with serving(provider) as port:
            assert failed(OpenAICompatibleModel(f"http://127.0.0.1:{port}", "m")).fault is Fault.TWICE

    @pytest.mark.parametrize("content", [OBJECT, [{"type": "text", "text": OBJECT}]])
    def test_a_reply_without_finish_reason_or_usage_is_whole_if_its_object_is(self, content: object) -> None:
        """RUN-25: small servers leave both out."""
        document = json.dumps({"choices": [{"message": {"content": content}}]}).encode()
        assert asked(Provider((200, document))) == Reply(WANTED, 0, 0, "")

    @pytest.mark.parametrize("pause", [None, "0", "9" * 21, f"Wed, 21 Oct {'9' * 21} 07:28:00 GMT", "soon"])
    def test_a_busy_provider_is_asked_again_whatever_pause_it_asks_for(self, pause: str | None) -> None:
        """RUN-25: a pause that is none is ignored."""
        headers = {} if pause is None else {"Retry-After": pause}
        provider = Provider((429, b"", headers), (503, b""), (200, completion()))
        assert asked(provider).value == WANTED
        assert len(provider.bodies) == 3

    def test_a_pause_that_does_not_fit_ends_the_attempts_at_once(self) -> None:
        """RUN-17."""
        provider = Provider((429, b"", {"Retry-After": "3600"}))
        with serving(provider) as port:
            assert failed(OpenAICompatibleModel(f"http://127.0.0.1:{port}", "m")).fault is Fault.BUSY
        assert len(provider.bodies) == 1

    def test_a_provider_that_is_silent_or_drips_is_given_up_at_the_deadline(self) -> None:
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
                error = failed(OpenAICompatibleModel(f"http://127.0.0.1:{port}", "m"), seconds=0.8)
                assert time.monotonic() - started < HANGS_SECONDS
                over.set()
            assert error.fault is Fault.LATE

    def test_an_unreachable_provider_is_a_failure(self) -> None:
        """RUN-25."""
        with serving(reply) as port:
            gone = port
        error = failed(OpenAICompatibleModel(f"http://127.0.0.1:{gone}", "m"))
        assert (error.fault, str(error)) == (Fault.UNREACHABLE, "ConnectError")

    def test_the_api_key_is_not_in_the_repr(self) -> None:
        """RUN-31."""
        assert "hush" not in repr(OpenAICompatibleModel("http://x", "m", "hush"))


class TestBedrock:
    """Amazon Bedrock's Converse, checked by botocore against the service's own model."""

    def model(self, prepare: Callable[[Stubber], None], output: BedrockOutput = "tool") -> BedrockModel:
        client = boto3.client(
            "bedrock-runtime", region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test"
        )
        stubber = Stubber(client)
        stubber.activate()
        prepare(stubber)
        return BedrockModel("model-id", output=output, client=lambda _seconds: cast("ConverseClient", client))

    def response(self, *content: dict[str, Any], reason: str = "end_turn") -> dict[str, Any]:
        return {
            "output": {"message": {"role": "assistant", "content": list(content)}},
            "stopReason": reason,
            "usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15},
            "metrics": {"latencyMs": 1},
        }

    def use(self, **value: object) -> dict[str, Any]:
        return {"toolUse": {"toolUseId": "1", "name": "said", "input": value}}

    @pytest.mark.parametrize("output", ["tool", "json_schema", "text"])
    def test_it_asks_in_the_configured_form_and_counts_the_tokens(self, output: BedrockOutput) -> None:
        """RUN-25: Bedrock's own model accepts each request."""
        content = self.use(answer="Yes {and} no.", sure=0.7) if output == "tool" else {"text": OBJECT}
        reason = "tool_use" if output == "tool" else "end_turn"
        budget = TokenBudget(RICH)
        model = self.model(lambda stub: stub.add_response("converse", self.response(content, reason=reason)), output)
        assert ask(model, budget) == Reply(WANTED, 10, 5, reason)
        assert budget.spent == 15

    def test_a_model_that_takes_no_tool_is_asked_in_words(self) -> None:
        """RUN-25."""

        def prepare(stub: Stubber) -> None:
            stub.add_client_error("converse", "ValidationException", SECRET)
            stub.add_response("converse", self.response({"text": OBJECT}))
            stub.add_response("converse", self.response({"text": OBJECT}))

        model = self.model(prepare)
        assert ask(model).value == WANTED
        assert ask(model).value == WANTED

    def test_a_throttled_model_is_asked_again(self) -> None:
        """RUN-25."""

        def prepare(stub: Stubber) -> None:
            stub.add_client_error("converse", "ThrottlingException", SECRET)
            stub.add_response("converse", self.response({"text": OBJECT}))

        assert ask(self.model(prepare)).value == WANTED

    @pytest.mark.parametrize(
        ("code", "fault"), [("AccessDeniedException", Fault.REFUSED_REQUEST), ("ModelTimeoutException", Fault.LATE)]
    )
    def test_an_error_is_named_by_its_code_alone(self, code: str, fault: Fault) -> None:
        """RUN-25, RUN-31: Bedrock's messages quote what was sent."""
        error = failed(self.model(lambda stub: stub.add_client_error("converse", code, SECRET)))
        assert (error.fault, str(error)) == (fault, code)

    @pytest.mark.parametrize(
        ("reason", "fault"),
        [
            ("max_tokens", Fault.CUT),
            ("model_context_window_exceeded", Fault.CUT),
            ("guardrail_intervened", Fault.FILTERED),
            ("content_filtered", Fault.FILTERED),
            ("refusal", Fault.DECLINED),
        ],
    )
    def test_a_reply_that_was_stopped_is_no_answer(self, reason: str, fault: Fault) -> None:
        """RUN-25: even where its object is whole."""
        budget = TokenBudget(RICH)
        answer = self.response({"text": OBJECT}, reason=reason)
        error = failed(self.model(lambda stub: stub.add_response("converse", answer)), budget)
        assert (error.fault, budget.spent) == (fault, 15)

    def test_two_uses_of_the_tool_that_differ_are_two_answers(self) -> None:
        """RUN-25."""
        content = (self.use(answer="Yes.", sure=1), self.use(answer="No.", sure=1))

        def prepare(stub: Stubber) -> None:
            for _ in range(3):
                stub.add_response("converse", self.response(*content, reason="tool_use"))

        assert failed(self.model(prepare)).fault is Fault.TWICE

    def test_it_comes_before_an_openai_endpoint_when_both_are_configured(self) -> None:
        """RUN-25."""
        openai = {"DPP_DECISION_OPENAI_BASE_URL": "http://x", "DPP_DECISION_OPENAI_MODEL": "m"}
        for environ, engine in (
            (openai | {"DPP_DECISION_BEDROCK_MODEL_ID": "b"}, "bedrock"),
            (openai, "openai_compatible"),
        ):
            model = configured_model(ModelSettings.load(environ))
            assert model is not None
            assert model.engine == engine
        assert configured_model(ModelSettings.load({})) is None


class TestBudget:
    """The reservation bounds what a call may cost (RUN-24)."""

    def test_a_reply_is_limited_to_what_the_reservation_leaves(self) -> None:
        """RUN-24."""
        provider = Provider((200, completion(tokens=10)))
        with serving(provider) as port:
            ask(OpenAICompatibleModel(f"http://127.0.0.1:{port}", "m"), TokenBudget(600))
        limit = provider.bodies[0]["max_tokens"]
        text = provider.bodies[0]["messages"][0]["content"] + SECRET
        assert limit == 600 - estimated_tokens(text) < 500

    def test_a_reservation_that_pays_for_no_reply_asks_nobody(self) -> None:
        """RUN-24: a typed failure with both figures, before any token is spent."""
        provider, budget = Provider((200, completion())), TokenBudget(MIN_REPLY_TOKENS)
        with serving(provider) as port:
            model = OpenAICompatibleModel(f"http://127.0.0.1:{port}", "m")
            error = failed(model, budget)
        assert provider.bodies == []
        failure = BoundedModel(model, budget, deadline=0).failure_of(error)
        assert failure.reason_code is PackReason.PACK_COST_ABOVE_MAXIMUM
        assert f"leaves {MIN_REPLY_TOKENS}" in failure.detail

    def test_attempts_that_were_charged_leave_less_for_the_next(self) -> None:
        """RUN-24: garbage is paid for, so it is not asked for again without end."""
        provider, budget = Provider((200, completion("garbage", tokens=400))), TokenBudget(900)
        with serving(provider) as port:
            model = OpenAICompatibleModel(f"http://127.0.0.1:{port}", "m")
            error = failed(model, budget)
        assert error.fault is Fault.OVER_BUDGET
        assert len(provider.bodies) == 2
        assert BoundedModel(model, budget, deadline=0).failure_of(error).tokens_consumed == 800

    def test_calls_at_the_same_time_share_the_budget(self) -> None:
        """RUN-24."""
        budget = TokenBudget(1_000)
        with budget.hold("x", max_output_tokens=600):
            with pytest.raises(ModelError, match="leaves 200") as failure, budget.hold("x", max_output_tokens=600):
                pass
            assert failure.value.fault is Fault.OVER_BUDGET
        with budget.hold("x", max_output_tokens=600) as limit:
            assert limit == 600

    @pytest.mark.parametrize(
        ("maximum", "other", "tokens"), [(100_000, 50_000, 5_000), (59_999, 50_000, 0), (10_000, 50_000, 0)]
    )
    def test_the_tokens_are_those_that_the_price_allows(self, maximum: int, other: int, tokens: int) -> None:
        """RUN-24, docs/packs.md: 0.01 USD per started 1,000 tokens."""
        assert token_budget(max_cost_usd_micros=maximum, other_cost_usd_micros=other).limit == tokens


@pytest.mark.parametrize(
    ("inputs", "needed"),
    [
        ({"metrics": [{"type": "judge"}]}, True),
        ({"metrics": [{"type": "exact_match"}]}, False),
        ({"metrics": "judge"}, False),
        ({"metrics": ["judge", None]}, False),
        ({}, False),
    ],
)
def test_only_an_eval_with_a_judge_gets_the_model(inputs: dict[str, Any], needed: bool) -> None:
    """D6, D8: whatever the inputs, also those that no schema has seen."""
    assert needs_model(PackType.EVAL, inputs) is needed
    assert needs_model(PackType.DECISION, {})
    assert not needs_model(PackType.URL, inputs)
