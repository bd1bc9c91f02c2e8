"""The shipped packs through the shipped process, and their prices (RUN-17, RUN-23, RUN-25, RUN-26, D6)."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from dpp.packs import prices
from dpp.packs.contract import PackFailure, PackReason, PackRequest, PackResult, PackSuccess, PackType
from dpp.packs.executor import execute
from dpp.packs.inputs.decision import DecisionInputs
from dpp.packs.process import PackProcess
from dpp.packs.registry import INPUT_MODELS, available_packs
from tests.packs.loopback import reply, serving
from tests.packs.models.test_asking import completion

CONTEXT = "Refunds are possible within 30 days. Shipping is not refunded."


def run(pack_type: PackType, inputs: dict[str, JsonValue], environ: dict[str, str] | None = None) -> PackResult:
    request = PackRequest(run_id="run", pack_type=pack_type, inputs=inputs, timebox_sec=5, max_cost_usd_micros=250_000)
    with PackProcess({**os.environ, **(environ or {})}) as process:
        return process.run(request, cancelled=threading.Event())


def test_a_decision_runs_offline_with_nothing_configured() -> None:
    """RUN-25: the envelope says which engine spoke; the price is the document's figure."""
    result = run(PackType.DECISION, {"question": "When are refunds possible?", "context": CONTEXT})
    assert isinstance(result, PackSuccess), result
    assert result.data["engine"] == "extractive"
    assert result.data["answer_text"] == "Refunds are possible within 30 days."
    assert result.cost_usd_micros == 50_000


def test_a_decision_reaches_the_configured_provider() -> None:
    """RUN-25: the operator's settings pass into the process."""

    said = {"answer_text": "Yes.", "quotes": [], "confidence": 0.9}

    def respond(handler: BaseHTTPRequestHandler) -> None:
        reply(handler, completion(json.dumps(said), tokens=7))

    with serving(respond) as port:
        environ = {"DPP_DECISION_OPENAI_BASE_URL": f"http://127.0.0.1:{port}", "DPP_DECISION_OPENAI_MODEL": "m"}
        result = run(PackType.DECISION, {"question": "?"}, environ)
    assert isinstance(result, PackSuccess), result
    assert (result.data["engine"], result.tokens_consumed) == ("openai_compatible", 7)


def test_a_half_configured_provider_fails_by_name() -> None:
    """RUN-25."""
    result = run(PackType.DECISION, {"question": "?"}, {"DPP_DECISION_OPENAI_BASE_URL": "http://127.0.0.1:1"})
    assert isinstance(result, PackFailure), result
    assert result.reason_code == PackReason.PACK_FAILED
    assert "DPP_DECISION_OPENAI_MODEL" in result.detail


def test_a_url_pack_reaches_nothing_that_is_not_public() -> None:
    """RUN-26: in production's own wiring, with a server listening right there."""
    asked: list[str] = []

    def respond(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        reply(handler)

    with serving(respond) as port:
        urls: list[JsonValue] = [f"http://127.0.0.1:{port}/", "http://127.0.0.1/", "https://localhost/"]
        result = run(PackType.URL, {"urls": urls, "allow_http": True})
    assert isinstance(result, PackSuccess), result
    assert result.data == {"results": []}
    assert result.discard_log == []
    assert [entry["reason"] for entry in result.blocked_log] == ["LOOPBACK", "LOOPBACK", "LOOPBACK"]
    assert result.reliability_score == 0
    assert asked == []


@pytest.mark.parametrize(
    ("pack_type", "inputs", "reason"),
    [
        (PackType.OCR, {"images": []}, PackReason.PACK_INPUTS_INVALID),
        (PackType.DECISION, {"question": ""}, PackReason.PACK_INPUTS_INVALID),
    ],
)
def test_what_can_not_be_run_is_a_failure_without_words(
    pack_type: PackType, inputs: dict[str, JsonValue], reason: PackReason
) -> None:
    """RUN-3, RUN-31: the process trusts no check that was made elsewhere."""
    assert run(pack_type, inputs) == PackFailure(reason_code=reason)


def test_the_registry_loads_no_pack() -> None:
    """RUN-3: the API imports it at its cold start."""
    code = (
        "import sys, dpp.packs.registry, dpp.packs.contract, dpp.packs.prices; "
        "unwanted = {'httpx', 'httpcore', 'boto3', 'ssl', 'dpp.packs.process', 'idna', 're2', 'PIL', 'tesserocr'}; "
        "print(unwanted & set(sys.modules))"
    )
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert output.stdout.strip() == "set()"


def test_an_eval_runs_in_the_process_too() -> None:
    """RUN-28: the largest inputs that the API takes go through its pipe; the usual price is shown."""
    values: list[JsonValue] = [{"id": str(number), "value": "x" * 500} for number in range(1_000)]
    metrics: list[JsonValue] = [{"type": "exact_match", "threshold": 1}]
    result = run(PackType.EVAL, {"predictions": values, "references": values, "metrics": metrics})
    assert isinstance(result, PackSuccess), result
    assert result.data["verdict"] == "pass"
    assert result.cost_usd_micros == 10_000 + 10 * 500 + 1_000


def test_a_compliance_check_runs_in_the_process_too() -> None:
    """RUN-28, RUN-31: RE2 fits the process; a pattern that it refuses ends the run without a word of it."""
    inputs: dict[str, JsonValue] = {
        "documents": [{"id": "d", "text": "가" * 200_000}, {"id": "e", "text": "900101-1234568"}],
        "patterns": [{"id": "p", "pattern": "[0-9]{6}"}],
    }
    result = run(PackType.COMPLIANCE, inputs)
    assert isinstance(result, PackSuccess), result
    assert result.data["verdict"] == "fail"
    assert result.cost_usd_micros == 10_000 + 21 * 500 + 3 * 100
    refused = run(PackType.COMPLIANCE, inputs | {"patterns": [{"id": "p", "pattern": "("}]})
    assert refused == PackFailure(reason_code=PackReason.PACK_INPUTS_INVALID)


def test_these_packs_are_what_this_deployment_has() -> None:
    """RUN-3."""
    assert set(available_packs()) == set(INPUT_MODELS)
    assert set(available_packs()) == set(PackType)


def test_a_pack_that_a_deployment_lacks_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN-3: the process says so, whatever the API let pass."""
    monkeypatch.setattr("dpp.packs.executor.INPUT_MODELS", {PackType.DECISION: DecisionInputs})
    request = PackRequest(run_id="run", pack_type=PackType.OCR, inputs={}, timebox_sec=5, max_cost_usd_micros=250_000)
    assert execute(request, {}) == PackFailure(reason_code=PackReason.PACK_NOT_AVAILABLE)


@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"question": " \n"},
        {"question": "a" * 4_001},
        {"question": "?", "context": "a" * 200_001},
        {"question": "?", "mode": "long"},
        {"question": 1},
        {"question": "?", "model": "x"},
    ],
)
def test_a_decision_out_of_bounds_is_refused_without_quoting_it(inputs: dict[str, object]) -> None:
    """RUN-3, RUN-25, RUN-31."""
    with pytest.raises(ValidationError) as refused:
        DecisionInputs.model_validate(inputs)
    assert "input_value" not in str(refused.value)


@given(st.integers(0, 204_000), st.integers(0, 10**6), st.integers(0, 30), st.integers(0, 10**8))
def test_every_price_shows_exactly_in_four_decimal_places(characters: int, tokens: int, urls: int, size: int) -> None:
    """RUN-23: integers, multiples of 100 micros, and never less for more."""
    decision = prices.decision_cost_usd_micros(characters=characters, tokens=tokens)
    url = prices.url_cost_usd_micros(fetched_urls=urls, body_bytes=size)
    assert decision % 100 == url % 100 == 0
    assert prices.decision_cost_usd_micros(characters=characters + 1, tokens=tokens + 1) >= decision
    assert prices.url_cost_usd_micros(fetched_urls=urls + 1, body_bytes=size + 1) > url


@pytest.mark.parametrize(
    ("characters", "tokens", "micros"),
    [
        (0, 0, 50_000),
        (4_000, 0, 50_000),
        (4_001, 0, 50_100),
        (204_000, 0, 70_000),
        (10, 1, 60_000),
        (10, 2_001, 80_000),
    ],
)
def test_a_decision_costs_what_the_table_says(characters: int, tokens: int, micros: int) -> None:
    """RUN-23, RUN-25, docs/packs.md."""
    assert prices.decision_cost_usd_micros(characters=characters, tokens=tokens) == micros
