"""The webhooks over HTTP: responses to the sources (LIFE-7, LIFE-10)."""

import json
import logging
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import boto3
import pytest

from dpp.lifecycle.flow.intake.webhook_http import MAX_DELIVERY_BYTES
from lifecycle_sentinel import handler as sentinel
from lifecycle_sentinel.handler import wiring as sentinel_wiring
from lifecycle_webhook.handler import handler, wiring
from tests.lifecycle.poll_environment import LOGIN, comment_id, recorded
from tests.lifecycle.signing import headers_of
from tests.support.api import gateway_event, lambda_context

SECRETS = {
    "DPP_GITHUB_WEBHOOK_SECRET": "of-github",
    "DPP_JIRA_WEBHOOK_SECRET": "of-jira",
    "DPP_SLACK_SIGNING_SECRET": "of-slack",
}
RETENTION = '{"horizon_days": 3000, "seen_days": 3100}'


@pytest.fixture
def environ(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    given = {"DATABASE_URL": database_url, "DPP_GITHUB_LOGIN": LOGIN, "DPP_RETENTION": RETENTION}
    for name, value in (given | SECRETS).items():
        monkeypatch.setenv(name, value)
    wiring.cache_clear()
    yield monkeypatch
    if wiring.cache_info().currsize:
        wiring().database.close()
    wiring.cache_clear()


def call(
    source: str, body: bytes | str, headers: Mapping[str, str | list[str]] | None = None, *, method: str = "POST"
) -> tuple[int, dict[str, Any]]:
    raw = body if isinstance(body, bytes) else body.encode()
    given = headers_of(source, raw) if headers is None else headers
    many = {name: value if isinstance(value, list) else [value] for name, value in given.items()}
    answer = handler(gateway_event(method, f"/v1/webhooks/{source}", many, body), lambda_context())
    view: dict[str, Any] = json.loads(answer["body"])
    return answer["statusCode"], view


def test_a_delivery_is_answered_202_with_what_became_of_it(environ: pytest.MonkeyPatch) -> None:
    body = json.dumps(recorded("github_delivery_issue_comment"))
    assert call("github", body) == (202, {"outcome": "ACCEPTED", "event_id": comment_id(1)})
    assert call("github", body.encode()) == (202, {"outcome": "DUPLICATE", "event_id": comment_id(1)})
    status, view = call("jira", json.dumps(recorded("jira_delivery_updated")))
    assert (status, view["outcome"]) == (202, "ACCEPTED")


def test_a_ping_is_ignored(environ: pytest.MonkeyPatch) -> None:
    body = b'{"zen": "Design for failure."}'
    assert call("github", body, headers_of("github", body, kind="ping")) == (202, {"outcome": "IGNORED"})


def test_slack_challenge_is_returned(environ: pytest.MonkeyPatch) -> None:
    body = b'{"type": "url_verification", "challenge": "3eZbrw1a"}'
    environ.setattr("dpp.lifecycle.flow.sources.signatures.SLACK_WINDOW_SECONDS", 10**9)
    assert call("slack", body) == (200, {"challenge": "3eZbrw1a"})


def test_what_slack_signed_long_ago_is_refused(environ: pytest.MonkeyPatch) -> None:
    environ.setattr("dpp.lifecycle.flow.sources.signatures.SLACK_WINDOW_SECONDS", -1)
    status, view = call("slack", b"{}")
    assert (status, view["reason_code"]) == (401, "DELIVERY_STALE")


def test_a_secret_that_was_rotated_is_fetched_by_the_first_delivery_that_it_signed(
    environ: pytest.MonkeyPatch, aws: None
) -> None:
    """A rotation needs no new containers."""
    secret = boto3.client("secretsmanager")
    kept = {"github_webhook_secret": "an-old-one"}
    arn = secret.create_secret(Name=f"flow-{uuid4().hex}", SecretString=json.dumps(kept))["ARN"]
    environ.delenv("DPP_GITHUB_WEBHOOK_SECRET")
    environ.setenv("DPP_LIFECYCLE_SECRET_ARN", arn)
    environ.setattr("dpp.platform.aws.secrets._MIN_AGE_SECONDS", 0)
    body = json.dumps(recorded("github_delivery_issue_comment"))
    assert call("github", body)[0] == 401
    secret.put_secret_value(SecretId=arn, SecretString=json.dumps({"github_webhook_secret": "of-github"}))
    assert call("github", body)[0] == 202
    assert call("github", body, {**headers_of("github", body.encode()), "X-Hub-Signature-256": "sha256=0"})[0] == 401


@pytest.mark.parametrize("source", ["github", "jira", "slack"])
def test_a_wrong_signature_is_401_and_no_body_is_read(environ: pytest.MonkeyPatch, source: str) -> None:
    for body in (b"{}", b"no json"):
        status, view = call(source, body, headers_of(source, b"other"))
        assert (status, view["reason_code"]) == (401, "SIGNATURE_INVALID")
    assert call(source, b"{}", {})[0] == 401


def test_a_401_names_what_it_wants(environ: pytest.MonkeyPatch) -> None:
    """RFC 9110, 15.5.2: only a 401 has a challenge."""
    wanted = {"github": ['Webhook-Signature realm="dpp"'], "gitlab": None}
    for source, challenges in wanted.items():
        answer = handler(gateway_event("POST", f"/v1/webhooks/{source}", {}, "{}"), lambda_context())
        assert answer["multiValueHeaders"].get("WWW-Authenticate") == challenges


@pytest.mark.parametrize("source", ["github", "jira", "slack"])
def test_a_source_that_is_not_configured_is_404(environ: pytest.MonkeyPatch, source: str) -> None:
    for name in SECRETS:
        environ.delenv(name)
    status, view = call(source, b"{}")
    assert (status, view["reason_code"]) == (404, "SOURCE_NOT_CONFIGURED")


def test_what_can_not_be_read_is_400_or_413(environ: pytest.MonkeyPatch) -> None:
    assert call("github", b'{"secret words')[0] == 400
    assert call("github", b"a" * (MAX_DELIVERY_BYTES + 1))[0] == 413
    body = b"{}"
    twice = headers_of("github", body) | {"X-Hub-Signature-256": ["a", "b"]}
    assert call("github", body, twice)[0] == 400


def test_there_is_nothing_else(environ: pytest.MonkeyPatch) -> None:
    assert call("gitlab", b"{}")[0] == 404
    assert call("github", b"{}", method="GET")[0] == 405


def test_without_postgres_the_source_may_call_again(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    status, view = call("github", json.dumps(recorded("github_delivery_issue_comment")))
    assert (status, view["reason_code"]) == (503, "DEPENDENCY_UNAVAILABLE")


def test_nothing_of_what_people_wrote_is_logged(environ: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    call("github", json.dumps(recorded("github_delivery_issue_comment")))
    logged = "".join(str(record.__dict__) for record in caplog.records)
    assert comment_id(1) in logged
    assert not any(words in logged for words in ("@dpp-bot", "Greetings", "octocat", "of-github"))


def test_sentinel_function_runs_a_tick(environ: pytest.MonkeyPatch) -> None:
    environ.delenv("DPP_GITHUB_LOGIN")
    environ.setenv("DPP_LIFECYCLE_OUTSIDE_FUNCTION", "outside")
    sentinel_wiring.cache_clear()
    try:
        assert sentinel.handler({}, lambda_context()) == {"accepted": 0, "sources": []}
        sentinel_wiring().database.close()
    finally:
        sentinel_wiring.cache_clear()
