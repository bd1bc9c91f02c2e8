"""Authentication errors on the deployed stack: reported over HTTP, analysed, decided (AUTH-1 … AUTH-11)."""

import json
import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import httpx
import pytest

from dpp.platform.keys import operator_keys
from dpp_cli.local.localstack import client_session
from tests.e2e.conftest import E2eTenant, Platform

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PATH = "/api/auth-errors"
WITHIN_SECONDS = 90.0  # a first message meets three functions that start; the publisher's beat is a minute away
POLL_SECONDS = 0.5


@pytest.fixture(scope="module")
def tenant(platform: Platform) -> E2eTenant:
    """A service that reports."""
    return platform.tenant()


@pytest.fixture(scope="module")
def operator(platform: Platform) -> str:
    """An operator's key."""
    minted = operator_keys.mint()
    operator_keys.store(platform.database, minted, "kim")
    return minted.token


def _report(platform: Platform, tenant: E2eTenant, **changes: Any) -> httpx.Response:
    body = {
        "requestId": f"e2e-{uuid4()}",
        "occurredAt": "2026-03-01T12:00:00+09:00",
        "httpStatus": 401,
        "exceptionClass": "com.example.auth.TokenExpired",
        "stacktrace": "com.example.auth.TokenExpired: no\r\n\tat com.example.auth.Verifier.verify(Verifier.java:41)",
    }
    return platform.call("POST", PATH, tenant, json=body | changes)


def _asked(platform: Platform, operator: str, method: str, path: str, body: object = None) -> httpx.Response:
    sent: dict[str, Any] = {} if body is None else {"json": body}
    return platform.call(method, path, headers={"Authorization": f"Bearer {operator}"}, **sent)


def _analyzed(platform: Platform, operator: str, auth_error_id: str) -> Mapping[str, Any]:
    deadline = time.monotonic() + WITHIN_SECONDS
    while True:
        found: Mapping[str, Any] = _asked(platform, operator, "GET", f"{PATH}/{auth_error_id}").json()
        if found["status"] == "ANALYSIS_COMPLETED":
            return found
        assert time.monotonic() < deadline, f"nobody analysed it: {found}"
        time.sleep(POLL_SECONDS)


def test_reported_analysed_decided(platform: Platform, tenant: E2eTenant, operator: str) -> None:
    """The same failure twice is one cluster, decided at once."""
    service = f"e2e-{uuid4().hex[:8]}"
    trace = f"com.example.auth.TokenExpired: no\n\tat com.example.auth.{service.replace('-', '')}.verify(V.java:%d)"
    answers = [_report(platform, tenant, stacktrace=trace % line) for line in (41, 57)]
    assert [answer.status_code for answer in answers] == [201, 201]
    first, second = (_analyzed(platform, operator, answer.json()["authErrorId"]) for answer in answers)
    assert first["clusters"] == second["clusters"]
    (cluster,) = second["clusters"]
    assert cluster["errorCount"] == 2
    assert [event["processedStatus"] for event in first["events"]] == ["DONE", "DONE"]
    decided = _asked(
        platform,
        operator,
        "POST",
        f"{PATH}/clusters/{cluster['clusterId']}/decisions",
        {"decisionType": "RESOLVE", "reason": "end to end"},
    )
    assert decided.json() == {"decided": 2, "more": False}
    resolved = _asked(platform, operator, "GET", f"{PATH}?clusterId={cluster['clusterId']}").json()
    assert [one["status"] for one in resolved["authErrors"]] == ["RESOLVED", "RESOLVED"]


def test_what_is_posted_again_is_the_first(platform: Platform, tenant: E2eTenant) -> None:
    first = _report(platform, tenant, requestId="e2e-again")
    again = _report(platform, tenant, requestId="e2e-again")
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["authErrorId"] == first.json()["authErrorId"]
    other = _report(platform, tenant, requestId="e2e-again", httpStatus=403)
    assert (other.status_code, other.json()["reason_code"]) == (409, "AUTH_ERROR_CONFLICT")


def test_a_malformed_message_goes_to_the_dead_letters_with_its_reason(platform: Platform) -> None:
    """AUTH-7: through the deployed queues."""
    sqs = client_session(platform.state.aws_endpoint_url).client("sqs", endpoint_url=platform.state.aws_endpoint_url)
    outputs = platform.state.outputs
    sqs.send_message(
        QueueUrl=outputs["AuthErrorQueueUrl"],
        MessageBody=json.dumps({"authErrorId": str(uuid4())}),
        MessageAttributes={"eventType": {"DataType": "String", "StringValue": "auth.error.recorded.v1"}},
    )
    deadline = time.monotonic() + WITHIN_SECONDS
    while True:
        found = sqs.receive_message(
            QueueUrl=outputs["AuthErrorDeadLetterQueueUrl"],
            MessageAttributeNames=["All"],
            VisibilityTimeout=0,
            WaitTimeSeconds=2,
        )
        if letters := found.get("Messages", []):
            break
        assert time.monotonic() < deadline, "no dead letter came"
    attributes = {name: value["StringValue"] for name, value in letters[0]["MessageAttributes"].items()}
    assert attributes["deadLetterReason"] == "MISSING_HEADER"
    assert attributes["deadLetterDetail"] == "outboxId, aggregateType"
    sqs.delete_message(QueueUrl=outputs["AuthErrorDeadLetterQueueUrl"], ReceiptHandle=letters[0]["ReceiptHandle"])
