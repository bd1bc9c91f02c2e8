"""Requests to the internet: what is sent and returned, and what is kept secret (PLAT-2)."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from itertools import count
from typing import Any, cast

import httpx
import pytest
from botocore.exceptions import ReadTimeoutError

from dpp.lifecycle.config import CredentialSettings
from dpp.lifecycle.flow.egress import Credentials, Egress, PathRefused, address
from dpp.lifecycle.flow.errors import OutsideUnavailable
from dpp.lifecycle.flow.outside import OutsideFunction
from dpp.lifecycle.flow.ports import MAX_REPLY_BYTES, OUTCOME_HEADER, OutsideReply, OutsideRequest, Target
from dpp.platform.aws.renewable import Renewable
from lifecycle_outside.handler import handler
from tests.support.api import lambda_context

ENVIRON = {
    "DPP_GITHUB_URL": "https://ghe.example/api/v3",
    "DPP_GITHUB_TOKEN": "ghp_secret",
    "DPP_JIRA_URL": "https://x.atlassian.net/",
    "DPP_JIRA_USER": "a@b.c",
    "DPP_JIRA_TOKEN": "jira_secret",
    "DPP_SLACK_URL": "https://slack.com/api/chat.postMessage",
    "DPP_SLACK_TOKEN": "xoxb_secret",
}


def credentials(**secret: str) -> Credentials:
    return Credentials.of(CredentialSettings.load({} if secret else ENVIRON), secret)


def egress(answer: Callable[[httpx.Request], httpx.Response], **more: Any) -> Egress:
    kept = Renewable(more.pop("credentials", credentials()), more.pop("renewed", None))
    return Egress(kept, transport=httpx.MockTransport(answer), **more)


def get(
    path: str = "/notifications", target: Target = Target.GITHUB, headers: Mapping[str, str] | None = None
) -> OutsideRequest:
    return OutsideRequest(target=target, method="GET", path=path, headers=headers or {})


def test_each_target_has_its_address_and_its_credentials() -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, text="ok")

    way = egress(answer)
    way.ask(get("/notifications?page=1"))
    way.ask(get("/rest/api/3/search/jql?jql=a%20b", Target.JIRA))
    way.ask(OutsideRequest(target=Target.SLACK, method="POST", body='{"text": "한"}'))
    assert [(str(one.url), one.headers["authorization"]) for one in asked] == [
        ("https://ghe.example/api/v3/notifications?page=1", "Bearer ghp_secret"),
        ("https://x.atlassian.net/rest/api/3/search/jql?jql=a%20b", "Basic YUBiLmM6amlyYV9zZWNyZXQ="),
        ("https://slack.com/api/chat.postMessage", "Bearer xoxb_secret"),
    ]
    assert asked[2].content == '{"text": "한"}'.encode()


def test_caller_cannot_set_credentials_and_gets_only_known_headers() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == "Bearer ghp_secret"
        assert request.headers["host"] == "ghe.example"
        assert request.headers["if-none-match"] == '"e"'
        assert "cookie" not in request.headers
        sent = {"ETag": '"f"', "Set-Cookie": "s=1", "X-Poll-Interval": "60", OUTCOME_HEADER: "NOT_CONFIGURED"}
        return httpx.Response(304, headers=sent)

    asked = get(headers={"Authorization": "Bearer mine", "Host": "evil", "If-None-Match": '"e"', "Cookie": "c"})
    reply = egress(answer).ask(asked)
    assert reply == OutsideReply(status=304, headers={"etag": '"f"', "x-poll-interval": "60"})


def test_a_redirect_is_not_followed() -> None:
    reply = egress(lambda _: httpx.Response(302, headers={"location": "https://evil.example/"})).ask(get())
    assert (reply.status, reply.headers) == (302, {})


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/../user",
        "/a/..",
        "/a/%2e%2e/b",
        "/a/.%2E/b",
        "/a%2f..%2fb",
        "//evil.example/x",
        "/a\\..\\b",
        "/a#b",
        "/a b",
        "/한",
        "/a\nb",
    ],
)
@pytest.mark.parametrize("target", [Target.GITHUB, Target.JIRA])
def test_path_cannot_leave_the_base_url(path: str, target: Target) -> None:
    with pytest.raises(PathRefused):
        address(target, "https://ghe.example/api/v3", path)


def test_slack_has_no_path() -> None:
    with pytest.raises(PathRefused):
        address(Target.SLACK, "https://hooks.slack.com/services/T/B/x", "/y")


def test_unconfigured_target_is_not_called() -> None:
    way = egress(lambda _: httpx.Response(200), credentials=Credentials({}))
    for target in Target:
        reply = way.ask(get("" if target is Target.SLACK else "/x", target))
        assert (reply.status, reply.headers) == (501, {OUTCOME_HEADER: "NOT_CONFIGURED"})


@pytest.mark.parametrize("body", [b"a" * (MAX_REPLY_BYTES + 1), b"\x01" * (MAX_REPLY_BYTES // 3)])
def test_too_large_reply_is_reported(body: bytes) -> None:
    reply = egress(lambda _: httpx.Response(200, content=body)).ask(get())
    assert (reply.status, reply.headers, reply.body) == (502, {OUTCOME_HEADER: "REPLY_TOO_LARGE"}, "")


def test_largest_allowed_reply_is_returned_completely() -> None:
    body = "a" * MAX_REPLY_BYTES
    assert egress(lambda _: httpx.Response(200, text=body)).ask(get()).body == body


def test_slow_reply_times_out() -> None:
    def drip() -> Iterator[bytes]:
        while True:
            yield b"a"

    ticks = count(0, 5)
    way = egress(lambda _: httpx.Response(200, content=drip()), monotonic=lambda: float(next(ticks)))
    with pytest.raises(OutsideUnavailable, match="in time"):
        way.ask(get())


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, '{"ok": false, "error": "invalid_auth"}'),
        (200, '{"ok":false,"error":"token_revoked"}'),
        (403, "invalid_token"),
        (404, "no_service"),
    ],
)
def test_request_is_repeated_with_renewed_credentials_after_slack_rejects_them(status: int, body: str) -> None:
    old, new = (
        Credentials.of(CredentialSettings.load({}), {"slack_url": "https://slack.com/api/x", "slack_token": t})
        for t in ("old", "new")
    )

    def answer(request: httpx.Request) -> httpx.Response:
        is_new = request.headers["authorization"] == "Bearer new"
        return httpx.Response(200, text='{"ok": true}') if is_new else httpx.Response(status, text=body)

    asked = OutsideRequest(target=Target.SLACK, method="POST", body="{}")
    assert egress(answer, credentials=old, renewed=lambda: new).ask(asked).body == '{"ok": true}'
    assert egress(answer, credentials=old, renewed=lambda: old).ask(asked).body == body


def test_other_slack_errors_are_not_repeated() -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, text='{"ok": false, "error": "channel_not_found"}')

    egress(answer, renewed=lambda: credentials(slack_url="https://other.example")).ask(
        OutsideRequest(target=Target.SLACK, method="POST", body="{}")
    )
    assert len(asked) == 1


def test_no_error_and_no_repr_contains_a_secret() -> None:
    def broken(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(f"ghp_secret {request.headers}")

    with pytest.raises(OutsideUnavailable) as raised:
        egress(broken).ask(get())
    assert str(raised.value) == "outside is unavailable: ConnectError"
    assert raised.value.__cause__ is None
    assert "secret" not in repr(credentials())
    text = repr(CredentialSettings.load(ENVIRON))
    assert not any(value in text for name, value in ENVIRON.items() if "TOKEN" in name or "SLACK" in name)


def test_variable_overrides_the_secret() -> None:
    found = Credentials.of(CredentialSettings.load({"DPP_GITHUB_TOKEN": "given"}), {"github_token": "kept"})
    assert found.access_points[Target.GITHUB].headers == {"authorization": "Bearer given"}
    assert credentials(github_token="kept").access_points.keys() == {Target.GITHUB}


def test_current_credentials_are_used_after_a_rotation() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200 if request.headers["authorization"] == "Bearer new" else 401)

    way = egress(answer, credentials=credentials(github_token="old"), renewed=lambda: credentials(github_token="new"))
    assert [way.ask(get()).status for _ in range(2)] == [200, 200]
    same = egress(answer, credentials=credentials(github_token="old"), renewed=lambda: credentials(github_token="old"))
    assert same.ask(get()).status == 401


# By a direct invocation


class _Lambda:
    def __init__(self, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self._answer = answer

    def invoke(self, **call: Any) -> dict[str, Any]:
        return self._answer(call)


def outside_function(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> OutsideFunction:
    return OutsideFunction("dpp-outside", lambda _: cast(Any, _Lambda(answer)))


def test_client_and_function_agree_on_the_format(monkeypatch: pytest.MonkeyPatch) -> None:
    way = egress(lambda _: httpx.Response(200, text="한", headers={"etag": "e"}))
    monkeypatch.setattr("lifecycle_outside.handler.wiring", lambda: way)

    def run(call: dict[str, Any]) -> dict[str, Any]:
        assert call["FunctionName"] == "dpp-outside"
        answer = handler(json.loads(call["Payload"]), lambda_context())
        return {"Payload": BytesIO(json.dumps(answer).encode())}

    reply = outside_function(run).ask(get())
    assert (reply.status, reply.body, reply.headers["etag"]) == (200, "한", "e")


def _times_out(_: dict[str, Any]) -> dict[str, Any]:
    raise ReadTimeoutError(endpoint_url="https://lambda")


@pytest.mark.parametrize(
    "answer",
    [
        _times_out,
        lambda _: {"FunctionError": "Unhandled", "Payload": BytesIO(b'{"errorMessage": "secret"}')},
        lambda _: {"Payload": BytesIO(b"null")},
        lambda _: {"Payload": BytesIO(b'{"status": 200, "body": "secr')},
    ],
)
def test_incomplete_reply_is_unavailable(answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    with pytest.raises(OutsideUnavailable) as raised:
        outside_function(answer).ask(get())
    assert "secr" not in str(raised.value)


def test_function_logs_no_content(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    way = egress(lambda _: httpx.Response(200, text="words of people"))
    monkeypatch.setattr("lifecycle_outside.handler.wiring", lambda: way)
    request = OutsideRequest(target=Target.SLACK, method="POST", body="a message")
    handler(request.model_dump(mode="json"), lambda_context())
    logged = "".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert "SLACK" in logged
    assert not any(secret in logged for secret in ("a message", "words of people", "xoxb", "slack.com"))
