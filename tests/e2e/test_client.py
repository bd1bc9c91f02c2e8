"""The client and `dpp run` on the deployed stack: API Gateway's answers, S3's presigned URLs (RUN-1, RUN-4, RUN-10)."""

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import httpx
import pytest

from dpp_client import Client, InsufficientBudget, RunFailed, RunNotFound, Unauthorized
from tests.e2e.conftest import Platform

pytestmark = pytest.mark.e2e

INPUTS = {"question": "What does moving cost?", "context": "Moving costs two monthly rents. The team voted for it."}


class LosesTheFirstAnswer(httpx.HTTPTransport):
    """Everything arrives; the first answer doesn't come back."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        self.requests += 1
        if self.requests == 1:
            answer.read()
            raise httpx.ReadError("the answer is lost", request=request)
        return answer


def test_a_run_from_submit_to_its_verified_result(platform: Platform) -> None:
    """RUN-1, RUN-10: charged once, books balanced; a signature that doesn't fit is answered by a fresh URL."""
    tenant = platform.tenant()
    with Client(platform.state.api_base_url, tenant.token) as client:
        receipt = client.submit("decision", INPUTS, Decimal("0.25"), min_reliability_score=0.5, timebox_sec=20)
        run = client.wait(receipt, timeout=60)
        result = client.result(run)
        assert (run.status, run.money_state) == ("COMPLETED", "SETTLED")
        assert "two monthly rents" in result.data["answer_text"]
        assert result.envelope["cost"]["used_usd"] == str(run.cost.used_usd)
        assert run.result is not None
        spoilt = run.result.model_copy(
            update={"presigned_url": run.result.presigned_url.replace("X-Amz-Expires=600", "X-Amz-Expires=1")}
        )
        assert client.result(run.model_copy(update={"result": spoilt})) == result
        again = client.wait(client.submit("decision", INPUTS, "0.25", min_reliability_score=0.5, inline=True))
        assert again.result is not None
        assert client.result(again).raw == json.dumps(again.result.inline, ensure_ascii=False).encode()
    assert platform.position(tenant).balanced


def test_a_lost_answer_is_one_run(platform: Platform) -> None:
    """RUN-4: sent twice with one key, reserved once."""
    tenant = platform.tenant()
    transport = LosesTheFirstAnswer()
    with Client(platform.state.api_base_url, tenant.token, transport=transport) as client:
        receipt = client.submit("decision", INPUTS, "0.25", min_reliability_score=0.5)
        assert (receipt.replayed, transport.requests) == (True, 2)
        assert client.wait(receipt, timeout=60).cost.budget_remaining_usd > Decimal("9.7500")
    assert platform.position(tenant).balanced


def test_what_is_refused_and_what_fails(platform: Platform) -> None:
    """RUN-9, RUN-11, RUN-17."""
    tenant = platform.tenant(credit_usd_micros=300_000)
    with Client(platform.state.api_base_url, tenant.token) as client:
        with pytest.raises(InsufficientBudget) as empty:
            client.submit("decision", INPUTS, "0.31")
        assert empty.value.budget_remaining_usd == Decimal("0.3000")
        with pytest.raises(RunNotFound):
            client.get("00000000-0000-4000-8000-000000000000")
        unsure = client.wait(client.submit("decision", {"question": "Why?"}, "0.25"), timeout=60)
        with pytest.raises(RunFailed) as failed:
            client.result(unsure)
        assert failed.value.reason_code == "PACK_RELIABILITY_BELOW_MINIMUM"
    nobody = Client(platform.state.api_base_url, "dpp_" + "0" * 32 + "_" + "0" * 64)
    with nobody, pytest.raises(Unauthorized):
        nobody.submit("decision", INPUTS, "0.25")


def test_the_command_finds_the_local_stack_and_brings_the_answer(platform: Platform) -> None:
    """RUN-1: with nothing but a key; stdout is one document."""
    tenant = platform.tenant()
    words = ["run", "submit", "decision", "--max-cost", "0.25", "--min-reliability", "0.5", "--wait", "--json"]
    inputs = [word for name, value in INPUTS.items() for word in ("-i", f"{name}={value}")]
    environ = {name: value for name, value in os.environ.items() if name != "DPP_API_URL"}
    ended = subprocess.run(
        [Path(sys.executable).with_name("dpp"), *words, *inputs],
        env=environ | {"DPP_API_KEY": tenant.token},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    document = json.loads(ended.stdout)
    assert document["status"] == "COMPLETED"
    assert "two monthly rents" in document["envelope"]["data"]["answer_text"]
    assert platform.position(tenant).balanced
