"""The metered run over HTTP on the deployed stack: API Gateway, Lambda, SQS, Lambda, S3 (RUN-1)."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.e2e.conftest import E2eTenant, Platform

pytestmark = pytest.mark.e2e

CONTEXT = "The lease ends in March. Moving costs two monthly rents. The team voted for the move."


def a_decision(**changes: Any) -> dict[str, Any]:
    """A decision for a quarter of a dollar."""
    body: dict[str, Any] = {
        "pack_type": "decision",
        "inputs": {"question": "What does moving cost?", "context": CONTEXT},
        "reservation": {"max_cost_usd": "0.2500", "timebox_sec": 20, "min_reliability_score": 0.5},
    }
    return body | changes


def costs(answer: httpx.Response) -> tuple[str, str, str]:
    """The cost headers."""
    return tuple(answer.headers[f"X-DPP-{name}"] for name in ("Cost-Reserved", "Cost-Used", "Budget-Remaining"))  # type: ignore[return-value]


def test_run_1_a_decision_runs_from_submit_to_its_settled_result(platform: Platform) -> None:
    """RUN-1: submit, poll, fetch by the presigned URL, check the SHA-256; charged once, books balanced."""
    tenant = platform.tenant()
    accepted = platform.submit(tenant, a_decision())
    assert accepted.status_code == 202
    receipt = accepted.json()
    assert receipt["status"] == "QUEUED"
    assert receipt["poll"] == {"href": f"/v1/runs/{receipt['run_id']}", "recommended_interval_ms": 1500}
    assert costs(accepted) == ("0.2500", "0.0000", "9.7500")

    view = platform.finished(tenant, receipt["run_id"])
    assert (view["status"], view["money_state"]) == ("COMPLETED", "SETTLED")
    fetched = httpx.get(view["result"]["presigned_url"], trust_env=False)
    assert fetched.status_code == 200
    assert hashlib.sha256(fetched.content).hexdigest() == view["result"]["sha256"]
    envelope = fetched.json()
    assert envelope["run_id"] == receipt["run_id"]
    assert envelope["cost"]["used_usd"] == view["cost"]["used_usd"]
    assert "two monthly rents" in envelope["data"]["answer_text"]
    assert envelope["data"]["engine"] == "extractive"

    last = platform.read(tenant, receipt["run_id"])
    cost = last.json()["cost"]
    assert costs(last) == (cost["reserved_usd"], cost["used_usd"], cost["budget_remaining_usd"])
    assert platform.position(tenant).balanced


def test_run_10_an_inline_result_stands_in_the_answer(platform: Platform) -> None:
    """RUN-3, RUN-10: options.inline = 1."""
    tenant = platform.tenant()
    run_id = platform.submit(tenant, a_decision(options={"inline": 1})).json()["run_id"]
    view = platform.finished(tenant, run_id)
    body = httpx.get(view["result"]["presigned_url"], trust_env=False).content
    assert view["result"]["inline"] == json.loads(body)


def test_run_10_a_tampered_presigned_url_opens_nothing(platform: Platform) -> None:
    """RUN-10, RUN-30: the bucket is private; a signature fits its own object only."""
    tenant = platform.tenant()
    run_id = platform.submit(tenant, a_decision()).json()["run_id"]
    url = platform.finished(tenant, run_id)["result"]["presigned_url"]
    bare, _, query = url.partition("?")
    assert "X-Amz-Expires=600" in query
    assert httpx.get(bare.replace("pack_envelope", "other") + "?" + query, trust_env=False).status_code in {403, 404}
    assert httpx.get(url.replace("X-Amz-Expires=600", "X-Amz-Expires=60000"), trust_env=False).status_code == 403


def test_run_26_a_url_run_never_reaches_the_inside(platform: Platform) -> None:
    """RUN-26: loopback and metadata addresses end in the blocked log, on the deployed stack too.

    No URL gave a result, so the run is FAILED at reliability 0, and its envelope has the logs.
    """
    tenant = platform.tenant()
    urls = ["https://127.0.0.1/", "https://169.254.169.254/latest/meta-data/", "http://example.com/"]
    body = a_decision(pack_type="url", inputs={"urls": urls})
    view = platform.finished(tenant, platform.submit(tenant, body).json()["run_id"])
    assert (view["status"], view["problem"]["reason_code"]) == ("FAILED", "PACK_RELIABILITY_BELOW_MINIMUM")
    envelope = httpx.get(view["result"]["presigned_url"], trust_env=False).json()
    assert envelope["data"]["results"] == []
    assert [entry["resolved_ip"] for entry in envelope["logs"]["blocked_log"]] == ["127.0.0.1", "169.254.169.254"]
    assert [entry["reason"] for entry in envelope["logs"]["discard_log"]] == ["NON_HTTPS"]
    assert platform.position(tenant).balanced


def test_run_4_fifty_identical_posts_at_once_are_one_run(platform: Platform) -> None:
    """RUN-4: one run, one reservation; the others get the same receipt or 409 with Retry-After."""
    tenant = platform.tenant()
    key = f"key-{uuid4()}"
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: platform.submit(tenant, a_decision(), Idempotency_Key=key), range(50)))
    accepted = [answer for answer in answers if answer.status_code == 202]
    waiting = [answer for answer in answers if answer.status_code == 409]
    assert len(accepted) + len(waiting) == 50
    assert len({answer.text for answer in accepted}) == 1
    assert all(answer.headers["Retry-After"] == "1" for answer in waiting)
    platform.finished(tenant, accepted[0].json()["run_id"])
    position = platform.position(tenant)
    assert (position.charges_usd_micros, position.open_reservations_usd_micros) == (50_000, 0)
    assert position.balanced


def test_run_4_a_replay_and_a_conflict(platform: Platform) -> None:
    """RUN-4: the same key with the same payload is the same receipt, with another it is 409."""
    tenant = platform.tenant()
    key = f"key-{uuid4()}"
    first = platform.submit(tenant, a_decision(), Idempotency_Key=key)
    again = platform.submit(tenant, a_decision(), Idempotency_Key=f'"{key}"')
    other = platform.submit(tenant, a_decision(inputs={"question": "Another?"}), Idempotency_Key=key)
    assert (first.status_code, again.status_code, again.text) == (202, 202, first.text)
    assert (other.status_code, other.json()["reason_code"]) == (409, "IDEMPOTENCY_CONFLICT")


@pytest.mark.parametrize(
    ("expected", "reason", "options"),
    [
        (400, "MALFORMED_REQUEST", {"content": b'{"pack_type": "decision",', "type": "application/json"}),
        (400, "MALFORMED_REQUEST", {"content": b'{"a": 1, "a": 2}', "type": "application/json"}),
        (400, "MALFORMED_REQUEST", {"content": b'{"a": "\\u0000"}', "type": "application/json"}),
        (400, "MALFORMED_REQUEST", {"content": b"[" * 65 + b"]" * 65, "type": "application/json"}),
        (413, "PAYLOAD_TOO_LARGE", {"content": b'"' + b"x" * 1_100_000 + b'"', "type": "application/json"}),
        (415, "UNSUPPORTED_MEDIA_TYPE", {"content": b"{}", "type": "text/plain"}),
        (422, "VALIDATION_FAILED", {"content": b"{}", "type": "application/json"}),
    ],
)
def test_run_9_a_bad_body_is_a_problem_and_reserves_nothing(
    platform: Platform, expected: int, reason: str, options: dict[str, Any]
) -> None:
    """RUN-9, RUN-13: a problem document with the cost headers; the books are untouched."""
    tenant = platform.tenant()
    headers = {"Content-Type": options["type"], "Idempotency-Key": f"key-{uuid4()}"}
    answer = platform.call("POST", "/v1/runs", tenant, headers=headers, content=options["content"])
    assert answer.status_code == expected
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["reason_code"] == reason
    assert costs(answer) == ("0.0000", "0.0000", "0.0000")
    position = platform.position(tenant)
    assert (position.open_reservations_usd_micros, position.balance_usd_micros) == (0, 10_000_000)


def test_run_4_two_idempotency_keys_are_refused(platform: Platform) -> None:
    """RUN-2: a request that names two keys names none."""
    tenant = platform.tenant()
    headers = [("Idempotency-Key", f"key-{uuid4()}") for _ in range(2)]
    headers.append(("Authorization", f"Bearer {tenant.token}"))
    answer = platform.http.request("POST", "/v1/runs", headers=headers, json=a_decision())
    assert (answer.status_code, answer.json()["reason_code"]) == (400, "MALFORMED_REQUEST")


def test_run_9_the_usual_refusals(platform: Platform) -> None:
    """RUN-9: 401, 402, 404, 405."""
    poor = platform.tenant(credit_usd_micros=100_000)
    nobody = E2eTenant("nobody", "dpp_" + "0" * 32 + "_" + "0" * 64, poor.caller)
    assert platform.submit(nobody, a_decision()).json()["reason_code"] == "AUTH_INVALID"
    assert platform.submit(None, a_decision()).status_code == 401
    empty = platform.submit(poor, a_decision())
    assert (empty.status_code, empty.json()["reason_code"]) == (402, "BUDGET_DRAINED")
    assert costs(empty)[2] == "0.1000"
    assert platform.call("GET", "/v2/nothing", poor).status_code == 404
    wrong = platform.call("DELETE", "/v1/runs", poor)
    assert (wrong.status_code, wrong.headers["Allow"]) == (405, "POST")


def test_run_11_a_foreign_an_unknown_and_a_malformed_id_are_indistinguishable(platform: Platform) -> None:
    """RUN-11, D13: the same status, header names and body, save where the body repeats the request."""
    owner, other = platform.tenant(), platform.tenant()
    run_id = platform.submit(owner, a_decision()).json()["run_id"]
    answers = [platform.read(other, wanted) for wanted in (run_id, str(uuid4()), "not-a-run", "%00", "a%20b" * 40)]
    for answer in answers:
        assert answer.status_code == 404
        body = answer.json() | {"instance": "", "trace_id": ""}
        assert body == answers[0].json() | {"instance": "", "trace_id": ""}
        assert set(answer.headers) == set(answers[0].headers)


def test_run_14_the_sixty_first_request_of_a_minute_waits(platform: Platform) -> None:
    """RUN-14: POST and GET share a bucket; 429 says when to come again."""
    tenant = platform.tenant(rate_limit_per_minute=5)
    answers = [platform.submit(tenant, a_decision())] + [platform.read(tenant, str(uuid4())) for _ in range(5)]
    limited = [answer for answer in answers if answer.status_code == 429]
    assert limited, [answer.status_code for answer in answers]
    assert limited[0].headers["Retry-After"] == "30"
    assert limited[0].headers["X-RateLimit-Limit"] == "5"
    assert limited[0].headers["X-RateLimit-Remaining"] == "0"


def test_run_32_health_and_readiness(platform: Platform) -> None:
    """RUN-32: alive, and every dependency answers."""
    assert platform.call("GET", "/healthz").json() == {"status": "ok"}
    ready = platform.call("GET", "/readyz")
    assert ready.status_code == 200
    assert ready.json()["checks"] == {"postgres": "ok", "redis": "ok", "s3": "ok", "sqs": "ok"}
